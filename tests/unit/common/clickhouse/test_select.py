"""A query names tables with the condition on its project alone, and defines the columns that it computes once."""

from __future__ import annotations

import re
from pathlib import Path
from uuid import UUID

import pytest

from common.clickhouse import migrate
from common.clickhouse.select import (
    ATTRIBUTES_COLUMN,
    COMPUTED_COLUMNS,
    Join,
    Select,
    Table,
    Union,
    on_shard,
    run_by_shards,
)
from common.span import TOTAL_TOLERANCE
from common.usage import STEPS
from tests.support.api import PROJECT_A

OF_PROJECT = "project_id = {project_id:UUID}"
OTHER_PROJECT = UUID(int=1)


def select(source: Table | Select | Union | str, *where: str, **more: object) -> Select:
    return Select(PROJECT_A, source, ["a"], where=where, **more)  # type: ignore[arg-type]


def test_condition_on_the_project_comes_first() -> None:
    assert str(select(Table.SPANS)) == f"SELECT a\nFROM spans\nWHERE {OF_PROJECT}"
    assert str(select(Table.VERSIONS, "a = 1", "b OR c", is_final=True)) == (
        f"SELECT a\nFROM span_versions FINAL\nWHERE {OF_PROJECT}\n    AND a = 1\n    AND (b OR c)"
    )
    assert str(select(Table.SPANS, "c", prewhere=["a", "b OR 1"])) == (
        f"SELECT a\nFROM spans\nPREWHERE {OF_PROJECT}\n    AND a\n    AND (b OR 1)\nWHERE c"
    )


def test_every_table_has_the_condition_and_one_value() -> None:
    inner = select(Table.VERSIONS, f"b IN ({select(Table.ARRIVALS)})", parameters={"x": 1})
    joined = Join("LEFT ANY", select(Union([inner, inner])), "other", "a = b")
    query = select(inner, "c", alias="this", joins=[joined], limit=1, parameters={"y": 2})

    assert str(query).count("span_versions\nWHERE " + OF_PROJECT) == 3
    assert str(query).count("span_arrivals\nWHERE " + OF_PROJECT) == 3
    assert query.values == {"x": 1, "y": 2, "project_id": str(PROJECT_A)}
    assert query.statement({"z": 3}, prefix="EXPLAIN ").sql == f"EXPLAIN {query}"


def test_clauses_have_the_order_of_sql() -> None:
    query = select(
        select(Table.SPANS),
        group_by=["a"],
        having=["b", "c"],
        order_by=["d", "e"],
        limit_by="1 BY f",
        limit="{g:UInt32}",
    )

    assert str(query).endswith("GROUP BY a\nHAVING b\n    AND c\nORDER BY d, e\nLIMIT 1 BY f\nLIMIT {g:UInt32}")


def test_named_queries_are_defined_before_they_are_read() -> None:
    assert str(select("b", queries={"b": "SELECT 1 AS a"})) == "WITH\nb AS (SELECT 1 AS a)\nSELECT a\nFROM b"
    with pytest.raises(ValueError, match=r"'spans' is none of the named queries \(b\)"):
        select("spans", queries={"b": "SELECT 1 AS a"})


def test_part_of_another_project_is_rejected() -> None:
    other = Select(OTHER_PROJECT, Table.SPANS, ["a"])

    with pytest.raises(ValueError, match="another project"):
        select(other)
    with pytest.raises(ValueError, match="another project"):
        select(Table.SPANS, joins=[Join("CROSS", other, "other")])
    with pytest.raises(ValueError, match="another project"):
        select("b", queries={"b": other})


def test_computed_column_is_defined_once_where_spans_are_read() -> None:
    expression = COMPUTED_COLUMNS[ATTRIBUTES_COLUMN]
    query = Select(PROJECT_A, Table.SPANS, [ATTRIBUTES_COLUMN], where=[f"{ATTRIBUTES_COLUMN} != ''"])

    assert str(query).startswith(f"WITH\n{expression} AS {ATTRIBUTES_COLUMN}\nSELECT {ATTRIBUTES_COLUMN}\n")
    assert str(Select(PROJECT_A, query, [ATTRIBUTES_COLUMN])).count(expression) == 1


@pytest.mark.parametrize("column", ["leaf_pairs", "content"])
def test_index_has_the_expression_of_the_column(column: str) -> None:
    """The engine uses an index only for its own expression."""
    ddl = (Path(migrate.__file__).parent / "ddl" / "0001_baseline.sql").read_text()

    assert "".join(COMPUTED_COLUMNS[column].split()) in "".join(ddl.split())


def test_tolerance_of_totals_is_the_same_in_sql() -> None:
    tolerances = [number for step in STEPS.values() for number in re.findall(r"\) \* ([\d.]+)", step)]

    assert set(tolerances) == {str(TOTAL_TOLERANCE)}


def test_source_by_trace_is_run_by_each_shard():
    visible = Select(PROJECT_A, Table.SPANS, ["start_us"], where=["trace_id IN (SELECT 1)"], is_by_trace=True)
    named = Select(PROJECT_A, visible, ["start_us AS named"], is_by_trace=True)
    text = str(Select(PROJECT_A, named, ["count()"]))

    assert run_by_shards(text, "db", "main") == (
        "SELECT count()\nFROM cluster('main', view(SELECT start_us AS named\nFROM (SELECT start_us\nFROM db.spans_local"
        "\nWHERE project_id = {project_id:UUID}\n    AND trace_id IN (SELECT 1))))"
    )


def test_statement_of_one_shard_reads_its_own_tables():
    latest = Select(PROJECT_A, Table.VERSIONS, ["trace_id"], is_final=True)
    text = str(Select(PROJECT_A, Table.SPANS, ["name AS spans"], where=[f"trace_id IN ({latest})"]))

    assert on_shard(text, "db") == text.replace("\nFROM spans", "\nFROM db.spans_local").replace(
        "\nFROM span_versions", "\nFROM db.span_versions_local"
    )
