"""Schemas of annotations: what is inferred from an example, and what validation costs at worst."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator
from contextlib import nullcontext
from typing import Any

import pytest

from common.errors import InvalidInput
from common.settings import ComputeSettings
from query_api.compute import ProcessCompute, ThreadCompute
from query_api.registry import json_schemas
from query_api.registry.applications import check_json_schema
from query_api.registry.json_schemas import (
    LEVELS_MAX,
    MEMBERS_MAX,
    check_data,
    inferred_schema,
    schema_problems,
)
from query_api.request.errors import InvalidRequest

AT = ("body", "annotation", "data")


def nested(levels: int) -> dict[str, Any]:
    value: dict[str, Any] = {"end": 1}
    for _ in range(levels):
        value = {"a": value}
    return value


def doubled(levels: int) -> dict[str, Any]:
    """A schema of a few hundred bytes that compares a value with its last part 2^levels times."""
    parts: dict[str, Any] = {
        f"d{level}": {"allOf": [{"$ref": f"#/$defs/d{level + 1}"}, {"$ref": f"#/$defs/d{level + 1}"}]}
        for level in range(levels)
    }
    parts[f"d{levels}"] = {"required": ["missing"]}
    return {"$defs": parts, "$ref": "#/$defs/d0"}


@pytest.fixture
async def processes() -> AsyncIterator[ProcessCompute]:
    compute = ProcessCompute(ComputeSettings(processes=1))
    yield compute
    await compute.close()


@pytest.mark.parametrize(
    ("value", "schema"),
    [
        (True, {"type": "boolean"}),
        (1, {"type": "integer"}),
        (1.0, {"type": "number"}),
        ("", {"type": "string"}),
        (None, {}),
        ([], {"type": "array"}),
        ([1, 2], {"type": "array", "items": {"type": "integer"}}),
        ([1, "a"], {"type": "array"}),
        ([None], {"type": "array"}),
        ({}, {"type": "object", "properties": {}}),
        (
            [{"b": 1}],
            {"type": "array", "items": {"type": "object", "properties": {"b": {"type": "integer"}}, "required": ["b"]}},
        ),
    ],
)
def test_schema_of_a_member(value: Any, schema: Any) -> None:
    inferred = inferred_schema({"a": value})

    assert inferred == {"type": "object", "properties": {"a": schema}, "required": ["a"]}
    check_json_schema(inferred)
    assert schema_problems(json.dumps(inferred), json.dumps({"a": value})) == []


@pytest.mark.parametrize(
    "data",
    [
        nested(LEVELS_MAX + 40),
        {str(number): {"a": number} for number in range(2 * MEMBERS_MAX)},
        {"a": [{"b": 1}] * (2 * MEMBERS_MAX)},
        {"a\0b": 1, "c": 2},
        {"big": 2**70, "text": "\u2028"},
    ],
)
def test_inferred_schema_is_bounded_and_takes_its_example(data: Any) -> None:
    schema = inferred_schema(data)

    assert check_json_schema(schema) == schema
    assert len(json.dumps(schema)) < 100_000
    assert "\\u0000" not in json.dumps(schema)
    assert schema_problems(json.dumps(schema), json.dumps(data)) == []


@pytest.mark.parametrize(
    ("schema", "data", "places"),
    [
        ({"type": "object"}, {}, []),
        ({"properties": {"a": {"type": "string"}}, "required": ["b"]}, {"a": [1]}, [[], ["a"]]),
        ({"properties": {"a": {"items": {"pattern": "^(?=x)"}}}}, {"a": ["x", "y"]}, [["a", 1]]),
        ({"$ref": "#/$defs/x", "$defs": {"x": {"maxProperties": 0}}}, {"a": 1}, [[]]),
        (
            {
                "$schema": "http://json-schema.org/draft-04/schema#",
                "properties": {"a": {"maximum": 3, "exclusiveMaximum": True}},
            },
            {"a": 3},
            [["a"]],
        ),
        ({"$schema": "urn:of-our-own", "properties": {"a": {"const": 1}}}, {"a": 2}, [["a"]]),
    ],
)
async def test_problems_have_their_places(schema: Any, data: Any, places: Any) -> None:
    with pytest.raises(InvalidRequest) if places else nullcontext() as rejected:
        await check_data(ThreadCompute(), json.dumps(schema), json.dumps(data), at=AT)

    problems = [] if rejected is None else list(rejected.value.problems)
    found = [problem["loc"] for problem in problems]
    assert sorted(found, key=len) == [[*AT, *place] for place in places]
    assert {problem["type"] for problem in problems} <= {"value_error.json_schema"}


async def test_at_most_a_hundred_problems_are_reported() -> None:
    data = {str(number): 1 for number in range(300)}

    with pytest.raises(InvalidRequest) as rejected:
        await check_data(ThreadCompute(), '{"additionalProperties": {"type": "string"}}', json.dumps(data), at=AT)

    assert len(rejected.value.problems) == 100


@pytest.mark.parametrize(
    "schema",
    [
        {"$ref": "https://example.com/schema"},
        {"$ref": "file:///etc/passwd"},
        {"$dynamicRef": "https://example.com/schema#a"},
        {"properties": {"a": {"pattern": "(a{1000}){1000}"}}},
        {"properties": {"a": {"pattern": "("}}},
    ],
)
async def test_schema_that_cannot_be_used_is_an_error_of_the_request(schema: Any) -> None:
    with pytest.raises(InvalidInput, match="cannot be used"):
        await check_data(ThreadCompute(), json.dumps(schema), '{"a": "aaa"}', at=AT)


class _Counting(ThreadCompute):
    calls = 0

    async def run(self, *arguments: Any, **options: Any) -> Any:
        self.calls += 1
        return await super().run(*arguments, **options)


@pytest.mark.parametrize(("properties", "calls"), [(100, 0), (10_000, 1)])
async def test_large_schema_is_used_in_a_child_process(properties: int, calls: int) -> None:
    schema = {"properties": {f"p{number}": {"type": "string"} for number in range(properties)}}
    compute = _Counting()

    await check_data(compute, json.dumps(schema), "{}", at=AT)

    assert compute.calls == calls


async def test_regular_expression_that_backtracks_ends(processes: ProcessCompute) -> None:
    schema = {"properties": {"a": {"pattern": r"(x+x+)+\1y"}}}

    with pytest.raises(InvalidRequest):
        await check_data(processes, json.dumps(schema), json.dumps({"a": "x" * 200}), at=AT)


async def test_schema_that_refers_to_itself_ends(processes: ProcessCompute) -> None:
    schema = {"allOf": [{"$ref": "#"}], "properties": {"a": {"$ref": "#"}}, "type": "object"}

    await check_data(processes, json.dumps(schema), json.dumps(nested(100) | {"end": {}}), at=AT)


async def test_schema_that_takes_too_long_is_ended(processes: ProcessCompute, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(json_schemas, "VALIDATION_S", 3.0)

    with pytest.raises(InvalidInput, match=r"body\.annotation\.data: .* (longer than 3 s|memory)"):
        await check_data(processes, json.dumps(doubled(40)), "{}", at=AT)
    await check_data(processes, '{"$ref": "#/$defs/a", "$defs": {"a": {}}}', "{}", at=AT)
