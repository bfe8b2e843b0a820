"""Elements of links, references, events and hashes: which conditions are accepted, and which elements match."""

from __future__ import annotations

from typing import Any
from uuid import UUID

import pytest

from common.errors import InvalidFilter
from query_api.filter.matches import matches
from query_api.filter.parse import FilteringModel, parse

APPLICATION = UUID("019d952f-5945-71b1-b8cb-d6d8e675c18d")
SPAN: dict[str, Any] = {
    "links": [
        {"trace_id": "0a" * 16, "span_id": "00000000000000ab", "attributes": {"key": "invocation"}, "flags": 1},
        {"trace_id": "0b" * 16, "span_id": "00000000000000cd"},
    ],
    "references": [
        {"id": str(APPLICATION), "slug": "app", "version": "3", "attributes": {"key": "application"}},
        {"slug": "other", "attributes": {"key": "evaluator"}},
    ],
    "events": [
        {
            "name": "exception",
            "timestamp": "2024-05-01T12:00:00.000001Z",
            "time_unix_nano": "1714564800000001999",
            "attributes": {"exception.message": "boom", "nested": {"a": {"b": 5}}, "code": 404, "list": ["x"]},
        },
        {"name": "retry", "timestamp": "2024-05-01T12:00:00Z"},
    ],
    "hashes": [{"id": "d3c8a323-8abe-92a5-d1d4-bb89e23f10ed", "attributes": {"key": "indirect"}}],
}


def holds(field: str, operator: str, value: Any = None, span: Any = SPAN, **rest: Any) -> bool:
    condition = {"field": field, "operator": operator, "value": value, **rest}
    return matches(parse(FilteringModel.model_validate({"conditions": [condition]})), span)


@pytest.mark.parametrize(
    ("field", "partial", "verdict"),
    [
        ("links", {}, True),
        ("links", {"trace_id": "0A" * 16}, True),
        ("links", {"trace_id": "0x" + "0a" * 16, "span_id": "00000000-0000-00ab-0000-0000000000ab"}, True),
        ("links", {"trace_id": "0a" * 16, "span_id": "00000000000000cd"}, False),
        ("links", {"attributes": {"key": "invocation"}}, True),
        ("links", {"attributes.key": "invocation", "span_id": "00000000000000cd"}, False),
        ("links", {"flags": 1.0}, True),
        ("references", {"id": APPLICATION.hex.upper()}, True),
        ("references", {"id": f"0x{APPLICATION.hex}", "slug": "app"}, True),
        ("references", {"id": str(APPLICATION), "slug": "other"}, False),
        ("references", {"version": 3}, True),
        ("references", {"slug": "app", "attributes.key": "application"}, True),
        ("references", {"slug": "app", "attributes.key": "evaluator"}, False),
        ("events", {"name": "exception"}, True),
        ("events", {"name": "Exception"}, False),
        ("events", {"timestamp": "2024-05-01T14:00:00.000001+02:00"}, True),
        ("events", {"time_unix_nano": 1714564800000001999}, True),
        ("events", {"time_unix_nano": "1714564800000001000"}, False),
        ("events", {"attributes.exception.message": "boom"}, True),
        ("events", {"attributes": {"exception.message": "boom"}}, True),
        ("events", {"attributes.nested.a.b": 5.0}, True),
        ("events", {"attributes.nested": {"a": {"b": 5}}}, True),
        ("events", {"attributes.list": ["x"]}, True),
        ("events", {"attributes.list.0": "x"}, False),
        ("events", {"attributes.code": "404"}, False),
        ("events", {"attributes.exception": "boom"}, False),
        ("hashes", "D3C8A3238ABE92A5D1D4BB89E23F10ED", True),
        ("hashes", {"id": "d3c8a323-8abe-92a5-d1d4-bb89e23f10ed", "attributes.key": "indirect"}, True),
        ("hashes", {"attributes.key": "direct"}, False),
    ],
)
def test_element_matches_if_every_given_member_matches(field: str, partial: Any, verdict: bool) -> None:
    assert holds(field, "in", [partial]) is verdict
    assert holds(field, "not_in", [partial]) is not verdict


@pytest.mark.parametrize("field", ["links", "references", "events", "hashes"])
@pytest.mark.parametrize("span", [{}, {"links": [], "references": [], "events": [], "hashes": []}])
def test_an_empty_array_is_absent(field: str, span: dict[str, Any]) -> None:
    assert not holds(field, "exists", span=span)
    assert holds(field, "not_exists", span=span)
    assert not holds(field, "in", [{}], span=span)
    assert holds(field, "not_in", [{}], span=span)
    assert holds(field, "has_not", "x", span=span, key="attributes.key")


def test_in_needs_one_element_and_all_needs_each() -> None:
    here, there = {"name": "exception"}, {"name": "deploy"}

    assert holds("events", "in", [there, here])
    assert not holds("events", "in", [there, here], options={"all": True})
    assert holds("events", "in", [here, {"name": "retry"}], options={"all": True})
    assert not holds("events", "in", [])
    assert not holds("events", "in", [], options={"all": True})
    assert holds("events", "not_in", [])


@pytest.mark.parametrize(
    ("field", "key", "value", "verdict"),
    [
        ("links", "attributes.key", "invocation", True),
        ("references", "attributes.key", "snippet", False),
        ("events", "attributes.exception.message", "boom", True),
        ("hashes", "attributes.key", "indirect", True),
        ("hashes", "id", "D3C8A3238ABE92A5D1D4BB89E23F10ED", True),
    ],
)
def test_has_compares_one_member(field: str, key: str, value: Any, verdict: bool) -> None:
    assert holds(field, "has", value, key=key) is verdict
    assert holds(field, "has_not", value, key=key) is not verdict


REFUSED = [
    ({"field": "links", "operator": "is"}, "operator: 'links' only supports list, dict, and existence operators: in,"),
    ({"field": "links", "operator": "in", "key": "a", "value": []}, "key: 'links' key is only supported for dict operators."),
    ({"field": "events", "operator": "exists", "key": "a"}, "key: 'events' key is only supported for dict operators."),
    ({"field": "events", "operator": "exists", "value": 1}, "value: 'events' value is not supported for existence operators."),
    ({"field": "links", "operator": "in", "value": {}}, "value: 'links' value must be one or more (possibly partial) links."),
    ({"field": "links", "operator": "in"}, "value: 'links' value must be one or more (possibly partial) links."),
    ({"field": "references", "operator": "in", "value": ["x"]}, "value[0]: 'references' value must be one or more (possibly partial) references."),
    ({"field": "events", "operator": "in", "value": [{}, None]}, "value[1]: 'events' value must be one or more (possibly partial) events."),
    ({"field": "hashes", "operator": "in", "value": [5]}, "value[0]: 'hashes' value must be one or more hash ids or partial hashes."),
    ({"field": "hashes", "operator": "in", "value": ["x"]}, "value[0]: the value must be a UUID"),
    ({"field": "links", "operator": "has", "value": 1}, "key: 'links' key must be a string in dot notation starting with 'attributes'."),
    ({"field": "events", "operator": "has", "key": "name", "value": 1}, "key: 'events' key must be a string in dot notation starting"),
    ({"field": "references", "operator": "has", "key": "id", "value": 1}, "key: 'references' key must be a string in dot notation starting"),
    ({"field": "hashes", "operator": "has", "key": "slug", "value": 1}, "key: 'hashes' key must be 'id' or dot notation under 'attributes'."),
    ({"field": "events", "operator": "has", "key": "attributes.x"}, "value: a member of an element must not be null"),
    ({"field": "links", "operator": "in", "value": [{"span": "x"}]}, "value[0].span: 'span' is not a member of 'links'; allowed: trace_id, span_id,"),
    ({"field": "links", "operator": "in", "value": [{"trace_id": None}]}, "value[0].trace_id: a member of an element must not be null"),
    ({"field": "links", "operator": "in", "value": [{"trace_id": "x"}]}, "value[0].trace_id: “x” is not a trace id"),
    ({"field": "references", "operator": "in", "value": [{"id": 5}]}, "value[0].id: the value must be a UUID"),
    ({"field": "references", "operator": "in", "value": [{"slug": "a b"}]}, "value[0].slug: a slug consists of letters"),
    ({"field": "references", "operator": "in", "value": [{"attributes": "x"}]}, "value[0].attributes: 'attributes' must be an object"),
    ({"field": "events", "operator": "in", "value": [{"timestamp": "soon"}]}, "value[0].timestamp: Timestamp “soon” cannot be read"),
    ({"field": "events", "operator": "in", "value": [{"timestamp": "9999-12-31T23:59:59-01:00"}]}, "value[0].timestamp: the time is outside the years 1 to 9999."),
    ({"field": "events", "operator": "in", "value": [{"timestamp": "0001-01-01T00:00:00+01:00"}]}, "value[0].timestamp: the time is outside the years 1 to 9999."),
    ({"field": "links", "operator": "in", "value": [{"flags": "1"}]}, "value[0].flags: the value must be a number; got a string."),
    ({"field": "links", "operator": "in", "value": [{}] * 10_001}, "value: the list has 10001 values; at most 10000 are allowed."),
    ({"field": "events", "operator": "in", "value": [{"attributes.x": "y" * 65_536}]}, "value[0]: the value has"),
    ({"field": "events", "operator": "has", "key": "attributes." + "x" * 65_536, "value": 1}, "key: the value has"),
]  # fmt: skip


@pytest.mark.parametrize(("condition", "words"), REFUSED)
def test_impossible_element_is_refused_with_its_path(condition: dict[str, Any], words: str) -> None:
    with pytest.raises(InvalidFilter) as caught:
        holds(**condition)

    assert caught.value.detail.startswith("filtering.conditions[0].")
    assert words in caught.value.detail


def test_ten_thousand_elements_are_accepted() -> None:
    assert holds(
        "links", "in", [{"trace_id": f"{number:032x}"} for number in range(1, 10_000)] + [{"span_id": "ab".zfill(16)}]
    )
