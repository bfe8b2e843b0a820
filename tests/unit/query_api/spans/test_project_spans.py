"""A statement that names a table without its project is rejected."""

from __future__ import annotations

import pytest

from common.span import TOTAL_TOLERANCE
from query_api.spans.project_spans import OF_PROJECT, SQL, Table, executable_sql, read_from, require_project

SQL_WITH_TABLES = [sql for sql in SQL.values() if OF_PROJECT in sql]


def test_condition_on_the_project_comes_first() -> None:
    assert read_from(Table.SPANS) == "FROM spans\nWHERE {of_project}"
    assert read_from(Table.VERSIONS, "a = 1", "b OR c", final=True) == (
        "FROM span_versions FINAL\nWHERE {of_project}\n    AND a = 1\n    AND (b OR c)"
    )


def test_prewhere_contains_the_project() -> None:
    assert read_from(Table.SPANS, "c", prewhere=["a", "b OR 1"]) == (
        "FROM spans\nPREWHERE {of_project}\n    AND a\n    AND (b OR 1)\nWHERE c"
    )
    assert read_from(Table.SPANS, prewhere=["a"]) == "FROM spans\nPREWHERE {of_project}\n    AND a"


@pytest.mark.parametrize(
    "sql",
    [
        f"SELECT 1 {read_from(Table.SPANS)}",
        f"SELECT 1\n{read_from(Table.SPANS, 'a')}\nLIMIT 1\n",
        f"SELECT 1 FROM (SELECT 1 {read_from(Table.VERSIONS)}) AS a JOIN (SELECT 1 {read_from(Table.ARRIVALS)}) AS b USING (c)",
        f"SELECT 1 {read_from(Table.SPANS, f'd IN (SELECT d {read_from(Table.VERSIONS, final=True)})')} GROUP BY e",
        f"INSERT INTO span_versions (a) SELECT a {read_from(Table.VERSIONS)} SETTINGS b = 1",
        "SELECT 1 FROM spans WHERE {of_project} AND a",
        f"WITH a AS (SELECT 1 {read_from(Table.SPANS)}), b AS (SELECT * FROM a) SELECT 1 FROM (SELECT 2 FROM b)",
        *SQL_WITH_TABLES,
    ],
)
def test_statement_that_reads_tables_with_the_project_is_accepted(sql: str) -> None:
    require_project(sql)


@pytest.mark.parametrize(
    "sql",
    [
        "SELECT 1",
        "SELECT 1 FROM spans",
        "SELECT 1 FROM spans WHERE a",
        "SELECT 1 FROM spans AS s WHERE {of_project}",
        "SELECT 1 FROM spans WHERE {of_project} OR 1",
        "SELECT 1 FROM spans WHERE NOT {of_project}",
        "SELECT 1 FROM spans WHERE a AND {of_project}",
        "SELECT 1 FROM spans, span_versions WHERE {of_project}",
        "SELECT 1 FROM system.tables WHERE {of_project}",
        "SELECT 1 FROM merge('spans') WHERE {of_project}",
        f"SELECT 1 {read_from(Table.SPANS, 'a IN (SELECT a FROM span_versions)')}",
        f"SELECT 1 FROM (SELECT 1 {read_from(Table.SPANS)}) AS a JOIN span_versions AS b USING (c)",
        f"WITH spans AS (SELECT 1 {read_from(Table.SPANS)}) SELECT 1 FROM spans",
        f"WITH a AS (SELECT 1 {read_from(Table.SPANS)}) SELECT 1 FROM a , spans",
        f"WITH a AS (SELECT 1 {read_from(Table.SPANS)}) SELECT 1 FROM a.spans",
        f"WITH a AS (SELECT 1 FROM spans) SELECT 1 {read_from(Table.SPANS)}",
        f"SELECT 1 {read_from(Table.SPANS, 'a = {of_project}')} UNION ALL SELECT 1 FROM spans",
    ],
)
def test_statement_that_names_a_table_in_another_way_is_rejected(sql: str) -> None:
    with pytest.raises(ValueError, match="without its project"):
        require_project(sql)


def test_statement_is_run_with_its_project_or_not_at_all() -> None:
    assert executable_sql(f"SELECT 1 {read_from(Table.SPANS, 'a OR b')}") == (
        "SELECT 1 FROM spans\nWHERE project_id = {project_id:UUID}\n    AND (a OR b)"
    )
    with pytest.raises(ValueError, match="without its project"):
        executable_sql("SELECT 1 FROM spans")


def test_fixed_queries_without_the_project_read_no_table() -> None:
    others = [sql for sql in SQL.values() if OF_PROJECT not in sql]

    assert {"usage", "trace_sums", "counted_totals"} <= SQL.keys()
    for sql in others:
        require_project(f"{sql}\nFROM (SELECT 1 {read_from(Table.SPANS)})")


def test_tolerance_of_totals_is_the_same_in_sql() -> None:
    assert SQL["usage"].count(f"(p + c) * {TOTAL_TOLERANCE}") == 4
