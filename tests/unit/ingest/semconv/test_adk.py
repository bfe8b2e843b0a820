"""Google ADK 1: requests and responses in the words of Gemini's API, kinds of spans by their names."""

from __future__ import annotations

from typing import Any

import pytest

from common.nesting import nest
from ingest.semconv.engine import Mapped
from ingest.semconv.named_spans import with_named_kind
from tests.support.mapping import map_attributes
from tests.support.reported_cases import tokens_of
from tests.support.sample_records import ag_named, normal_named

NAME = "adk-01"
SCOPE = "gcp.vertex.agent"


def mapped(**attributes: Any) -> dict[str, Any]:
    sent = {f"gcp.vertex.agent.{name}": value for name, value in attributes.items()}
    found = map_attributes(sent, nest(sent))
    assert found is not None
    return found.ag


def test_model_call_has_its_messages_tools_and_tokens() -> None:
    ag = ag_named(NAME, "call_llm", at=1)

    assert ag["type"]["span"] == "chat"
    system, *messages = ag["data"]["inputs"]["messages"]
    assert system["role"] == "system"
    assert system["content"].startswith("Answer about weather")
    assert messages == [
        {"role": "user", "content": "How is the weather?"},
        {"role": "assistant", "tool_calls": [{"name": "get_weather", "arguments": {"city": "Lisbon"}}]},
        {"role": "tool", "content": {"status": "ok", "report": "Sunny in Lisbon"}, "name": "get_weather"},
    ]
    assert ag["data"]["outputs"]["messages"] == [
        {"role": "assistant", "content": "Sunny in Lisbon.", "finish_reason": "stop"}
    ]
    assert [tool["name"] for tool in ag["data"]["parameters"]["tools"]] == ["get_weather"]
    assert tokens_of(ag) == {"prompt": 322, "completion": 50, "total": 372, "cached": 100, "reasoning": 10}
    assert ag["metrics"]["costs"]["incremental"]["total"] > 0
    assert ag["session"] == {"id": "sess-g1"}
    assert ag["meta"]["invocation_id"] == "e-e35fe005-359b-4d70-978e-cff303f63a09"


def test_requested_tool_is_in_the_answer() -> None:
    (message,) = ag_named(NAME, "call_llm")["data"]["outputs"]["messages"]

    assert message["tool_calls"] == [{"name": "get_weather", "arguments": {"city": "Lisbon"}}]


def test_tool_has_arguments_and_result() -> None:
    ag = ag_named(NAME, "execute_tool get_weather")

    assert ag["data"] == {"inputs": {"city": "Lisbon"}, "outputs": {"status": "ok", "report": "Sunny in Lisbon"}}


@pytest.mark.parametrize(
    ("name", "span_type"),
    [("invocation", "workflow"), ("agent_run [weather_agent]", "agent"), ("execute_tool broken", "tool")],
)
def test_name_is_the_kind_of_a_span_without_attributes(name: str, span_type: str) -> None:
    assert normal_named(NAME, name).span_type == span_type


def test_name_names_the_agent_and_the_tool() -> None:
    assert ag_named(NAME, "agent_run [weather_agent]")["unsupported"]["agent"] == {
        "name": "weather_agent",
        "id": "weather_agent",
    }
    assert ag_named(NAME, "execute_tool broken")["meta"]["tool"] == {"name": "broken"}


def test_attributes_win_over_a_name_and_other_scopes_have_none() -> None:
    said = Mapped({"type": {"span": "task"}})

    assert with_named_kind(said, SCOPE, "invocation") is said
    assert with_named_kind(None, "mine", "invocation") is None
    assert with_named_kind(None, SCOPE, "other") is None
    assert with_named_kind(Mapped({"meta": {"a": 1}}, ("e",)), SCOPE, "invocation") == Mapped(
        {"type": {"span": "workflow"}, "meta": {"a": 1}}, ("e",)
    )


@pytest.mark.parametrize(
    ("part", "message"),
    [
        ({"text": "So.", "thought": True}, {"parts": [{"type": "reasoning", "content": "So."}]}),
        (
            {"inline_data": {"mime_type": "image/png"}},
            {"parts": [{"type": "inline_data", "inline_data": {"mime_type": "image/png"}}]},
        ),
    ],
)
def test_other_parts_are_kept(part: dict[str, Any], message: dict[str, Any]) -> None:
    request = {"contents": [{"role": "user", "parts": [part]}], "config": {"temperature": 0.2, "max_output_tokens": 9}}

    ag = mapped(llm_request=request)

    assert ag["data"]["inputs"]["messages"] == [{"role": "user", **message}]
    assert ag["meta"]["request"] == {"temperature": 0.2, "max_tokens": 9}


def test_empty_request_and_response_say_nothing() -> None:
    assert mapped(llm_request="{}", llm_response="{}") == {}
