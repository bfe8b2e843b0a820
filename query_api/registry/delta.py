"""A change of JSON: what is merged in, and what goes. Pure. Source: reference ``applications-api`` §6.2."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from typing import Any


def changed(data: Mapping[str, Any], *, merged: Mapping[str, Any], removed: Iterable[str]) -> dict[str, Any]:
    """``data`` with ``merged`` in it and without the dotted paths ``removed``; a path that is not there changes nothing."""
    return _without(_merge(data, merged), [path.split(".") for path in removed])


def _merge(below: Mapping[str, Any], above: Mapping[str, Any]) -> dict[str, Any]:
    """Objects member by member; everything else is replaced."""
    outcome = dict(below)
    for name, value in above.items():
        there = outcome.get(name)
        outcome[name] = _merge(there, value) if isinstance(there, dict) and isinstance(value, dict) else value
    return outcome


def _without(value: Mapping[str, Any], paths: Iterable[Sequence[str]]) -> dict[str, Any]:
    """All paths in one pass: as many as a body can hold, out of as many members."""
    gone: set[str] = set()
    below: defaultdict[str, list[Sequence[str]]] = defaultdict(list)
    for name, *rest in paths:
        if rest:
            below[name].append(rest)
        else:
            gone.add(name)
    outcome = {name: each for name, each in value.items() if name not in gone}
    for name, rests in below.items():
        if isinstance(there := outcome.get(name), dict):
            outcome[name] = _without(there, rests)
    return outcome
