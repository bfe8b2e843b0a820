"""The meaning of filters: contract §3.2 line by line, on spans as responses show them."""

from __future__ import annotations

from typing import Any

import pytest

from query_api.filter.language import EVERYTHING
from query_api.filter.matches import matches
from query_api.filter.parse import FilteringModel, parse

SPAN: dict[str, Any] = {
    "trace_id": "0a" * 16,
    "span_id": "00000000000000ab",
    "span_name": "call",
    "span_kind": "SPAN_KIND_SERVER",
    "start_time": "2024-05-01T12:00:00Z",
    "start_time_unix_nano": "1714564800000000999",
    "status_message": "12",
    "attributes": {
        "num": 5,
        "float": 2.5,
        "big": 2**53 + 1,
        "text": "Hello",
        "number text": "5.0",
        "array": ["a", 1, None, {"x": 1, "y": 2}],
        "nest": {"x": 1, "y": {"z": True}, "a.b": 1},
        "empty": {"object": {}, "array": [], "text": ""},
        "true": True,
        "null": None,
    },
}


def holds(**condition: Any) -> bool:
    if "key" in condition:
        condition.setdefault("field", "attributes")
    return matches(parse(FilteringModel.model_validate({"conditions": [condition]})), SPAN)


def group(operator: str, *members: dict[str, Any]) -> bool:
    return matches(parse(FilteringModel.model_validate({"operator": operator, "conditions": list(members)})), SPAN)


TRUE = {"field": "span_name", "value": "call"}
FALSE = {"field": "span_name", "value": "other"}


@pytest.mark.parametrize("operator", ["and", "or", "not", "nand", "nor"])
def test_an_empty_group_is_true(operator: str) -> None:
    assert group(operator)
    assert matches(EVERYTHING, {})


@pytest.mark.parametrize(
    ("operator", "both", "one", "neither"),
    [
        ("and", True, False, False),
        ("or", True, True, False),
        ("not", False, True, True),
        ("nand", False, True, True),
        ("nor", False, False, True),
    ],
)
def test_groups_are_boolean_functions(operator: str, both: bool, one: bool, neither: bool) -> None:
    assert [group(operator, TRUE, TRUE), group(operator, TRUE, FALSE), group(operator, FALSE, FALSE)] == [
        both,
        one,
        neither,
    ]


def test_key_that_was_sent_finds_a_name_with_a_dot() -> None:
    assert holds(key="nest.a.b", value=1)
    assert holds(key="nest.a.b", operator="exists")
    assert holds(key="nest.a", operator="exists")
    assert not holds(key="nest.a", value=1)


@pytest.mark.parametrize("key", ["null", "nowhere", "num.below", "array.2", "array.9", "nest.a.c"])
def test_absent_and_null_are_the_same(key: str) -> None:
    assert holds(key=key)
    assert not holds(key=key, operator="is_not")
    assert not holds(key=key, operator="exists")
    assert holds(key=key, operator="not_exists")
    assert not holds(key=key, value=1)
    assert holds(key=key, operator="is_not", value=1)
    assert not holds(key=key, operator="in", value=[1])
    assert holds(key=key, operator="not_in", value=[1])
    for operator in ("eq", "neq", "gt", "gte", "lt", "lte"):
        assert not holds(key=key, operator=operator, value=1)


@pytest.mark.parametrize(
    ("key", "value", "verdict"),
    [
        ("num", 5, True),
        ("num", 5.0, True),
        ("num", "5", False),
        ("true", True, True),
        ("true", 1, False),
        ("text", "hello", False),
        ("big", 2.0**53, False),
        ("nest", {"x": 1}, True),
        ("nest", {"y": {"z": True}, "w": None}, True),
        ("nest", {"x": 2}, False),
        ("nest", {"a.b": 1}, True),
        ("nest", {}, True),
        ("array", {}, False),
        ("array", {"0": "a"}, False),
        ("array", [1, "a"], True),
        ("array", [None, {"y": 2}], True),
        ("array", ["b"], False),
        ("array", "a", False),
        ("array", [], True),
        ("empty.object", [], False),
        ("array.0", "a", True),
        ("array.00", "a", False),
        ("array.3.x", 1, True),
    ],
)
def test_is_is_typed_equality(key: str, value: Any, verdict: bool) -> None:
    assert holds(key=key, value=value) is verdict
    assert holds(key=key, operator="is_not", value=value) is not verdict


@pytest.mark.parametrize(
    ("key", "operator", "value", "verdict"),
    [
        ("number text", "eq", 5, True),
        ("number text", "eq", "5", False),
        ("num", "eq", "5", False),
        ("big", "gt", 2.0**53, True),
        ("big", "eq", 2**53, False),
        ("float", "btwn", [2, 3], True),
        ("num", "btwn", [6, 7], False),
        ("text", "btwn", ["A", "Hello"], True),
        ("text", "gt", 5, False),
        ("true", "eq", 1, False),
        ("text", "gt", "Hallo", True),
        ("text", "lt", "hello", True),
        ("nest", "neq", 1, False),
        ("num", "neq", 6, True),
    ],
)
def test_comparisons_order_numbers_and_texts(key: str, operator: str, value: Any, verdict: bool) -> None:
    assert holds(key=key, operator=operator, value=value) is verdict


@pytest.mark.parametrize(
    ("key", "values", "is_all", "verdict"),
    [
        ("num", [4, 5.0], False, True),
        ("num", ["5"], False, False),
        ("num", [], False, False),
        ("num", [], True, False),
        ("num", [5, 5.0], True, True),
        ("num", [4, 5], True, False),
        ("array", ["z", "a"], False, True),
        ("array", ["z", "a"], True, False),
        ("array", [1, "a"], True, True),
        ("nest", [1], False, False),
    ],
)
def test_in_compares_scalars_and_elements_of_arrays(key: str, values: list[Any], is_all: bool, verdict: bool) -> None:
    assert holds(key=key, operator="in", value=values, options={"all": is_all}) is verdict
    assert holds(key=key, operator="not_in", value=values, options={"all": is_all}) is not verdict


@pytest.mark.parametrize("key", ["empty", "empty.object", "empty.array", "empty.text", "nest.y", "array.3"])
def test_empty_values_exist(key: str) -> None:
    assert holds(key=key, operator="exists")


def test_times_compare_on_the_microsecond() -> None:
    assert holds(field="start_time", operator="eq", value="2024-05-01T12:00:00.000000999Z")
    assert not holds(field="start_time", operator="gt", value="1714564800000000000")
    assert not holds(field="end_time", operator="gt", value="2024-05-01")


def test_span_id_is_found_by_8_and_by_16_bytes() -> None:
    assert holds(field="span_id", value="AB".zfill(16))
    assert holds(field="span_id", value="ab".zfill(16) * 2)


def test_texts_take_numbers_as_their_text_and_compare_numbers_as_numbers() -> None:
    assert holds(field="status_message", value=12.0)
    assert holds(field="status_message", operator="in", value=[12])
    assert holds(field="status_message", operator="lt", value=100)
    assert not holds(field="status_message", operator="lt", value="100")


@pytest.mark.parametrize("text", ["007", "+5", " 5", "5 ", "5.", ".5", "0x5", "٥", "Infinity", "5\n"])
def test_text_that_is_not_a_json_number_is_not_compared(text: str) -> None:
    node = parse(FilteringModel.model_validate({"conditions": [{"field": "span_name", "operator": "neq", "value": 1}]}))

    assert not matches(node, {"span_name": text})


@pytest.mark.parametrize(
    ("key", "wanted", "verdict"),
    [
        ("nest", "x", True),
        ("nest", "a.b", True),
        ("nest", "z", False),
        ("nest", 1, False),
        ("empty", "text", True),
        ("array", "a", True),
        ("array", 1.0, True),
        ("array", "1", False),
        ("array", {"x": 1}, True),
        ("array", "0", False),
        ("text", "Hello", False),
        ("nowhere", "x", False),
    ],
)
def test_has_finds_keys_and_elements(key: str, wanted: Any, verdict: bool) -> None:
    assert holds(key=key, operator="has", value=wanted) is verdict
    assert holds(key=key, operator="has_not", value=wanted) is not verdict


def test_null_member_is_absent() -> None:
    span = {"attributes": {"object": {"null": None}, "array": [None]}}

    for key, wanted in (("object", "null"), ("array", {"x": None})):
        condition = {"field": "attributes", "key": key, "operator": "has", "value": wanted}
        assert not matches(parse(FilteringModel.model_validate({"conditions": [condition]})), span)


@pytest.mark.parametrize(
    ("key", "operator", "value", "verdict"),
    [
        ("text", "contains", "ELL", True),
        ("num", "contains", 5, True),
        ("num", "like", "5", True),
        ("float", "endswith", ".5", True),
        ("big", "startswith", 9007199254740993, True),
        ("true", "contains", "RU", True),
        ("true", "matches", True, True),
        ("number text", "like", "5._", True),
        ("nest", "contains", "x", False),
        ("array", "contains", "a", False),
        ("nowhere", "contains", "", False),
        ("null", "like", "%", False),
    ],
)
def test_text_operators_look_at_the_text_of_scalars(key: str, operator: str, value: Any, verdict: bool) -> None:
    assert holds(key=key, operator=operator, value=value) is verdict


def test_text_operators_see_times_as_responses_show_them() -> None:
    assert holds(field="start_time", operator="like", value="2024-05-01T12:00:00Z")
    assert holds(field="start_time", operator="startswith", value=2024)
    assert not holds(field="start_time", operator="contains", value="000000999")


def test_content_finds_words_of_texts() -> None:
    assert holds(field="content", operator="contains", value="hello -nowhere")
    assert not holds(field="content", operator="contains", value="hell")
