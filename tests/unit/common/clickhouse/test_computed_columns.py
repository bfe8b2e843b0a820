from __future__ import annotations

import re
from pathlib import Path

from common.clickhouse import migrate
from common.clickhouse.computed_columns import ATTRIBUTES_COLUMN, with_computed_columns


def test_each_name_is_replaced_by_its_expression() -> None:
    sql = with_computed_columns(f"SELECT span_id, {ATTRIBUTES_COLUMN} FROM spans WHERE has(leaf_pairs, 'a=b1')")

    assert re.match(r"SELECT span_id, \(if\(.*\) AS attributes_json\) FROM spans WHERE ", sql, re.DOTALL)
    assert re.search(r" WHERE has\(\(arrayMap\(.*\) AS leaf_pairs\), 'a=b1'\)$", sql, re.DOTALL)


def test_longer_names_stay() -> None:
    assert with_computed_columns("SELECT my_attributes_json, leaf_pairs_index") == (
        "SELECT my_attributes_json, leaf_pairs_index"
    )


def test_index_of_pairs_has_the_expression_of_the_column() -> None:
    """The engine uses an index only for its own expression."""
    ddl = (Path(migrate.__file__).parent / "ddl" / "0006_small_indexes.sql").read_text()
    expression = with_computed_columns("leaf_pairs").removeprefix("(").removesuffix(" AS leaf_pairs)")

    assert "".join(expression.split()) in "".join(ddl.split())
