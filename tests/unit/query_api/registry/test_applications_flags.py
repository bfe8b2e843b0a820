from __future__ import annotations

import json
from typing import Any

import pytest

from query_api.registry.applications import (
    APPLICATION,
    ROLES,
    ApplicationData,
    ApplicationFlags,
    ApplicationFlagsFilter,
    ApplicationRoles,
)

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


def test_flag_is_searched_where_it_is_stored():
    asked = ApplicationFlagsFilter(is_application=False, is_snippet=False, is_chat=True).conditions()

    assert (asked.of_artifact, asked.of_revision) == ('{"is_snippet":false}', '{"is_chat":true}')
    assert ApplicationFlagsFilter(is_application=False).conditions() == (None, None)


def test_snapshot_without_data_has_flags():
    stored = APPLICATION.snapshot(None)

    assert stored.data is None
    assert set(json.loads(stored.flags or "")) == DERIVED
