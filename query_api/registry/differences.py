"""What differs between two JSON values, as a list of changes. Pure.

Objects are compared member by member. Arrays: what is the same at both ends stays, the rest is compared place by place. Paths are
JSON Pointers (RFC 6901); those of what was removed count in the older value, all others in the newer one.
"""

from __future__ import annotations

from collections.abc import Iterator
from enum import StrEnum
from typing import Any, Final, NamedTuple


class Op(StrEnum):
    """What happened at a path."""

    ADDED = "added"
    REMOVED = "removed"
    CHANGED = "changed"


class _Absent:
    """Marks the side on which there is nothing: ``null`` is something."""


ABSENT: Final = _Absent()


class Difference(NamedTuple):
    """One change."""

    op: Op
    path: str
    before: Any = ABSENT
    after: Any = ABSENT


def differences(before: Any, after: Any, *, path: str = "") -> Iterator[Difference]:
    """The changes that lead from one value to the other, in the order of the values; ``ABSENT`` is no value."""
    if before is ABSENT:
        yield Difference(Op.ADDED, path, after=after)
    elif after is ABSENT:
        yield Difference(Op.REMOVED, path, before=before)
    elif isinstance(before, dict) and isinstance(after, dict):
        for name in dict.fromkeys((*before, *after)):
            below = f"{path}/{_escaped(name)}"
            yield from differences(before.get(name, ABSENT), after.get(name, ABSENT), path=below)
    elif isinstance(before, list) and isinstance(after, list):
        yield from _of_arrays(before, after, path=path)
    elif not _is_same(before, after):
        yield Difference(Op.CHANGED, path, before, after)


def _of_arrays(before: list[Any], after: list[Any], *, path: str) -> Iterator[Difference]:
    start = _same_count(zip(before, after, strict=False))
    end = _same_count(zip(reversed(before[start:]), reversed(after[start:]), strict=False))
    old, new = before[start : len(before) - end], after[start : len(after) - end]
    for place in range(max(len(old), len(new))):
        one = old[place] if place < len(old) else ABSENT
        other = new[place] if place < len(new) else ABSENT
        yield from differences(one, other, path=f"{path}/{start + place}")


def _same_count(pairs: Iterator[tuple[Any, Any]]) -> int:
    """How many pairs are the same before the first that is not."""
    count = 0
    for one, other in pairs:
        if not _is_same(one, other):
            break
        count += 1
    return count


def _is_same(one: Any, other: Any) -> bool:
    """As JSON: ``true`` is not 1, and 1 is not 1.0."""
    if isinstance(one, dict) and isinstance(other, dict):
        return one.keys() == other.keys() and all(_is_same(value, other[name]) for name, value in one.items())
    if isinstance(one, list) and isinstance(other, list):
        return len(one) == len(other) and all(_is_same(*pair) for pair in zip(one, other, strict=True))
    return type(one) is type(other) and bool(one == other)


def _escaped(name: str) -> str:
    return name.replace("~", "~0").replace("/", "~1")
