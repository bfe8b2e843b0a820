"""What a filter compiles to is limited; usual filters are far below the limit."""

from __future__ import annotations

from typing import Any

import pytest

from common.clickhouse.select import Select, Table
from common.errors import InvalidFilter, InvalidInput
from common.ids import DEFAULT_PROJECT_ID
from query_api.filter.language import SUMS_MAX
from query_api.filter.operands import LIST_VALUES_MAX, VALUE_BYTES_MAX
from query_api.filter.parse import CONDITIONS_MAX, FilteringModel, parse
from query_api.filter.sql.compile import SQL_BYTES_MAX, VALUES_BYTES_MAX, Compiled, compile_filter
from query_api.filter.sql.sums import USAGE_BYTES_MAX
from query_api.queries.saved import QueryData
from query_api.spans.usage import usage_queries

USUAL_VALUES = {"in": ["x", 1], "btwn": [1, 2.5], "gt": 5, "exists": None}


def compiled(*conditions: dict[str, Any]) -> Compiled:
    return compile_filter(parse(FilteringModel.model_validate({"conditions": list(conditions)})))


def condition(operator: str, value: Any = "x", *, key: str, field: str = "attributes") -> dict[str, Any]:
    return {"field": field, "key": key, "operator": operator, "value": value}


COSTLY = [
    {"field": "events", "operator": "in", "value": [{f"attributes.a.b{number}": "x"} for number in range(500)]},
    *(condition("contains", key=f"service.name{number}", field="resource") for number in range(CONDITIONS_MAX - 1)),
]
"""Near the limit of steps into JSON with one condition, and of conditions with the others."""


@pytest.mark.parametrize("field", ["attributes", "resource"])
@pytest.mark.parametrize("operator", ["is", "gt", "btwn", "contains", "matches", "in", "has", "exists"])
def test_256_usual_conditions_compile(field: str, operator: str) -> None:
    value = USUAL_VALUES.get(operator, "x")

    found = compiled(
        *(condition(operator, value, key=f"service.name{number}", field=field) for number in range(CONDITIONS_MAX))
    )

    assert len(found.sql) <= SQL_BYTES_MAX


def test_range_compiles_to_little_more_than_one_bound() -> None:
    one, both = (compiled(condition(*each, key="a")) for each in (("gte", 1), ("btwn", [1, 2])))

    assert len(both.sql) < 1.5 * len(one.sql)


def test_filter_that_compiles_to_too_much_sql_is_refused_with_the_limit() -> None:
    with pytest.raises(InvalidFilter, match=r"^The filter compiles to \d+ bytes of SQL; at most 393216 are allowed: "):
        compiled(*COSTLY)


def test_queries_of_sums_count_to_the_size_of_the_sql() -> None:
    others = COSTLY[:-180]
    sums = [condition("gt", number, key="ag.metrics.tokens.cumulative.total") for number in range(SUMS_MAX)]

    compiled(*others, *sums[: SUMS_MAX // 2])
    with pytest.raises(InvalidFilter, match="bytes of SQL"):
        compiled(*others, *sums)


@pytest.mark.parametrize("metric", ["tokens.cumulative.total", "costs.cumulative.total", "errors.cumulative"])
def test_accepted_filter_is_within_the_limit_with_its_queries_of_sums(metric: str) -> None:
    sums = [condition("gt", number, key=f"ag.metrics.{metric}") for number in range(SUMS_MAX)]

    [(name, query)] = usage_queries(compiled(*sums).sql, DEFAULT_PROJECT_ID).items()

    assert compiled(*sums).sql.count(name) == SUMS_MAX
    assert len(str(query)) <= USAGE_BYTES_MAX


@pytest.mark.parametrize(
    ("operator", "value"), [("is", "x"), ("is", {"x": 1}), ("in", ["x", 1]), ("has", {"x": 1})], ids=str
)
def test_computed_columns_add_little_to_the_sql_of_a_filter(operator: str, value: Any) -> None:
    """The limit is on the SQL without them, and the time for planning grows with the SQL that the engine gets."""
    filter_sql = compiled(*[condition(operator, value, key=f"k{number}") for number in range(CONDITIONS_MAX)]).sql

    sql = str(Select(DEFAULT_PROJECT_ID, Table.SPANS, ["1"], where=[filter_sql]))

    assert len(sql) < len(filter_sql) + 2_000


@pytest.mark.parametrize(
    "large",
    [
        condition("is", "x" * VALUE_BYTES_MAX, key="a"),
        condition("contains", "x" * VALUE_BYTES_MAX, key="a"),
        condition("gt", 1, key="k" * VALUE_BYTES_MAX),
        condition("in", [f"value number {number}" for number in range(LIST_VALUES_MAX)], key="a"),
    ],
    ids=["value", "text", "key", "list"],
)
def test_condition_at_its_limit_compiles_but_256_of_them_do_not(large: dict[str, Any]) -> None:
    compiled(large)

    with pytest.raises(InvalidInput, match=r"in total|bytes of keys and values, .* at most 8388608 are allowed"):
        compiled(*[{**large, "key": f"{number}{large['key'][:-3]}"} for number in range(CONDITIONS_MAX)])


def test_values_count_as_often_as_the_statement_names_them() -> None:
    key = "k" * (VALUE_BYTES_MAX - 3)
    conditions = [condition("gt", 1, key=f"{number}{key}") for number in range(100)]

    assert sum(len(str(value)) for value in compiled(*conditions[:10]).parameters.values()) < VALUES_BYTES_MAX / 10
    with pytest.raises(InvalidFilter, match="bytes of keys and values"):
        compiled(*conditions)


def test_filter_that_compiles_to_too_much_sql_is_not_saved() -> None:
    data = QueryData.model_validate({"filtering": {"conditions": COSTLY}})

    with pytest.raises(InvalidFilter, match="bytes of SQL"):
        data.stored()
