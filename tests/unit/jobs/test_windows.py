"""What arrived between two runs, and what is left of it (ADR 0049)."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from common.clickhouse.settling import RecordPlace
from jobs.settling.windows import (
    RANGES_MAX,
    Range,
    moved,
    part_of,
    ranges_in_parts,
    ranges_json,
    ranges_of_json,
    rest_of,
    together,
    without_rest,
)

OFFSETS = st.integers(0, 30)
RANGES = st.dictionaries(
    st.sampled_from("abcd"), st.builds(lambda first, more: Range(first, first + more), OFFSETS, st.integers(0, 9))
)


def offsets_in(ranges: dict[str, Range]) -> set[tuple[str, int]]:
    return {(name, offset) for name, (first, last) in ranges.items() for offset in range(first, last + 1)}


def test_window_begins_after_the_one_before() -> None:
    assert moved({"a": 3, "b": 5}, {"a": 7, "b": 5, "c": 0}) == {"a": Range(4, 7), "c": Range(0, 0)}


def test_partition_that_went_back_is_read_again_from_there() -> None:
    assert moved({"a": 9}, {"a": 4}) == {}
    assert moved({"a": 4}, {"a": 9}) == {"a": Range(5, 9)}


def test_windows_in_a_row_are_one_range() -> None:
    assert together([{"a": Range(0, 3)}, {"b": Range(1, 2)}, {"a": Range(4, 9)}]) == {
        "a": Range(0, 9),
        "b": Range(1, 2),
    }


@given(RANGES, st.integers(1, 7), st.integers(1, 20))
def test_parts_of_a_window_are_all_of_it_once(ranges: dict[str, Range], rows_max: int, offsets_max: int) -> None:
    """Each step reads the first records in the order of partitions and offsets."""
    seen: list[tuple[str, int]] = []
    rest = ranges
    while rest:
        part = part_of(rest, offsets_max=offsets_max)
        records = sorted(offsets_in(part))
        assert 1 <= len(records) <= offsets_max
        seen += records[:rows_max]
        last = RecordPlace(*records[rows_max - 1]) if len(records) >= rows_max else None
        rest = rest_of(rest, part, last)
        assert sorted(offsets_in(without_rest(ranges, rest))) == sorted(seen)
    assert sorted(seen) == sorted(offsets_in(ranges))
    assert len(seen) == len(set(seen))


def test_more_partitions_than_a_statement_takes() -> None:
    ranges = {f"p{number:04d}": Range(0, number) for number in range(3 * RANGES_MAX + 1)}
    assert [len(part) for part in ranges_in_parts(ranges)] == [RANGES_MAX] * 3 + [1]
    left = rest_of(ranges, part_of(ranges, offsets_max=10**6), None)
    assert len(left) == 2 * RANGES_MAX + 1


@given(RANGES)
def test_ranges_are_the_same_after_json(ranges: dict[str, Range]) -> None:
    assert ranges_of_json(ranges_json(ranges)) == ranges
