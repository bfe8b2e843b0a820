"""The key that was sent finds its value, even if the span has a shorter or a longer key that begins the same way."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from common.nesting import nest
from common.paths import LEVELS_MAX, exists_at, located, value_at

KEYS = st.lists(st.sampled_from(["a", "b", "0", "1", ""]), min_size=1, max_size=5).map(".".join)


@given(st.dictionaries(KEYS, st.integers() | st.text(max_size=3), max_size=8))
@example({"error": 1, "error.type": 2})
@example({"error.type": 1, "error": 2})
@example({"a.b.c": 1, "a": 2, "a.b": 3})
@example({"a.b.c.d": 1, "a": 2, "a.b.c": 3})
def test_every_scalar_is_found_by_the_key_that_was_sent(flat: dict[str, Any]) -> None:
    nested = nest(flat)

    assert {key: value_at(nested, key.split(".")) for key in flat} == flat


@pytest.mark.parametrize(
    ("document", "key", "value"),
    [
        ({"a": {"b": 1}}, "a.b", 1),
        ({"a": {"b": 1, "b.c": 2}}, "a.b.c", 2),
        ({"a": 1, "a.b": {"c": [5, {"d.e": 6}]}}, "a.b.c.1.d.e", 6),
        ({"a": {"b.c": 1, "b": {"c": 2}}}, "a.b.c", 2),
        ({"a": {"b.c": 1, "b": {"c": None}}}, "a.b.c", 1),
        ({"a.b": {"c": 1}, "a.b.c": 2}, "a.b.c", 2),
        ({"a.b.c": 2, "a.b": {"c": {"d": 1}}}, "a.b.c.d", 1),
        ({"a.b": {"x": 1}, "a": {"b.c": 2}}, "a.b.c", 2),
        ({"a": {"x": 1}, "a.b": 2}, "a.b", 2),
        ({"a": [1], "a.0": 2}, "a.0", 1),
        ({"a": [1], "a.5": 2}, "a.5", 2),
        ({"a": 5, "a.01": 2}, "a.01", 2),
        ({"a": {"": {"b": 1}}}, "a..b", 1),
        ({"a": 1, "a..b": 2}, "a..b", 2),
        ({"a": 1, "": 2}, "a.", None),
        ({"a": 1}, "a.b", None),
    ],
)
def test_value_of_a_key(document: dict[str, Any], key: str, value: Any) -> None:
    assert value_at(document, key.split(".")) == value


def test_names_say_where_the_value_is() -> None:
    found = located({"a": 1, "a.b": {"c": [5]}}, ("a", "b", "c", "0"))

    assert found == (("a.b", "c", "0"), 5)


@pytest.mark.parametrize(
    ("document", "key", "exists"),
    [
        ({"a": {"b": {}}}, "a.b", True),
        ({"a": 1, "a.b.c": 2}, "a.b", True),
        ({"a": 1, "a.b.c": None}, "a.b", False),
        ({"a": 1, "a.bc": 2}, "a.b", False),
        ({"a": {"b": {"x": 1}, "b.c.d": 2}}, "a.b.c", True),
        ({"a": None}, "a", False),
    ],
)
def test_key_exists_if_a_sent_one_continues_it(document: dict[str, Any], key: str, *, exists: bool) -> None:
    assert exists_at(document, key.split(".")) is exists


def test_longest_path_that_finds_something() -> None:
    longest, longer = (".".join(["a"] * count) for count in (LEVELS_MAX, LEVELS_MAX + 1))

    assert value_at({longest: 1, longer: 2}, longest.split(".")) == 1
    assert value_at({longest: 1, longer: 2}, longer.split(".")) is None
    assert not exists_at({f"{longer}.b": 1}, longer.split("."))
