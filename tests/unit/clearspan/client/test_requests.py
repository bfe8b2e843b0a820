"""Filters as words mean what the same filter as JSON means."""

from __future__ import annotations

from typing import Any

import pytest

from clearspan.client.connection import WrongUsage
from clearspan.client.requests import read_conditions, read_filter
from query_api.filter.language import FIELDS, Kind
from query_api.filter.parse import FilteringModel, parse


@pytest.mark.parametrize(
    ("words", "conditions"),
    [
        ("span_type is chat", [{"field": "span_type", "operator": "is", "value": "chat"}]),
        ("cost gt 0.01", [{"field": "cost", "operator": "gt", "value": 0.01}]),
        ("duration gte 1.5s", [{"field": "duration", "operator": "gte", "value": 1500.0}]),
        ("temperature.x lt -1", [{"field": "attributes", "key": "temperature.x", "operator": "lt", "value": -1}]),
        ("http.status is 500", [{"field": "attributes", "key": "http.status", "operator": "is", "value": 500}]),
        ("http.status is '\"500\"'", [{"field": "attributes", "key": "http.status", "operator": "is", "value": "500"}]),
        ("attributes.retry is true", [{"field": "attributes", "key": "retry", "operator": "is", "value": True}]),
        (
            "resource.service.name = shop",
            [{"field": "resource", "key": "service.name", "operator": "is", "value": "shop"}],
        ),
        ("status is error", [{"field": "status_code", "operator": "is", "value": "STATUS_CODE_ERROR"}]),
        ("session_id is 1e5", [{"field": "session_id", "operator": "is", "value": "1e5"}]),
        ("session is 42", [{"field": "session", "operator": "is", "value": "42"}]),
        (
            "session=s-1 and cost>=0.5",
            [
                {"field": "session", "operator": "is", "value": "s-1"},
                {"field": "cost", "operator": "gte", "value": 0.5},
            ],
        ),
        ("user!=u-9", [{"field": "user", "operator": "is_not", "value": "u-9"}]),
        ("span_id is 1234567890123456", [{"field": "span_id", "operator": "is", "value": "1234567890123456"}]),
        ("start_time gte -15m", [{"field": "start_time", "operator": "gte", "value": "-15m"}]),
        ("end_time eq 1777636802500", [{"field": "end_time", "operator": "eq", "value": 1777636802500}]),
        ("parent_id is null", [{"field": "parent_id", "operator": "is", "value": None}]),
        ("span_name contains null", [{"field": "span_name", "operator": "contains", "value": "null"}]),
        ("service in shop,pay", [{"field": "service", "operator": "in", "value": ["shop", "pay"]}]),
        ("service in '[\"a,b\"]'", [{"field": "service", "operator": "in", "value": ["a,b"]}]),
        ("tokens btwn 10,20", [{"field": "tokens", "operator": "btwn", "value": [10, 20]}]),
        (
            "model exists and content contains 'refund policy' and cost != 0",
            [
                {"field": "model", "operator": "exists"},
                {"field": "content", "operator": "contains", "value": "refund policy"},
                {"field": "cost", "operator": "is_not", "value": 0},
            ],
        ),
        ("", []),
    ],
)
def test_words_are_the_conditions(words: str, conditions: list[dict[str, Any]]) -> None:
    read = read_conditions([words] if " " in words else words.split())

    assert read == conditions
    parse(FilteringModel.model_validate({"conditions": read}))


@pytest.mark.parametrize(
    ("words", "message"),
    [
        ("foo is 3", "'foo' is not a field; allowed: trace_id, "),
        ("sessionId is 3", "and paths such as attributes.http.status. Did you mean 'session_id'?"),
        ("attributes is 3", "'attributes' needs a path, for example attributes.http.status"),
        ("cost", "'cost' needs an operator and a value"),
        ("cost is", "'cost is' needs a value"),
        ("cost=", "'cost=' is not a field"),
        ("cost about 3", "'about' is not an operator here; allowed: is, is_not, eq"),
        ("content is 3", "'is' is not an operator here; allowed: contains."),
        ("cost is 3 4", "expected 'and' after 'cost is 3', got '4'; quote a value that has spaces"),
        ("cost is 3 or cost is 4", "expected 'and' after 'cost is 3', got 'or'"),
        ("cost is 3 and", "a condition must follow the last 'and'"),
        ("service in [a", "'[a' begins like a JSON list, but is none"),
        ("span_name is 'a", "cannot be split into words: No closing quotation"),
    ],
)
def test_words_that_are_no_conditions_are_wrong_usage(words: str, message: str) -> None:
    with pytest.raises(WrongUsage) as refused:
        read_conditions([words] if "'" in words else words.split())

    assert message in str(refused.value)


@pytest.mark.parametrize("name", [name for name, field in FIELDS.items() if field.kind is not Kind.JSON])
def test_every_field_can_be_named(name: str) -> None:
    operator = ["contains", "x"] if name == "content" else ["exists"]

    assert read_conditions([name, *operator])[0]["field"] == name


@pytest.mark.parametrize("text", ["", "{", "[]", "3", "[" * 100_000])
def test_filter_that_is_no_json_object_is_wrong_usage(text: str) -> None:
    with pytest.raises(WrongUsage, match="--filter"):
        read_filter(text)
