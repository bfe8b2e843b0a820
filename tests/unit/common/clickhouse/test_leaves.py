"""Leaves: what the map holds, and that each path leads to the value in the attributes."""

import math
from typing import Any

import orjson
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from common.clickhouse.leaves import ALWAYS_OBJECT_PATHS, SpanLeaves, typed_text
from common.json_values import number_text
from common.nesting import nest, shape_of
from ingest.ag import canonical_ag, empty_ag

INTEGERS = st.integers(-(2**63), 2**64 - 1)
DOUBLES = st.floats(allow_nan=False, allow_infinity=False)
SEGMENTS = st.sampled_from(["a", "b", "", "0", "1", "00", "10", "a.b", ".", "é"])
SCALARS = st.none() | st.booleans() | INTEGERS | DOUBLES | st.text(max_size=3)
VALUES = st.recursive(
    SCALARS,
    lambda inner: st.lists(inner, max_size=12) | st.dictionaries(SEGMENTS, inner, max_size=4),
    max_leaves=20,
)
ATTRIBUTES = st.dictionaries(SEGMENTS, VALUES, max_size=5)
PATHS = st.lists(st.sampled_from(["a", "b", "", "0", "1", "00", "10", "11", "é"]), min_size=1, max_size=5).map(".".join)


def leaves(attributes: dict[str, Any]) -> list[tuple[str, str]]:
    return pairs_of(leaves_of(attributes))


def leaves_of(attributes: dict[str, Any]) -> SpanLeaves:
    found = SpanLeaves()
    found.append(attributes)
    return found


def pairs_of(found: SpanLeaves) -> list[tuple[str, str]]:
    return list(zip(found.paths, found.texts, strict=True))


def value_at(attributes: dict[str, Any], path: str) -> Any:
    """Return the value at a dotted path, or ``None``."""
    value: Any = attributes
    for segment in path.split("."):
        if isinstance(value, dict):
            value = value.get(segment)
        elif isinstance(value, list) and segment.isascii() and segment.isdigit() and str(int(segment)) == segment:
            value = value[int(segment)] if int(segment) < len(value) else None
        else:
            return None
    return value


def holds_scalar(value: Any) -> bool:
    if isinstance(value, dict | list):
        return any(map(holds_scalar, value.values() if isinstance(value, dict) else value))
    return value is not None


def test_every_kind_of_leaf_in_the_order_of_the_document() -> None:
    attributes = {
        "text": "x",
        "nested": {"int": 5, "double": 0.1, "yes": True},
        "array": ["a", {"no": False}],
        "null": None,
    }

    assert leaves(attributes) == [
        ("text", "sx"),
        ("nested.int", "n5"),
        ("nested.double", "n0.1"),
        ("nested.yes", "b1"),
        ("array.0", "sa"),
        ("array.1.no", "b0"),
    ]


def test_empty_containers_are_leaves_and_nulls_are_not() -> None:
    attributes = {"o": {}, "a": [], "deep": {"a": [None, {"x": None}]}, "full": {"empty": {}, "x": 1}}

    assert leaves(attributes) == [
        ("o", "o"),
        ("a", "a"),
        ("deep.a.1", "o"),
        ("deep.a", "a"),
        ("deep", "o"),
        ("full.empty", "o"),
        ("full.x", "n1"),
    ]


def test_empty_text_is_a_leaf() -> None:
    assert leaves({"x": ""}) == [("x", "s")]


def test_dot_in_a_nested_key_does_not_split_the_path() -> None:
    assert leaves({"a": {"b.c": 1, "b": {"c": 2}}}) == [("a.b\0c", "n1"), ("a.b.c", "n2")]


@pytest.mark.parametrize("length", [64, 65, 1_000])
def test_indexes_of_long_arrays(length: int) -> None:
    assert leaves({"a": list(range(length))}) == [(f"a.{index}", f"n{index}") for index in range(length)]


def test_objects_of_every_span_are_left_out() -> None:
    skeleton = {"ag": empty_ag("invocation")}

    assert leaves(skeleton) == [("ag.type.trace", "sinvocation")]
    assert {"ag.data", "ag.metrics", "ag.metrics.costs"} < ALWAYS_OBJECT_PATHS


def test_objects_of_every_span_are_left_out_even_if_empty() -> None:
    assert leaves({"ag": {"type": {}, "data": {"inputs": {}}, "metrics": {"duration": {}}}}) == [
        ("ag.data.inputs", "o")
    ]


def test_path_may_have_ten_thousand_dots() -> None:
    attributes = nest({".".join("x" * 10_001): 1})

    assert len(leaves(attributes)) == 1


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (0, "0"),
        (-0.0, "0"),
        (5.0, "5"),
        (-3, "-3"),
        (0.1, "0.1"),
        (1e-7, "1e-7"),
        (1e22, "1e+22"),
        (5e-324, "5e-324"),
        (2**64 - 1, "18446744073709551615"),
        (-(2**63), "-9223372036854775808"),
        (-(2.0**63), "-9223372036854775808"),
        (math.nextafter(2.0**64, 0), "18446744073709549568"),
        (2.0**64, "1.8446744073709552e+19"),
        (math.nextafter(-(2.0**63), -math.inf), "-9.223372036854778e+18"),
    ],
)
def test_number_text_is_the_json_text(value: float, text: str) -> None:
    assert number_text(value) == text


@given(INTEGERS | DOUBLES, INTEGERS | DOUBLES)
@example(2.0**53, 2**53 + 1)
@example(2.0**64, 2**64 - 1)
@example(1e19, 10**19)
def test_numbers_have_the_same_text_exactly_if_equal(one: float, other: float) -> None:
    assert (number_text(one) == number_text(other)) == (one == other)
    assert number_text(float(one)) == number_text(float(one))
    assert orjson.loads(number_text(one)) == one


@given(DOUBLES)
def test_a_whole_double_has_the_text_of_the_integer(value: float) -> None:
    if value.is_integer() and -(2**63) <= value < 2**64:
        assert number_text(value) == number_text(int(value))


@given(
    st.text(max_size=3) | st.booleans() | INTEGERS | DOUBLES, st.text(max_size=3) | st.booleans() | INTEGERS | DOUBLES
)
@example(True, 1)
@example("1", 1)
@example("", False)
def test_typed_texts_are_equal_exactly_if_type_and_value_are(one: str | float, other: str | float) -> None:
    def kind(value: str | float) -> type:
        return type(value) if isinstance(value, str | bool) else float

    assert (typed_text(one) == typed_text(other)) == (kind(one) is kind(other) and one == other)


@given(ATTRIBUTES, PATHS)
@example({"a": {"b.0": 1}}, "a.b.0")
@example({"a": [1]}, "a.00")
@example({"a": {"00": 1}}, "a.00")
@example({"": {"": 1}}, ".")
def test_every_path_leads_to_its_value(attributes: dict[str, Any], path: str) -> None:
    found = dict(leaves(attributes)).get(path, "")
    value = value_at(attributes, path)

    if value is None:
        assert found == ""
    elif isinstance(value, dict | list):
        empty = "o" if isinstance(value, dict) else "a"
        assert found == ("" if holds_scalar(value) else empty)
    else:
        assert found == typed_text(value)


@given(ATTRIBUTES)
@example({"": {"a": 1}, "a": 2})
def test_no_two_leaves_share_a_path(attributes: dict[str, Any]) -> None:
    paths = [path for path, _ in leaves(attributes)]

    assert len(set(paths)) == len(paths)


MESSAGES = st.dictionaries(st.sampled_from(["role", "content", "finish_reason", "a.b"]), VALUES, max_size=3)
CHATS = st.fixed_dictionaries({"messages": st.lists(MESSAGES | VALUES, max_size=3) | VALUES}, optional={"a": VALUES})
AMOUNTS = st.dictionaries(st.sampled_from(["prompt", "total", "a.b"]), VALUES, max_size=3)
AGS = st.fixed_dictionaries(
    {},
    optional={
        "type": st.fixed_dictionaries({}, optional={"span": st.just("chat")}),
        "data": st.fixed_dictionaries({}, optional={"inputs": CHATS | VALUES, "outputs": CHATS | VALUES}),
        "metrics": st.fixed_dictionaries(
            {},
            optional={
                "duration": st.fixed_dictionaries({"cumulative": INTEGERS | DOUBLES}),
                "errors": st.fixed_dictionaries({"incremental": INTEGERS}),
                "tokens": st.fixed_dictionaries({"incremental": AMOUNTS, "cumulative": AMOUNTS}),
                "costs": st.fixed_dictionaries({"incremental": AMOUNTS}),
            },
        ),
        "meta": VALUES,
        "flags": VALUES,
    },
)


@given(AGS)
@example({"data": {"inputs": {"messages": []}}})
@example({"data": {"outputs": {"messages": [{"role": None}, {}]}}})
@example({"data": {"outputs": {"messages": [{"role": "user"}] * 64}}})
@example({"data": {"outputs": {"messages": [{"role": "user"}] * 65}}})
@example({"metrics": {"tokens": {"incremental": {"prompt": None}}}})
@example({"metrics": {"costs": {"incremental": {"a.b": 0.5, "prompt": True, "total": -0.0}}}})
def test_leaves_of_ag_equal_those_of_the_general_function(sent: dict[str, Any]) -> None:
    ag = canonical_ag(sent, trace_type="invocation")
    found = SpanLeaves()

    found.append_ag(ag)

    assert pairs_of(found) == leaves({"ag": ag})


@given(st.dictionaries(PATHS, VALUES, max_size=5))
@example({"tags": ["a", {"b": 1, "c.d": None}], "x": 1, "y.z": {"a": [True]}})
@example({"a": [], "b": 1})
@example({"a": [None], "b": [1]})
@example({"a.b": None, "c": 1})
@example({"a.x": 1, "b": [2], "a.y": 3})
@example({"l.1": "b", "k": 0, "l.0": {"x": "a"}})
def test_leaves_of_flat_attributes_equal_those_of_nested_ones(flat: dict[str, Any]) -> None:
    nested, is_regular = nest(flat), shape_of(flat) is not None
    found = SpanLeaves()

    is_appended = found.append_flat(flat)

    if not is_appended:
        assert (found.paths, found.texts, found.notes) == ([], [], [])
    elif is_regular:
        assert pairs_of(found) == leaves(nested)
