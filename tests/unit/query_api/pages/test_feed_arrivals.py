from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np
import pyarrow as pa
from hypothesis import given
from hypothesis import strategies as st

from query_api.pages.arrivals import (
    WHOLE_RECORD,
    ArrivalPlace,
    Arrivals,
    Pending,
    arrivals_statement,
    merged_arrivals,
)
from query_api.pages.window import Window
from query_api.spans.windowing import Order

Row = tuple[int, int, int]
"""Offset, index, stored_us."""


def merged(partition_ids: Mapping[str, Sequence[Row]], *, size: int) -> Arrivals:
    """Merge what the engine would return of each partition; the start is the number of the row in its partition."""
    pending = [Pending(partition_id, None, 1_000) for partition_id in partition_ids]
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
    sql, parameters = arrivals_statement(
        [Pending("a'b", None, 5), Pending("{x:String}", ArrivalPlace(3, 4), 9)],
        Window(order=Order.ASCENDING, oldest_us=7),
    )

    assert "a'b" not in sql
    assert "{x:String}" not in sql
    assert "newest" not in sql
    assert parameters == {
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
