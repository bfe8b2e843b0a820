"""Values by key: each key of a name with a dot has the value that it finds."""

from typing import Any

import orjson
from hypothesis import example, given

from common.clickhouse.member_json import BY_KEY_BYTES_MAX, attribute_values, source_values
from common.paths import exists_at, value_at
from tests.unit.common.clickhouse.test_leaves import ATTRIBUTES, PATHS


def test_nothing_is_said_of_names_without_dots() -> None:
    assert source_values(b"") == b""
    assert source_values(b'{"attributes":{"host":{"name":"a.b"},"version":1.5}}') == b""


def test_values_of_a_resource() -> None:
    text = b'{"attributes":{"host":"x","host.name":"y","os":1,"os.build":{"id":[5]}}}'

    assert orjson.loads(source_values(text)) == {
        "attributes.host.name": "y",
        "attributes.os.build": {"id": [5]},
        "attributes.os.build.id": [5],
        "attributes.os.build.id.0": 5,
    }


def test_key_that_others_continue_has_null() -> None:
    assert orjson.loads(source_values(b'{"attributes":{"a":1,"a.b.c":2}}')) == {
        "attributes.a.b.c": 2,
        "attributes.a.b": None,
    }


def test_quotes_and_backslashes_in_names() -> None:
    text = orjson.dumps({"attributes": {"a": 1, 'a."\\x': 2, '"b.\\"': 3}})

    assert orjson.loads(source_values(text)) == {'attributes.a."\\x': 2, 'attributes."b.\\"': 3, 'attributes."b': None}


def test_values_of_attributes_are_containers() -> None:
    assert orjson.loads(attribute_values({"a": 1, "a.b": {"c": 1, "d": []}})) == {"a.b": {"c": 1, "d": []}, "a.b.d": []}


def test_size_is_bounded_and_the_first_levels_come_first() -> None:
    deep: Any = ["x" * 30_000]
    for _ in range(20):
        deep = {"k": deep}

    text = attribute_values({"a": 1, "a.b": deep})

    assert 200_000 < len(text) <= BY_KEY_BYTES_MAX + 100
    assert next(iter(orjson.loads(text))) == "a.b"


@given(ATTRIBUTES, PATHS)
@example({"a": {"b": {"x": 1}, "b.c": 2}}, "a.b.c")
@example({"a": 1, "a.b": [2]}, "a.b.0")
@example({"a": 1, "a.b.c": [2]}, "a.b")
@example({"a.b": None}, "a.b")
def test_key_finds_the_same_value_here(attributes: dict[str, Any], key: str) -> None:
    source = orjson.dumps({"attributes": attributes})
    by_key = orjson.loads(source_values(source) or b"{}")
    document, path = orjson.loads(source), f"attributes.{key}".split(".")

    plain: Any = document
    for segment in path:
        is_index = isinstance(plain, list) and segment in {str(index) for index in range(len(plain))}
        plain = plain.get(segment) if isinstance(plain, dict) else plain[int(segment)] if is_index else None
    found = plain if plain is not None else by_key.get(".".join(path))
    assert found == value_at(document, path)
    assert (plain is not None or ".".join(path) in by_key) == exists_at(document, path)
