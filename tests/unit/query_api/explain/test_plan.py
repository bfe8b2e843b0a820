from __future__ import annotations

from typing import Any

import orjson

from query_api.explain.hint import IndexUse, TableRead, table_reads


def _index(kind: str, before: int, after: int, **more: Any) -> dict[str, Any]:
    counts = {"Initial Parts": 9, "Selected Parts": 2, "Initial Granules": before, "Selected Granules": after}
    return {"Type": kind, "Condition": "c", **counts, **more}


def _plan(*indexes: dict[str, Any]) -> bytes:
    read = {"Node Type": "ReadFromMergeTree", "Description": "database.spans", "Indexes": list(indexes)}
    return orjson.dumps([{"Plan": {"Node Type": "Limit", "Plans": [{"Node Type": "Sorting", "Plans": [read]}]}}])


def test_granules_are_counted_from_the_primary_key_on() -> None:
    plan = _plan(
        _index("Min-Max", 9_000, 8_000),
        _index("Partition", 8_000, 7_000),
        _index("PrimaryKey", 7_000, 30),
        _index("Skip", 30, 4, Name="content_index", Description="text GRANULARITY 100000000"),
    )

    assert table_reads(plan, of_project={"spans": 50}) == [
        TableRead(
            "spans",
            parts=2,
            granules=4,
            indexes=(
                IndexUse("primary key", "sparse", "c", 50, 30),
                IndexUse("content_index", "text", "c", 30, 4),
            ),
        )
    ]


def test_index_without_description_is_named_by_its_type() -> None:
    key, skip = _index("PrimaryKey", 9, 4), _index("Skip", 4, 3)
    del key["Condition"], skip["Condition"]

    [read] = table_reads(_plan(key, skip), of_project={})

    assert read.indexes == (IndexUse("primary key", "sparse", "", 4, 4), IndexUse("Skip", "Skip", "", 4, 3))


def test_remaining_granules_are_those_of_the_last_index() -> None:
    skip = _index("Skip", 30, 4, Name="content_index", Description="text")

    [read] = table_reads(_plan(_index("PrimaryKey", 90, 30), {**skip, "Selected Parts": 1}), of_project={})

    assert (read.parts, read.granules) == (1, 4)


def test_without_a_primary_key_no_granules_are_returned() -> None:
    assert table_reads(_plan(_index("MinMax", 9, 8)), of_project={}) == [TableRead("spans", 0, 0, ())]


def test_tables_of_a_join_are_in_its_order() -> None:
    reads = [orjson.loads(_plan(_index("PrimaryKey", 9, 4)))[0]["Plan"]["Plans"][0]["Plans"][0] for _ in range(2)]
    reads[1]["Description"] = "more.of.span_versions"
    plan = orjson.dumps([{"Plan": {"Node Type": "Join", "Plans": reads}}])

    assert [read.table for read in table_reads(plan, of_project={})] == ["spans", "span_versions"]


def test_counts_leave_out_other_projects() -> None:
    plan = _plan(_index("Min-Max", 9_001, 8_001), _index("Partition", 8_001, 7_001), _index("PrimaryKey", 7_001, 1))

    shown = repr(table_reads(plan, of_project={}))

    assert not any(count in shown for count in ("9001", "8001", "7001"))


def test_spans_that_arrive_while_explaining_do_not_break_counts() -> None:
    [read] = table_reads(_plan(_index("PrimaryKey", 9, 6)), of_project={"spans": 5})

    assert (read.indexes[0].granules_before, read.indexes[0].granules_after) == (6, 6)


def test_a_plan_that_reads_no_table_reads_nothing() -> None:
    plan = orjson.dumps([{"Plan": {"Node Type": "Expression", "Plans": [{"Node Type": "ReadNothing"}]}}])

    assert table_reads(plan, of_project={}) == []


def test_a_condition_on_an_id_may_hold_any_bytes() -> None:
    plan = _plan(_index("PrimaryKey", 2, 1, Condition="(trace_id in ['ID'])")).replace(b"ID", b"\xa7\xff")

    [read] = table_reads(plan, of_project={"spans": 2})

    assert [index.granules_after for index in read.indexes] == [1]


def test_project_without_rows_has_no_granules() -> None:
    plan = _plan(_index("PrimaryKey", 90, 1), _index("Skip", 1, 1, Name="content_index", Description="text"))

    assert table_reads(plan, of_project={"spans": 0}) == [TableRead("spans", 0, 0, ())]
