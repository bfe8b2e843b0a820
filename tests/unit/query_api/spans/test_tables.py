"""A statement names a table with its project, or it is refused."""

from __future__ import annotations

import pytest

from query_api.spans.tables import Table, read_from, require_project


def test_the_project_comes_first_and_nothing_widens_it() -> None:
    assert read_from(Table.SPANS) == "FROM spans\nWHERE {of_project}"
    assert read_from(Table.VERSIONS, "a = 1", "b OR c", final=True) == (
        "FROM span_versions FINAL\nWHERE {of_project}\n    AND a = 1\n    AND (b OR c)"
    )


def test_what_is_looked_at_first_stands_beside_the_project() -> None:
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
    ],
)
def test_a_statement_whose_tables_are_all_read_with_the_project_is_taken(sql: str) -> None:
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
        # As many projects as tables, which is what was counted once.
        f"SELECT 1 {read_from(Table.SPANS, 'a = {of_project}')} UNION ALL SELECT 1 FROM spans",
    ],
)
def test_a_table_that_is_named_in_another_way_is_refused(sql: str) -> None:
    with pytest.raises(ValueError, match="without its project"):
        require_project(sql)
