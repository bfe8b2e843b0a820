from __future__ import annotations

import json
import time
from typing import Any

import pytest
from pydantic import ValidationError

from query_api.registry.applications import ApplicationData
from query_api.registry.fields import JSON_DEPTH_MAX


def nested(depth: int, member: str = "a") -> dict[str, Any]:
    value: dict[str, Any] = {}
    for _ in range(depth - 1):
        value = {member: value}
    return value


@pytest.mark.parametrize(
    "data",
    [
        {"parameters": {"n": None, "big": 2**70, "f": 1.0, "z": 1, "a": 2}},
        {"headers": {"x": "text", "y": {"slug": "secret", "version": "1"}}},
        {"runtime": "python", "script": "", "uri": "a:b:c:d", "url": "http://host:1/path"},
        {"schemas": {"inputs": {"type": "object", "properties": {"a": {"type": ["string", "null"]}}}}},
        {"schemas": {"inputs": {"$schema": "http://json-schema.org/draft-07/schema#", "definitions": {}}}},
        {"schemas": {"inputs": {"$schema": "urn:of-our-own", "x-ag-type": "messages"}}},
        {"url": "https://host"},
        {"parameters": nested(JSON_DEPTH_MAX)},
    ],
)
def test_valid_data_is_stored_as_it_was_sent(data: dict[str, Any]):
    assert json.loads(ApplicationData.model_validate(data).text()) == data


def test_order_of_members_and_types_of_numbers_are_kept():
    sent = {"parameters": {"z": 1.0, "a": 12345678901234567890123, "n": None}}

    assert (
        ApplicationData.model_validate(sent).text() == '{"parameters":{"z":1.0,"a":12345678901234567890123,"n":null}}'
    )


def test_null_members_and_unknown_schemas_are_dropped():
    sent = {"url": None, "script": "s", "schemas": {"inputs": None, "more": 1}}

    assert ApplicationData.model_validate(sent).text() == '{"script":"s","schemas":{}}'


@pytest.mark.parametrize(
    "data",
    [
        {"more": 1},
        {"url": "https:///path"},
        {"url": " https://host"},
        {"url": "\nhttps://host"},
        {"url": "https://ho\r\nst/path"},
        {"url": "https://[::1"},
        {"url": "https://host:99999/"},
        {"url": "https://host:0/"},
        {"url": "https://host/\x7f"},
        {"url": "ftp://host/"},
        {"url": "example.org"},
        {"headers": {"x": 1}},
        {"headers": {"x": {"slug": "secret", "kind": "vault"}}},
        {"parameters": nested(JSON_DEPTH_MAX + 2)},
        {"schemas": {"inputs": {"type": "strin"}}},
        {"schemas": {"inputs": {"properties": 3}}},
        {"schemas": {"inputs": {"properties": {"a": {"required": "a"}}}}},
        {"schemas": {"inputs": {"$schema": {}}}},
        {"schemas": {"inputs": {"$schema": "http://json-schema.org/draft-07/schema#", "items": 3}}},
        {"schemas": {"inputs": []}},
    ],
)
def test_invalid_data_is_rejected(data: dict[str, Any]):
    with pytest.raises(ValidationError):
        ApplicationData.model_validate(data)


@pytest.mark.parametrize(
    ("draft", "valid", "invalid"),
    [
        ("draft-04", {"minimum": 1, "exclusiveMinimum": True}, {"exclusiveMinimum": 1}),
        ("draft-06", {"definitions": {"a": True}, "$defs": 3}, {"const": 1, "items": 3}),
        ("draft-07", {"$defs": 3}, {"if": 3}),
        ("draft/2019-09", {"items": [{}]}, {"$defs": 3}),
        ("draft/2020-12", {"prefixItems": [{}]}, {"items": [{}]}),
    ],
)
@pytest.mark.parametrize("scheme", ["http", "https"])
@pytest.mark.parametrize("end", ["", "#"])
def test_schema_is_checked_by_the_draft_that_it_names(
    scheme: str, draft: str, end: str, valid: dict[str, Any], invalid: dict[str, Any]
):
    named = {"$schema": f"{scheme}://json-schema.org/{draft}/schema{end}"}
    ApplicationData.model_validate({"schemas": {"inputs": {**named, **valid}}})

    with pytest.raises(ValidationError, match="Not a JSON Schema: at /"):
        ApplicationData.model_validate({"schemas": {"inputs": {**named, **invalid}}})


def test_long_value_is_not_repeated_in_full():
    with pytest.raises(ValidationError) as caught:
        ApplicationData.model_validate({"schemas": {"inputs": {"type": "x" * 10_000}}})

    [problem] = caught.value.errors()
    assert problem["msg"].startswith("Value error, Not a JSON Schema: at /type: ")
    assert len(problem["msg"]) < 600


def test_schema_of_the_greatest_depth_is_checked():
    deep = nested(JSON_DEPTH_MAX - 2, "not")
    ApplicationData.model_validate({"schemas": {"inputs": deep}})

    innermost = deep
    while innermost.get("not"):
        innermost = innermost["not"]
    innermost["type"] = "strin"

    with pytest.raises(ValidationError):
        ApplicationData.model_validate({"schemas": {"inputs": deep}})


def test_references_of_a_schema_are_not_fetched():
    """An address that cannot be had would be an error if it were asked for."""
    elsewhere = "http://127.0.0.1:1/schema"
    schema: dict[str, Any] = {
        "$schema": elsewhere,
        "$ref": elsewhere,
        "properties": {"a": {"$schema": elsewhere, "$ref": elsewhere}},
    }

    ApplicationData.model_validate({"schemas": {"inputs": schema}})
    schema["properties"] = {"a": {"type": "strin"}}
    with pytest.raises(ValidationError, match="/properties/a/type"):
        ApplicationData.model_validate({"schemas": {"inputs": schema}})


def test_large_schema_is_checked_quickly():
    schema = {"anyOf": [{"allOf": [{"not": {"type": "string"}}] * 10}] * 3_000}
    started_s = time.process_time()

    ApplicationData.model_validate({"schemas": {"inputs": schema}})

    assert time.process_time() - started_s < 1.0
