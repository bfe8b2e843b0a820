"""Models of applications, and their flags."""

from __future__ import annotations

import json
from typing import Any

import pytest
from pydantic import ValidationError

from query_api.registry.applications import (
    APPLICATION,
    ROLES,
    ApplicationData,
    ApplicationFlags,
    ApplicationFlagsFilter,
    ApplicationRoles,
    EvaluatorFlags,
    EvaluatorFlagsFilter,
    EvaluatorRoles,
)
from query_api.registry.kinds import JSON_DEPTH_MAX
from tests.support.steps import steps_of


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


def test_ten_times_the_schema_takes_ten_times_the_steps():
    def steps(count: int) -> int:
        schema = {"anyOf": [{"allOf": [{"not": {"type": "string"}}] * 10}] * count}
        return steps_of(lambda: ApplicationData.model_validate({"schemas": {"inputs": schema}}))

    assert steps(300) < 11 * steps(30)


DERIVED = set(ApplicationFlags.model_fields) - set(ROLES)


@pytest.mark.parametrize(
    ("data", "true"),
    [
        ({}, set()),
        ({"uri": "agenta:builtin:chat:v0"}, {"is_managed", "is_chat"}),
        ({"uri": "user:custom:thing:latest"}, {"is_custom"}),
        ({"uri": "custom:llm"}, {"is_custom", "is_llm"}),
        ({"uri": "agenta:custom:llm"}, {"is_managed", "is_custom", "is_llm"}),
        ({"uri": "user:agenta:llm:v0:more"}, {"is_llm"}),
        ({"uri": ""}, set()),
        ({"uri": "hook"}, {"is_hook"}),
        ({"uri": "x:y:code:1"}, {"is_code"}),
        ({"uri": "x:y:match:1"}, {"is_match"}),
        ({"uri": "x:y:feedback:1"}, {"is_feedback"}),
        ({"uri": "x:y:agent:1"}, {"is_agent"}),
        ({"uri": "x:y:skill:1"}, {"is_skill"}),
        ({"url": "https://here/"}, {"has_url"}),
        ({"script": "print()"}, {"has_script"}),
        ({"schemas": {"inputs": {"properties": {"messages": {"type": "array"}}}}}, {"is_chat"}),
        ({"schemas": {"inputs": {"properties": {"question": {}}}, "outputs": {"properties": {"messages": {}}}}}, set()),
    ],
)
def test_fourteen_flags_follow_from_the_data(data: dict[str, Any], true: set[str]):
    flags = json.loads(ApplicationData.model_validate(data).flags())

    assert set(flags) == DERIVED
    assert len(flags) == 14
    assert {name for name, value in flags.items() if value} == true


def test_roles_are_always_stored():
    assert json.loads(ApplicationRoles().stored()) == {
        "is_application": True,
        "is_evaluator": False,
        "is_snippet": False,
    }
    sent = ApplicationFlags(is_application=False, is_snippet=True, is_chat=True)
    assert json.loads(sent.stored()) == {
        "is_application": True,
        "is_evaluator": False,
        "is_snippet": True,
    }


def test_evaluator_always_has_its_role():
    assert json.loads(EvaluatorRoles(is_evaluator=False).stored()) == {
        "is_application": False,
        "is_evaluator": True,
        "is_snippet": False,
    }
    assert json.loads(EvaluatorFlags(is_application=True).stored()) == {
        "is_application": True,
        "is_evaluator": True,
        "is_snippet": False,
    }
    asked = EvaluatorFlagsFilter(is_evaluator=False, is_application=False, is_feedback=True).conditions()
    assert (asked.of_artifact, asked.of_revision) == ('{"is_application":false}', '{"is_feedback":true}')


def test_flag_is_searched_where_it_is_stored():
    asked = ApplicationFlagsFilter(is_application=False, is_snippet=False, is_chat=True).conditions()

    assert (asked.of_artifact, asked.of_revision) == ('{"is_snippet":false}', '{"is_chat":true}')
    assert ApplicationFlagsFilter(is_application=False).conditions() == (None, None)


def test_snapshot_without_data_has_flags():
    stored = APPLICATION.snapshot(None)

    assert stored.data is None
    assert set(json.loads(stored.flags or "")) == DERIVED
