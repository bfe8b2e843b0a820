"""Applying a delta to JSON, and the changes between two JSON values. Pure.

Source: reference ``applications-api`` §6.2 (deltas). The list of changes is ours; paths are JSON Pointers (RFC 6901).
"""

from __future__ import annotations

import json
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from enum import StrEnum
from typing import Any, Final, NamedTuple


def changed(data: Mapping[str, Any], *, merged: Mapping[str, Any], removed: Iterable[str]) -> dict[str, Any]:
    """Return ``data`` with ``merged`` merged in and without the dotted paths ``removed``; a missing path changes
    nothing.
    """
    return _without(_merge(data, merged), [path.split(".") for path in removed])


def _merge(below: Mapping[str, Any], above: Mapping[str, Any]) -> dict[str, Any]:
    """Merge objects member by member; every other value is replaced."""
    merged = dict(below)
    for name, value in above.items():
        old = merged.get(name)
        merged[name] = _merge(old, value) if isinstance(old, dict) and isinstance(value, dict) else value
    return merged


def _without(value: Mapping[str, Any], paths: Iterable[Sequence[str]]) -> dict[str, Any]:
    """Remove all paths in one pass: a body can hold as many paths as members."""
    removed: set[str] = set()
    below: defaultdict[str, list[Sequence[str]]] = defaultdict(list)
    for name, *rest in paths:
        if rest:
            below[name].append(rest)
        else:
            removed.add(name)
    kept = {name: member for name, member in value.items() if name not in removed}
    for name, rests in below.items():
        if isinstance(member := kept.get(name), dict):
            kept[name] = _without(member, rests)
    return kept


class Op(StrEnum):
    """What happened at a path."""

    ADDED = "added"
    REMOVED = "removed"
    CHANGED = "changed"


class _Absent:
    """Marks the side that has no value; ``null`` is a value."""


ABSENT: Final = _Absent()


class Difference(NamedTuple):
    """One change. The path of a removed value counts array places in the older value, every other path in the newer
    one.
    """

    op: Op
    path: str
    before: Any = ABSENT
    after: Any = ABSENT


def differences(before: Any, after: Any, *, path: str = "") -> Iterator[Difference]:
    """Yield the changes that lead from one value to the other, in the order of the values.

    Objects are compared member by member. Arrays keep what is equal at both ends; the rest is compared place by place.
    """
    if before is ABSENT:
        yield Difference(Op.ADDED, path, after=after)
    elif after is ABSENT:
        yield Difference(Op.REMOVED, path, before=before)
    elif isinstance(before, dict) and isinstance(after, dict):
        for name in dict.fromkeys((*before, *after)):
            below = f"{path}/{_escaped(name)}"
            yield from differences(before.get(name, ABSENT), after.get(name, ABSENT), path=below)
    elif isinstance(before, list) and isinstance(after, list):
        yield from _array_differences(before, after, path=path)
    elif not _is_same(before, after):
        yield Difference(Op.CHANGED, path, before, after)


def changes_json(before: str, after: str) -> tuple[int, bytes]:
    """Return the number of changes between two JSON texts, and the list of them as JSON."""
    changes = [_members(change) for change in differences(json.loads(before), json.loads(after))]
    return len(changes), json.dumps(changes, ensure_ascii=False, separators=(",", ":")).encode()


def _members(change: Difference) -> dict[str, Any]:
    sides = (("from", change.before), ("to", change.after))
    return {"op": change.op, "path": change.path, **{side: value for side, value in sides if value is not ABSENT}}


def _array_differences(before: list[Any], after: list[Any], *, path: str) -> Iterator[Difference]:
    start = _same_count(zip(before, after, strict=False))
    end = _same_count(zip(reversed(before[start:]), reversed(after[start:]), strict=False))
    old, new = before[start : len(before) - end], after[start : len(after) - end]
    for place in range(max(len(old), len(new))):
        one = old[place] if place < len(old) else ABSENT
        other = new[place] if place < len(new) else ABSENT
        yield from differences(one, other, path=f"{path}/{start + place}")


def _same_count(pairs: Iterator[tuple[Any, Any]]) -> int:
    """Count the pairs before the first that differs."""
    count = 0
    for one, other in pairs:
        if not _is_same(one, other):
            break
        count += 1
    return count


def _is_same(one: Any, other: Any) -> bool:
    """Compare as JSON: ``true`` is not 1, and 1 is not 1.0."""
    if isinstance(one, dict) and isinstance(other, dict):
        return one.keys() == other.keys() and all(_is_same(value, other[name]) for name, value in one.items())
    if isinstance(one, list) and isinstance(other, list):
        return len(one) == len(other) and all(_is_same(*pair) for pair in zip(one, other, strict=True))
    return type(one) is type(other) and bool(one == other)


def _escaped(name: str) -> str:
    return name.replace("~", "~0").replace("/", "~1")
