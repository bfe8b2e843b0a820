"""Dotted keys to nested objects (reference §2.2): its vectors, and that nothing is lost."""

from __future__ import annotations

import copy
import json

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from common.nesting import SEGMENTS_MAX, nest, nested_as, shape_of

segments = st.sampled_from(["a", "b", "c", "0", "1", "2", "00", "", "٢"])
keys = st.lists(segments, min_size=1, max_size=4).map(".".join)
values = st.recursive(
    st.integers() | st.none(), lambda inner: st.lists(inner, max_size=3) | st.dictionaries(segments, inner, max_size=3)
)


@pytest.mark.parametrize(
    ("flat", "nested"),
    [
        ({"x.z.0": "p", "x.z.1": "q"}, {"x": {"z": ["p", "q"]}}),
        ({"0.x": 1}, {"0": {"x": 1}}),
        ({"a.b": 1, "a": {"c": 2}, "a.b.c": 9}, {"a": {"c": 2, "b": {"c": 9}}}),
        ({"a": {"x.y": 1}}, {"a": {"x.y": 1}}),
        ({"a": {"b": 1}, "a.c": 2}, {"a": {"b": 1, "c": 2}}),
        ({"a": {"b": 1}, "a.b": 2}, {"a": {"b": 2}}),
    ],
    ids=["array", "leading number", "later key wins", "objects are kept", "merge", "overwrite"],
)
def test_vectors_of_the_reference_are_nested_as_given(flat, nested):
    assert nest(flat) == nested


@pytest.mark.parametrize(
    ("flat", "nested"),
    [
        ({"a": 1, "a.b": 2, "a.c.d": 3}, {"a": 1, "a.b": 2, "a.c.d": 3}),
        ({"x.a": 1, "x.a.b": 2}, {"x": {"a": 1, "a.b": 2}}),
        ({"a.b": 1, "a": 5}, {"a": 5, "a.b": 1}),
        ({"a.b": 1, "a": {"c": 2}}, {"a": {"b": 1, "c": 2}}),
        ({"a.b": 1, "a": [7]}, {"a": [7], "a.b": 1}),
        ({"a.b.c": 1, "a": {"b": {"d": 2}}}, {"a": {"b": {"c": 1, "d": 2}}}),
    ],
)
def test_colliding_keys_lose_nothing(flat, nested):
    assert nest(flat) == nested


@pytest.mark.parametrize(
    ("flat", "nested"),
    [
        ({"x.1": "b", "x.0": "a"}, {"x": ["a", "b"]}),
        ({"x.0.m": 1, "x.1.m": 2, "x.0.n": 3}, {"x": [{"m": 1, "n": 3}, {"m": 2}]}),
        ({"x.0.0": 1, "x.0.1": 2}, {"x": [[1, 2]]}),
        ({"x.999999999": 1}, {"x": {"999999999": 1}}),
        ({"x.0": 1, "x.2": 2}, {"x": {"0": 1, "2": 2}}),
        ({"x.00": 1}, {"x": {"00": 1}}),
        ({"x.0": 1, "x.a": 2}, {"x": {"0": 1, "a": 2}}),
        ({"x": [1, 2], "x.2": 3}, {"x": [1, 2, 3]}),
        ({"x": [1, 2], "x.4": 3}, {"x": {"0": 1, "1": 2, "4": 3}}),
        ({"x": {"0": 1}, "x.1": 2}, {"x": {"0": 1, "1": 2}}),
    ],
)
def test_numbers_make_an_array_only_without_a_gap(flat, nested):
    assert nest(flat) == nested


def test_key_is_nested_down_to_the_limit_of_segments():
    at_limit = nest({".".join("a" * SEGMENTS_MAX): 1})
    past_limit = nest({".".join("a" * SEGMENTS_MAX) + ".b.c": 1})

    for _ in range(SEGMENTS_MAX - 1):
        at_limit, past_limit = at_limit["a"], past_limit["a"]
    assert at_limit == {"a": 1}
    assert past_limit == {"a.b.c": 1}


@given(st.dictionaries(keys, st.integers(), max_size=12))
@example({"a.a.a": 0, "a": 0, "a.a": 0})
@example({"a.0.a": 0, "a.0": 0})
def test_no_scalar_is_lost_with_any_keys(flat):
    numbered = {key: number for number, key in enumerate(flat)}

    assert sorted(leaves(nest(numbered))) == list(range(len(numbered)))


@given(st.dictionaries(keys, values, max_size=8))
def test_nesting_is_total_and_changes_no_value(flat):
    before = copy.deepcopy(flat)

    nest(flat)

    assert flat == before


@given(st.dictionaries(st.text(alphabet="ab", min_size=1, max_size=3), values, max_size=8))
def test_keys_without_dots_are_kept_as_they_are(flat):
    assert nest(flat) == flat


def leaves(value):
    if isinstance(value, dict):
        return [leaf for member in value.values() for leaf in leaves(member)]
    if isinstance(value, list):
        return [leaf for element in value for leaf in leaves(element)]
    return [value]


@given(st.dictionaries(keys, values, max_size=8))
@example({"a.0.b": 1, "a.1.b": 2, "c.1": 3, "c.0": 4})
@example({".a": 1, "..a": 2, "": 3})
@example({"a.b.0": 1, "a.b.1.0": 2, "d.00": 3, "e.٢": 4})
@example({"a.b.c.d.e": 1, "a.b": {}})
@example({"x" + ".x" * SEGMENTS_MAX: 1})
def test_nesting_by_shape_equals_nesting_key_by_key(flat):
    shape = shape_of(flat)
    by_key = nested_as(None, flat)

    assert json.dumps(nested_as(shape, flat)) == json.dumps(by_key), "the same order of members too"


@pytest.mark.parametrize("flat", [{"a.b.c": 1, "a.b": 2}, {"a.b": {}, "a.b.c": 1}, {"a" + ".a" * SEGMENTS_MAX: 1}])
def test_keys_that_collide_or_are_too_long_have_no_shape(flat):
    assert shape_of(flat) is None


def test_order_of_keys_is_the_order_of_members():
    there, back = {"a.b.c.d.e": 1, "a.b.x": 2}, {"a.b.x": 2, "a.b.c.d.e": 1}

    assert list(nest(there)["a"]["b"]) == ["c", "x"]
    assert list(nest(back)["a"]["b"]) == ["x", "c"]
