"""What arrived between two runs, as ranges of offsets, and which windows a run examines (ADR 0049).

A run notes how far each partition is stored. What is new since the run before is its *window*. A trace is quiet if no
later window has an arrival of it, so no clock of a worker decides. Times are those of the runs.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Final, NamedTuple, TypeAlias

import orjson

from common.clickhouse.settling import RecordPlace
from common.parts import parts_of

RANGES_MAX: Final = 128
"""Partitions in one statement; others follow."""


class Range(NamedTuple):
    """Offsets of one partition; both ends are included."""

    first: int
    last: int


Ranges: TypeAlias = Mapping[str, Range]
"""By partition id."""


class StoredWindow(NamedTuple):
    """What was stored between the run before and this one."""

    run: int
    ranges: Ranges


def moved(before: Mapping[str, int], now: Mapping[str, int]) -> dict[str, Range]:
    """Return what was stored since ``before``, both as the last offset of each partition.

    A partition that went back was restored from a backup: what it stores from there on is new again.
    """
    return {
        partition_id: Range(before.get(partition_id, -1) + 1, last)
        for partition_id, last in now.items()
        if last > before.get(partition_id, -1)
    }


def together(windows: Iterable[Ranges]) -> dict[str, Range]:
    """Return the ranges of windows, in the order of their runs, as one range of each partition."""
    joined: dict[str, Range] = {}
    for ranges in windows:
        for partition_id, (first, last) in ranges.items():
            known = joined.get(partition_id, Range(first, last))
            joined[partition_id] = Range(min(known.first, first), max(known.last, last))
    return joined


def part_of(ranges: Ranges, *, offsets_max: int) -> dict[str, Range]:
    """Return the ranges that one statement reads: the first by partition id, at most ``offsets_max`` offsets."""
    part: dict[str, Range] = {}
    left = offsets_max
    for partition_id, (first, last) in sorted(ranges.items())[:RANGES_MAX]:
        if left <= 0:
            break
        part[partition_id] = Range(first, min(last, first + left - 1))
        left -= last - first + 1
    return part


def ranges_in_parts(ranges: Ranges) -> list[dict[str, Range]]:
    """Return all ranges in parts that one statement reads."""
    return [dict(part) for part in parts_of(sorted(ranges.items()), RANGES_MAX)]


def without_rest(ranges: Ranges, rest: Ranges) -> dict[str, Range]:
    """Return ranges without what ``rest_of`` left of them."""
    read: dict[str, Range] = {}
    for partition_id, (first, last) in ranges.items():
        end = rest[partition_id].first - 1 if partition_id in rest else last
        if first <= end:
            read[partition_id] = Range(first, end)
    return read


def rest_of(ranges: Ranges, part: Ranges, last: RecordPlace | None) -> dict[str, Range]:
    """Return what is left of ``ranges`` after ``part`` was read: all of it, or up to ``last``."""
    left: dict[str, Range] = {}
    for partition_id, (first, end) in ranges.items():
        following = first
        if partition_id in part and (last is None or partition_id < last.partition_id):
            following = part[partition_id].last + 1
        elif last is not None and partition_id == last.partition_id:
            following = last.offset + 1
        if following <= end:
            left[partition_id] = Range(following, end)
    return left


def ranges_json(ranges: Ranges) -> str:
    """Return ranges as JSON."""
    return orjson.dumps({name: list(each) for name, each in ranges.items()}).decode()


def ranges_of_json(text: str) -> dict[str, Range]:
    """Return what ``ranges_json`` wrote."""
    return {name: Range(*each) for name, each in orjson.loads(text).items()}
