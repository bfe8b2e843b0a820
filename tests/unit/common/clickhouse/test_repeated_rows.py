from __future__ import annotations

from typing import Any

import pyarrow as pa

from common.clickhouse.repeated_rows import without_repeated

ROW = {
    "project_id": bytes(16),
    "start_us": 1,
    "span_id": bytes(16),
    "trace_id": bytes(16),
    "partition_id": b"a",
    "version": 7,
}
ID = pa.binary(16)
SCHEMA = pa.schema(
    [
        ("project_id", ID),
        ("start_us", pa.int64()),
        ("span_id", ID),
        ("trace_id", ID),
        ("partition_id", pa.dictionary(pa.int32(), pa.binary())),
        ("version", pa.uint64()),
        ("name", pa.string()),
    ]
)


def names_of(*rows: dict[str, Any]) -> tuple[list[str], list[int]]:
    table = pa.Table.from_pylist(
        [{**ROW, "name": str(number), **row} for number, row in enumerate(rows)], schema=SCHEMA
    )
    kept, indexes = without_repeated(table)
    return kept.column("name").to_pylist(), list(indexes)


def test_rows_of_different_spans_stay():
    assert names_of({}, {"span_id": b"b" * 16}) == (["0", "1"], [0, 1])


def test_last_row_of_a_version_stays():
    other = {"span_id": b"b" * 16}

    assert names_of({}, other, {}, {"span_id": b"c" * 16}, {}) == (["1", "3", "4"], [1, 3, 4])


def test_versions_that_differ_in_anything_else_stay():
    rows: list[dict[str, Any]] = [
        {},
        {"project_id": b"b" * 16},
        {"start_us": 2},
        {"trace_id": b"b" * 16},
        {"partition_id": b"b"},
        {"version": 8},
    ]

    assert names_of(*rows)[1] == [0, 1, 2, 3, 4, 5]
