"""A change of JSON: what is merged in, and what goes. Pure. Source: reference ``applications-api`` §6.2."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any


def changed(data: Mapping[str, Any], *, merged: Mapping[str, Any], removed: Iterable[str]) -> dict[str, Any]:
    """``data`` with ``merged`` in it and without the dotted paths ``removed``; a path that is not there changes nothing."""
    outcome = _merge(data, merged)
    for path in removed:
        outcome = _without(outcome, path.split("."))
    return outcome


def _merge(below: Mapping[str, Any], above: Mapping[str, Any]) -> dict[str, Any]:
    """Objects member by member; everything else is replaced."""
    outcome = dict(below)
    for name, value in above.items():
        there = outcome.get(name)
        outcome[name] = _merge(there, value) if isinstance(there, dict) and isinstance(value, dict) else value
    return outcome


def _without(value: Mapping[str, Any], path: list[str]) -> dict[str, Any]:
    name, *rest = path
    outcome = dict(value)
    if not rest:
        outcome.pop(name, None)
    elif isinstance(outcome.get(name), dict):
        outcome[name] = _without(outcome[name], rest)
    return outcome
