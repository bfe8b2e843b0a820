"""Applying a delta to JSON, and the changes between two JSON values. Pure.

Source: reference ``applications-api`` §6.2 (deltas). The list of changes is ours; paths are JSON Pointers (RFC 6901).
"""

from __future__ import annotations

import json
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from enum import StrEnum
from typing import Any, Final, NamedTuple

from query_api.registry.alignment import ComparisonBudget, common_places
from query_api.registry.text_diff import line_changes


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


class _Paths(NamedTuple):
    """Where a value is: as the older value counts array places, and as the newer one does."""

    old: str
    new: str

    def member(self, name: str) -> _Paths:
        below = pointer_step(name)
        return _Paths(f"{self.old}/{below}", f"{self.new}/{below}")


def differences(before: Any, after: Any, budget: ComparisonBudget | None = None) -> Iterator[Difference]:
    """Yield the changes that lead from one value to the other, in the order of the values.

    Objects are compared member by member. Equal elements of arrays are matched in their order; between them messages
    pair with the next message of the same role, all other elements place by place.
    """
    return _differences(before, after, _Paths("", ""), budget or ComparisonBudget())


def _differences(before: Any, after: Any, paths: _Paths, budget: ComparisonBudget) -> Iterator[Difference]:
    if before is ABSENT:
        yield Difference(Op.ADDED, paths.new, after=after)
    elif after is ABSENT:
        yield Difference(Op.REMOVED, paths.old, before=before)
    elif isinstance(before, dict) and isinstance(after, dict):
        for name in dict.fromkeys((*before, *after)):
            sides = before.get(name, ABSENT), after.get(name, ABSENT)
            yield from _differences(*sides, paths.member(name), budget)
    elif isinstance(before, list) and isinstance(after, list):
        yield from _array_differences(before, after, paths, budget)
    elif not _is_same(before, after):
        yield Difference(Op.CHANGED, paths.new, before, after)


def changes_json(
    before: str, after: str, *, with_lines: bool = False, budget: ComparisonBudget | None = None
) -> tuple[int, bytes]:
    """Return the number of changes between two JSON texts, and the list of them as JSON: members of ``Change``."""
    budget = budget or ComparisonBudget()
    listed = list(differences(json.loads(before), json.loads(after), budget))
    changes = [_members(change, budget if with_lines else None) for change in listed]
    return len(changes), json.dumps(changes, ensure_ascii=False, separators=(",", ":")).encode()


def _members(change: Difference, budget: ComparisonBudget | None) -> dict[str, Any]:
    sides = (("from", change.before), ("to", change.after))
    members = {"op": change.op, "path": change.path, **{side: value for side, value in sides if value is not ABSENT}}
    if budget is not None and isinstance(change.before, str) and isinstance(change.after, str):
        members["lines"] = line_changes(change.before, change.after, budget)
    return members


def _array_differences(
    before: list[Any], after: list[Any], paths: _Paths, budget: ComparisonBudget
) -> Iterator[Difference]:
    start = _same_count(zip(before, after, strict=False))
    end = _same_count(zip(reversed(before[start:]), reversed(after[start:]), strict=False))
    old, new = before[start : len(before) - end], after[start : len(after) - end]
    for place, other in _partners(old, new, budget):
        one = ABSENT if place is None else old[place]
        another = ABSENT if other is None else new[other]
        below = _Paths(f"{paths.old}/{start + (place or 0)}", f"{paths.new}/{start + (other or 0)}")
        yield from _differences(one, another, below, budget)


def _partners(old: list[Any], new: list[Any], budget: ComparisonBudget) -> Iterator[tuple[int | None, int | None]]:
    """Yield the places of elements to compare, in the order of both arrays; one side is absent if there is none."""
    equal = common_places([_comparable(value) for value in old], [_comparable(value) for value in new], budget)
    place = other = 0
    for one, another in [*equal, (len(old), len(new))]:
        yield from _partners_between(old, new, range(place, one), range(other, another), budget)
        place, other = one + 1, another + 1


def _partners_between(
    old: list[Any], new: list[Any], places: range, others: range, budget: ComparisonBudget
) -> Iterator[tuple[int | None, int | None]]:
    """Yield the places of elements to compare where none is equal."""
    roles = [_role(old[place]) for place in places], [_role(new[other]) for other in others]
    done = done_other = 0
    for one, another in [*common_places(*roles, budget), (len(places), len(others))]:
        yield from ((place, None) for place in places[done:one])
        yield from ((None, other) for other in others[done_other:another])
        if one < len(places):
            yield places[one], others[another]
        done, done_other = one + 1, another + 1


def _comparable(value: Any) -> str:
    return json.dumps(value, sort_keys=True)


def _role(value: Any) -> str | None:
    """Return the role of a message; nothing for any other value."""
    role = value.get("role") if isinstance(value, dict) else None
    return role if isinstance(role, str) else None


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


def pointer_step(name: str) -> str:
    """Return a name as a JSON Pointer has it."""
    return name.replace("~", "~0").replace("/", "~1")
