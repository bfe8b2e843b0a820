"""Templates: with the leaves they make the attributes again, and spans share one only if it is theirs."""

from typing import Any

import orjson
from hypothesis import example, given
from hypothesis import strategies as st

from common.clickhouse.leaves import MARK, TEMPLATES_MAX, SpanLeaves, Templates, template_of, typed_text
from common.nesting import nest
from common.paths import exists_at, value_at
from tests.support.attributes import filled
from tests.unit.common.clickhouse.test_leaves import ATTRIBUTES, PATHS, VALUES, leaves_of


def made_again(attributes: dict[str, Any], template: bytes) -> Any:
    return orjson.loads(filled(template, leaves_of(attributes).texts))


@given(ATTRIBUTES)
@example({"a": [None, 1, {}, [], {"b": None}], "ag": {"data": {}, "metrics": {"errors": {}}}})
@example({"text": 'quotes " \\ and \n \u2028 / \x7f'})
def test_template_and_leaves_make_the_attributes(attributes: dict[str, Any]) -> None:
    # Compared as JSON: a double without a fraction is an integer there (`common/json_values.py`).
    assert made_again(attributes, template_of(attributes)) == attributes


def test_template_is_the_json_text_with_marks() -> None:
    attributes = {"a": {"b": "x", "c": [1, None, True]}, "e": {}, "f": []}

    assert template_of(attributes) == b'{"a":{"b":\0,"c":[\0,null,\0]},"e":{},"f":[]}'
    assert filled(template_of(attributes), leaves_of(attributes).texts) == orjson.dumps(attributes)


@given(st.lists(ATTRIBUTES | st.dictionaries(PATHS, VALUES, max_size=5).map(nest), max_size=6))
@example([{"a": {"0": 1}}, {"a": [1]}])
@example([{"a": {}}, {"a": []}, {"a": None}, {}])
@example([{"a": {"b": None}}, {"a": {}}])
@example([{"a": [None]}, {"a": []}, {"a": [None, None]}])
@example([{"a": [{}, None]}, {"a": [{"x": None}, None]}, {"a": [[], None]}])
@example([{"ag": {"data": {"x": None}}}, {"ag": {"data": {}}}, {"ag": {}}, {"ag": {"data": {}, "metrics": {}}}])
@example([{"a.b": 1}, {"a": {"b": 1}}])
def test_every_span_gets_its_own_template(spans: list[dict[str, Any]]) -> None:
    templates = Templates()

    for attributes in [*spans, *spans]:
        template = templates.of(attributes.copy, leaves_of(attributes), None)
        assert made_again(attributes, template.text) == attributes


def test_numbered_keys_and_an_object_with_numbers_differ() -> None:
    templates = Templates()

    for flat in ({"a.0": 1, "a.1": 2}, {"a": {"0": 1, "1": 2}}, {"a": [1, 2]}):
        leaves = SpanLeaves()
        assert leaves.append_flat(flat)
        nested = nest(flat)
        assert orjson.loads(filled(templates.of(nested.copy, leaves, tuple(flat)).text, leaves.texts)) == nested


def test_number_of_templates_is_bounded() -> None:
    templates = Templates()

    for number in range(TEMPLATES_MAX + 2):
        attributes = {f"key-{number}": 1}
        templates.of(attributes.copy, leaves_of(attributes), None)

    assert len(templates) == 2


def test_template_of_long_paths_is_not_kept() -> None:
    templates, attributes = Templates(), {"k" * 1_000: {f"m{number}": number for number in range(500)}}

    template = templates.of(attributes.copy, leaves_of(attributes), None)

    assert len(template.text) < 10_000
    assert len(templates) == 0


def test_large_template_is_not_kept() -> None:
    templates, attributes = Templates(), {"k" * 20_000: 1}

    assert templates.of(attributes.copy, leaves_of(attributes), None).text.count(MARK) == 1

    assert len(templates) == 0


def stored(attributes: dict[str, Any]) -> list[tuple[str, str]]:
    """Return the leaves as the table has them."""
    leaves = leaves_of(attributes)
    template = Templates().of(attributes.copy, leaves, None)
    return list(zip(template.stored_paths or leaves.paths, leaves.texts, strict=True))


def test_key_that_was_sent_is_the_path_of_its_leaf() -> None:
    flat = {"error": True, "error.type": "TimeoutError", "code": {"function": "run", "function.name": "app.run"}}

    assert stored(nest(flat)) == [
        ("error", "b1"),
        ("error.type", "sTimeoutError"),
        ("code.function", "srun"),
        ("code.function.name", "sapp.run"),
    ]


def test_leaf_that_no_key_finds_is_marked() -> None:
    assert stored({"a": {"b.c": 1, "b": {"c": 2}}}) == [("a.b.c\0", "n1"), ("a.b.c", "n2")]


def test_leaf_is_found_where_the_shorter_path_is_null() -> None:
    assert stored({"a": {"b": {"c": None}, "b.c": 1}}) == [("a.b", "o"), ("a.b.c", "n1")]


@given(ATTRIBUTES, PATHS)
@example({"a": {"b.0": 1}}, "a.b.0")
@example({"a": {"b": {"x": 1}, "b.c": 2}}, "a.b.c")
@example({"a": 1, "a.b": [2]}, "a.b.0")
@example({"a": 1, "a.b.c": [2]}, "a.b")
def test_leaf_at_a_key_is_the_value_that_it_finds(attributes: dict[str, Any], key: str) -> None:
    leaves = stored(attributes)
    value = value_at(attributes, key.split("."))

    at_key = [text for path, text in leaves if path == key]
    if value is None or isinstance(value, dict | list):
        assert not set(at_key) - {"o", "a"}
    else:
        assert at_key == [typed_text(value)]
    exists = bool(at_key) or any(path.startswith(f"{key}.") for path, _ in leaves)
    assert exists == exists_at(attributes, key.split("."))
