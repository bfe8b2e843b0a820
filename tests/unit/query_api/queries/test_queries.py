from __future__ import annotations

from contextlib import nullcontext
from typing import Any

import pytest
from hypothesis import assume, given
from pydantic import ValidationError

from common.errors import InvalidFilter, InvalidInput
from query_api.filter.parse import parse
from query_api.queries.saved import QUERY, QueryData
from query_api.registry.kinds import RevisionState
from tests.support.filters import FILTERS


def kept(**data: Any) -> str | None:
    return QUERY.snapshot(QueryData.model_validate(data)).data


@pytest.mark.parametrize("data", [{}, {"filtering": None, "windowing": None}, {"trace_ids": ["a"], "traces": [{}]}])
def test_empty_data_is_not_stored(data: dict[str, Any]) -> None:
    assert kept(**data) is None
    assert QUERY.snapshot(None) == RevisionState(None, None)


def test_defaults_are_stored_and_nulls_are_not() -> None:
    data = {
        "formatting": {"focus": None, "format": "agenta"},
        "filtering": {"conditions": [{"field": "span_name", "value": "a", "key": None}]},
        "windowing": {"newest": "2024-01-01T02:00:00+02:00", "limit": None},
    }

    assert kept(**data) == (
        '{"formatting":{"format":"agenta"},'
        '"filtering":{"operator":"and","conditions":[{"field":"span_name","value":"a","operator":"is"}]},'
        '"windowing":{"newest":"2024-01-01T00:00:00Z"}}'
    )


@given(filtering=FILTERS)
def test_saved_filter_means_what_was_sent(filtering: dict[str, Any]) -> None:
    try:
        data = QueryData.model_validate({"filtering": {"conditions": [filtering]}})
    except ValidationError as exc:
        assume("U+0000" not in str(exc))
        raise
    assert data.filtering is not None

    text = QUERY.snapshot(data).data

    assert text is not None
    assert parse(QueryData.model_validate_json(text).filtering) == parse(data.filtering)


@pytest.mark.parametrize(
    ("data", "path"),
    [
        ({"filtering": {"conditions": [{"field": "nothing"}]}}, "data.filtering.conditions[0].field"),
        ({"windowing": {"wait_s": 1}}, "data.windowing.wait_s"),
        ({"windowing": {"from": "now"}}, "data.windowing.from"),
        ({"windowing": {"sort": {"by": "span_name"}}}, "data.windowing.sort.by"),
        ({"windowing": {"sort": {"by": "cost"}, "limit": 1_001}}, "data.windowing.limit"),
        ({"windowing": {"sort": {"by": "cost"}, "by": "created_at"}}, "data.windowing.sort"),
        ({"windowing": {"by": "created_at", "order": "descending"}}, "data.windowing.order"),
        ({"windowing": {"by": "created_at"}, "formatting": {"focus": "trace"}}, "data.windowing.by"),
        ({"windowing": {"wait_s": 1, "by": "start_time"}, "formatting": {"focus": "trace"}}, "data.windowing.wait_s"),
    ],
)
def test_query_that_cannot_run_is_rejected_with_its_place(data: dict[str, Any], path: str) -> None:
    with pytest.raises(InvalidInput) as caught:
        kept(**data)

    assert caught.value.detail.startswith(f"{path}: ")


def test_groups_that_nest_too_deep_are_rejected_first() -> None:
    deep: dict[str, Any] = {}
    for _ in range(5_000):
        deep = {"conditions": [deep]}

    with pytest.raises(InvalidFilter, match=r"data\.filtering: groups are nested deeper than 16"):
        QueryData.model_validate({"filtering": deep})


@pytest.mark.parametrize(("depth", "is_valid"), [(61, True), (62, False)])
def test_values_may_nest_as_deep_as_can_be_stored(depth: int, is_valid: bool) -> None:
    """64 objects and arrays in each other, of which the filter itself is three."""
    value: Any = 1
    for _ in range(depth):
        value = [value]
    data = {"filtering": {"conditions": [{"field": "attributes", "key": "a", "value": value}]}}

    with nullcontext() if is_valid else pytest.raises(ValidationError, match="nest deeper than 64"):
        QueryData.model_validate(data)
