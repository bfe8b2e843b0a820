"""The order of arrivals in the feed, and positions in its cursor."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from common.errors import InvalidCursor, Unavailable
from common.ids import DEFAULT_PROJECT_ID
from query_api.pages.arrivals import (
    BEGINNING,
    CURSOR_PARTITIONS_MAX,
    WHOLE_RECORD,
    ArrivalPlace,
    Arrivals,
    Pending,
    Positions,
    arrivals_query,
    merged_arrivals,
)
from query_api.spans.window import Window, write_cursor
from query_api.spans.windowing import Order, Windowing

Row = tuple[int, int, int]
"""Offset, index, stored_us."""


def merged(partition_ids: Mapping[str, Sequence[Row]], *, size: int) -> Arrivals:
    """Merge what the engine would return of each partition; the start is the number of the row in its partition."""
    pending = [Pending(partition_id, BEGINNING, 1_000) for partition_id in partition_ids]
    rows = [
        (number, offset, index, nth, stored_us)
        for number, of_partition in enumerate(partition_ids.values())
        for nth, (offset, index, stored_us) in enumerate(sorted(of_partition)[:size])
    ]
    names = ("partition_index", "record_offset", "span_index", "start_us", "stored_us")
    kinds = (np.uint8, np.uint64, np.uint32, np.int64, np.int64)
    columns = zip(*rows, strict=True) if rows else [()] * 5
    table = pa.table({name: np.array(column, kind) for name, kind, column in zip(names, kinds, columns, strict=True)})
    return merged_arrivals(table, pending, size=size)


def test_partitions_are_merged_by_when_spans_were_stored() -> None:
    arrivals = merged({"a": [(0, 0, 10), (1, 0, 30)], "b": [(0, 0, 20), (5, 0, 40)]}, size=10)

    assert list(arrivals.partition_ids) == ["a", "b", "a", "b"]


def test_partition_keeps_its_order_whatever_the_clocks_say() -> None:
    arrivals = merged({"a": [(0, 0, 50), (1, 0, 10)], "b": [(0, 0, 20)]}, size=10)

    assert list(zip(arrivals.partition_ids, arrivals.places, strict=True)) == [
        ("b", ArrivalPlace(0, 0)),
        ("a", ArrivalPlace(0, 0)),
        ("a", ArrivalPlace(1, 0)),
    ]


def test_nothing_is_taken_after_a_partition_that_has_more() -> None:
    """Its next row, which was not read, may come before rows of other partitions."""
    arrivals = merged({"a": [(0, 0, 10), (1, 0, 11), (2, 0, 12)], "b": [(0, 0, 20)]}, size=2)

    assert list(arrivals.partition_ids) == ["a", "a"]
    assert arrivals.last_places(2) == {"a": ArrivalPlace(1, 0)}


def test_nothing_is_taken_after_a_partition_with_more_and_duplicates() -> None:
    """Of a partition with unmerged rows, fewer are known than were asked for."""
    arrivals = merged({"a": [(0, 0, 10), (0, 0, 10), (1, 0, 11)], "b": [(0, 0, 20), (1, 0, 21)]}, size=2)

    assert list(arrivals.partition_ids) == ["a"]
    assert arrivals.last_places(1) == {"a": ArrivalPlace(0, 0)}


def test_reader_is_at_the_end_of_exhausted_partitions() -> None:
    arrivals = merged({"a": [(0, 0, 10)], "b": []}, size=2)

    assert arrivals.last_places(1) == {"a": ArrivalPlace(1_000, WHOLE_RECORD), "b": ArrivalPlace(1_000, WHOLE_RECORD)}
    assert arrivals.last_places(0) == {}


partition_ids = st.dictionaries(
    st.sampled_from("abc"),
    st.lists(st.tuples(st.integers(0, 5), st.integers(0, 3), st.integers(0, 9)), max_size=12),
    min_size=1,
)


@given(partition_ids, st.integers(1, 6))
def test_arrivals_are_the_beginning_of_each_partition_once(of_partitions: dict[str, list[Row]], size: int) -> None:
    arrivals = merged(of_partitions, size=size)

    given = list(zip(arrivals.partition_ids, arrivals.places, strict=True))
    assert len(given) == len(set(given)) <= size
    for partition_id, rows in of_partitions.items():
        there = sorted({ArrivalPlace(offset, index) for offset, index, _ in rows})
        mine = [place for each, place in given if each == partition_id]
        assert mine == there[: len(mine)]
        if arrivals.ends.get(partition_id):
            assert mine == there
    if any(of_partitions.values()):
        assert given


def test_values_and_partitions_are_parameters() -> None:
    query = arrivals_query(
        DEFAULT_PROJECT_ID,
        [Pending("a'b", BEGINNING, 5), Pending("{x:String}", ArrivalPlace(3, 4), 9)],
        Window(order=Order.ASCENDING, oldest_us=7),
        size=20,
    )
    sql = str(query)

    assert "a'b" not in sql
    assert "{x:String}" not in sql
    assert "newest" not in sql
    assert query.parameters == {
        "size": 20,
        "oldest_us": 7,
        "partition_0": "a'b",
        "from_0": 0,
        "index_0": -1,
        "through_0": 5,
        "partition_1": "{x:String}",
        "from_1": 3,
        "index_1": 4,
        "through_1": 9,
    }


places = st.builds(ArrivalPlace, st.integers(0, 2**64 - 1), st.integers(0, WHOLE_RECORD))


@given(st.dictionaries(st.text(), places))
def test_positions_round_trip(stood: dict[str, ArrivalPlace]) -> None:
    read = Positions.unpack(Positions().moved(stood).pack())

    assert {partition_id: read.after(partition_id) for partition_id in stood} == stood
    assert read.after("another log") == BEGINNING or "another log" in stood


def test_moving_in_one_partition_keeps_the_others() -> None:
    before = Positions().moved({"a": ArrivalPlace(1, 2), "b": ArrivalPlace(3, 4)})
    after = before.moved({"b": ArrivalPlace(5, 6)})

    assert (after.after("a"), after.after("b")) == (ArrivalPlace(1, 2), ArrivalPlace(5, 6))
    assert before.after("b") == ArrivalPlace(3, 4)


def test_cursor_size_does_not_reveal_the_records_of_a_partition() -> None:
    near, far = (Positions().moved({"a": ArrivalPlace(offset, 0)}) for offset in (0, 10**9))

    assert len(near.pack()) == len(far.pack())


@pytest.mark.parametrize("packed", [b"\0", bytes(8), bytes(9), bytes(8) + b"\x80" * 11, bytes(8) + b"\1"])
def test_truncated_positions_are_rejected(packed: bytes) -> None:
    with pytest.raises(InvalidCursor):
        Positions.unpack(packed)


def _far_along(logs_count: int) -> Positions:
    return Positions().moved({str(number): ArrivalPlace(2**64 - 1, 2**32 - 1) for number in range(logs_count)})


def test_cursor_holds_at_most_4000_partitions() -> None:
    cursor = write_cursor(_far_along(CURSOR_PARTITIONS_MAX).pack(), scope=bytes(16), secret=b"s")

    assert Windowing(next=cursor).next == cursor
    with pytest.raises(Unavailable, match="4000 partitions"):
        _far_along(CURSOR_PARTITIONS_MAX + 1).pack()
