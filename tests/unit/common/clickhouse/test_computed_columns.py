from __future__ import annotations

import re
from pathlib import Path

import pytest

from common.clickhouse import migrate
from common.clickhouse.computed_columns import ATTRIBUTES_COLUMN, with_computed_columns


def test_column_that_a_query_names_once_is_replaced_by_its_expression() -> None:
    sql = with_computed_columns(f"SELECT span_id, {ATTRIBUTES_COLUMN} FROM spans WHERE has(leaf_pairs, 'a=b1')")

    assert re.match(r"SELECT span_id, \(if\(.*\) AS attributes_json\) FROM spans WHERE ", sql, re.DOTALL)
    assert re.search(r" WHERE has\(\(arrayMap\(.*\) AS leaf_pairs\), 'a=b1'\)$", sql, re.DOTALL)


def test_column_that_a_query_names_twice_is_defined_once_in_that_query() -> None:
    sql = with_computed_columns(
        "EXPLAIN SELECT 1 FROM (SELECT 2 FROM spans WHERE has(leaf_pairs, 'a') OR has(leaf_pairs, 'b'))"
    )

    assert re.fullmatch(
        r"EXPLAIN SELECT 1 FROM \(WITH arrayMap\(.*\) AS leaf_pairs SELECT 2 FROM spans"
        r" WHERE has\(leaf_pairs, 'a'\) OR has\(leaf_pairs, 'b'\)\)",
        sql,
        re.DOTALL,
    )


def test_queries_are_counted_one_by_one() -> None:
    sql = with_computed_columns("SELECT leaf_pairs FROM spans UNION ALL SELECT leaf_pairs FROM (SELECT 1 WHERE x)")

    assert "WITH" not in sql
    assert sql.count(" AS leaf_pairs)") == 2


def test_texts_are_left_as_they_are() -> None:
    sql = "SELECT 'leaf_pairs and \\' (SELECT leaf_pairs' FROM spans"

    assert with_computed_columns(sql) == sql


def test_column_outside_of_a_query_is_a_mistake() -> None:
    with pytest.raises(ValueError, match="leaf_pairs is named outside of a query"):
        with_computed_columns("leaf_pairs")


def test_longer_names_stay() -> None:
    assert with_computed_columns("SELECT my_attributes_json, leaf_pairs_index") == (
        "SELECT my_attributes_json, leaf_pairs_index"
    )


def test_index_of_pairs_has_the_expression_of_the_column() -> None:
    """The engine uses an index only for its own expression."""
    ddl = (Path(migrate.__file__).parent / "ddl" / "0006_small_indexes.sql").read_text()
    expression = with_computed_columns("SELECT leaf_pairs").removeprefix("SELECT (").removesuffix(" AS leaf_pairs)")

    assert "".join(expression.split()) in "".join(ddl.split())
