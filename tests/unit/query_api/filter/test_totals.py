"""Limits of a whole filter: each total at its limit and one past it, and the path of the error."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pytest

from common.errors import InvalidFilter
from common.paths import LEVELS_MAX
from query_api.filter.language import STEPS_MAX, SUMS_MAX, VALUES_MAX, flattened
from query_api.filter.parse import CONDITIONS_MAX, FilteringModel, parse

FULL_LIST = [f"v{number}" for number in range(VALUES_MAX // 10)]
TOTAL = "ag.metrics.tokens.cumulative.total"


def accepted(conditions: Sequence[Any]) -> None:
    parse(FilteringModel.model_validate({"conditions": list(conditions)}))


def refusal(conditions: Sequence[Any]) -> str:
    with pytest.raises(InvalidFilter) as caught:
        accepted(conditions)
    return caught.value.detail


def of_attributes(key: str, operator: str = "is", value: Any = None, *, field: str = "attributes") -> dict[str, Any]:
    return {"field": field, "key": key, "operator": operator, "value": value}


def name_in(values: list[Any]) -> dict[str, Any]:
    return {"field": "span_name", "operator": "in", "value": values}


def of_steps(count: int) -> dict[str, Any]:
    """Return a condition on a key of ``count`` segments, none of them a number."""
    return of_attributes(".".join(["attributes", *["a"] * (count - 1)]), field="resource", value=1)


def test_values_at_the_limit_and_one_past() -> None:
    full = [name_in(FULL_LIST)] * 10
    accepted(full)

    assert refusal([*full, {"field": "user_id", "value": "u"}]) == (
        "filtering.conditions[10].value: the filter holds more than 40000 values in total, counting values of lists and objects, and words."
    )


@pytest.mark.parametrize(
    ("condition", "count"),
    [
        ({"field": "content", "operator": "contains", "value": 'a "b c" -d'}, 4),
        (of_attributes("a", value={"x": 1, "y": [2, {"z": 3}]}), 3),
        ({"field": "links", "operator": "in", "value": [{"flags": 1}, {"flags": 2, "attributes": {"key": "k"}}]}, 3),
    ],
    ids=["words", "members and elements", "members of elements"],
)
def test_values_are_counted(condition: dict[str, Any], count: int) -> None:
    others = [name_in(FULL_LIST)] * 9
    accepted([*others, name_in(FULL_LIST[count:]), condition])

    assert "more than 40000 values" in refusal([*others, name_in(FULL_LIST[count - 1 :]), condition])


def test_steps_at_the_limit_and_one_past() -> None:
    most = [of_steps(64)] * (STEPS_MAX // 64)
    accepted(most)

    assert refusal([*most, of_steps(1)]).startswith(
        f"filtering.conditions[{len(most)}]: the keys, objects and arrays of the filter take more than 4096 steps into JSON in total:"
    )


@pytest.mark.parametrize(
    ("condition", "count"),
    [
        (of_attributes("a.b.c", "has", "x"), 3),
        (of_attributes("a.0.1", "has", "x"), 9),
        (of_attributes("0.b", "in", ["x"]), 2),
        (of_attributes("a.b", "is", {"x": [1, {}]}), 2 + 6 + 7 + 8),
        (of_attributes("a.0.1", "gt", 5), 1),
        (of_attributes("a.0.1", "is", 5), 1),
        (of_attributes("a.0.1", "exists"), 1),
        (of_attributes("a.b.c", "is", None, field="resource"), 4),
        (of_attributes(".".join(["1"] * (LEVELS_MAX + 1)), "has", "x"), 1),
        ({"field": "links", "operator": "in", "value": [{"flags": 1}, {"flags": 2}]}, 4),
        ({"field": "links", "operator": "in", "value": [{"attributes": {"key": str(n)}} for n in range(99)]}, 5),
        ({"field": "events", "operator": "in", "value": [{"attributes.a.b": 1}]}, 6),
        ({"field": "events", "operator": "in", "value": [{"attributes.a": [1]}]}, 4 + 1 + 5),
        ({"field": "events", "operator": "exists"}, 1),
        ({"field": "span_name", "value": "x"}, 1),
    ],
)
def test_steps_are_counted(condition: dict[str, Any], count: int) -> None:
    most = [of_steps(64)] * (STEPS_MAX // 64 - 1)
    accepted([*most, of_steps(64 - count), condition] if count < 64 else [*most, condition])

    assert "more than 4096 steps" in refusal([*most, of_steps(64 - count + 1), condition])


def test_sums_over_traces_at_the_limit_and_one_past() -> None:
    most = [of_attributes(TOTAL, "gt", number) for number in range(SUMS_MAX - 1)]
    most.append(of_attributes("ag.metrics", value={"errors": {"cumulative": 1}}))
    others = [
        of_attributes("ag.metrics.duration.cumulative", "gt", 1),
        of_attributes("ag", value={"type": {"span": "llm"}}),
    ]
    accepted([*most, *others, of_attributes("ag.metrics", "has", "tokens")])

    for one_more in (of_attributes(TOTAL, "exists"), of_attributes("ag.metrics.tokens", "has", "cumulative")):
        assert (
            refusal([*most, one_more])
            == "filtering.conditions[8]: more than 8 conditions on cumulative metrics and `settled` in one filter."
        )


@pytest.mark.parametrize(
    "condition",
    [
        of_attributes("ag.metrics.tokens.incremental.total", "gt", 1),
        of_attributes("ag.metrics.tokens", "is", "cumulative"),
        of_attributes("ag.metrics.tokens", "contains", "cumulative"),
        of_attributes("ag.metrics.tokens", "is", ["cumulative"]),
        of_attributes("ag.metrics.tokens", "has", {"cumulative": 1}),
        of_attributes("ag.metrics.tokens", "exists"),
        of_attributes(TOTAL, "gt", 1, field="resource"),
    ],
)
def test_conditions_on_stored_values_are_not_counted_as_sums(condition: dict[str, Any]) -> None:
    accepted([of_attributes(TOTAL, "gt", 1)] * SUMS_MAX + [condition])


@pytest.mark.parametrize("field", ["attributes", "resource"])
@pytest.mark.parametrize("operator", ["is", "gt", "contains", "in", "has", "exists"])
def test_256_conditions_on_usual_keys_are_accepted(field: str, operator: str) -> None:
    value = ["x", 1] if operator == "in" else "x"
    accepted([of_attributes("attributes.rows.0.service.name", operator, value, field=field)] * CONDITIONS_MAX)


def test_element_is_flattened_only_if_its_scalars_describe_it() -> None:
    assert flattened({"id": 1, "attributes": {"a": {"b.c": "x"}}}) == {("id",): 1, ("attributes", "a", "b.c"): "x"}

    others: list[Any] = [{}, {"a": None}, {"a": {}}, {"a": [1]}, [1]]
    for member in others:
        assert flattened({"attributes": member}) is None
