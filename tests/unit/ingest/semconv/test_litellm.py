"""LiteLLM's own callback: call types, costs, tool calls beside messages, identities of the proxy."""

from __future__ import annotations

from typing import Any

import pytest

from common.nesting import nest
from ingest.semconv.rows import Reason
from tests.support.mapping import map_attributes
from tests.support.reported_cases import ags_of, tokens_of
from tests.support.sample_records import ag_named

NAME = "litellm-otel-01"


def mapped(**attributes: Any) -> dict[str, Any]:
    found = map_attributes(attributes, nest(attributes))
    assert found is not None
    return found.ag


def test_call_type_is_a_model_call_with_the_costs_that_were_sent() -> None:
    (ag,) = ags_of("litellm-call-type")

    assert ag["type"]["span"] == "chat"
    assert ag["metrics"]["costs"]["incremental"] == {"prompt": 0.00013275, "completion": 0.00003, "total": 0.00016275}
    assert ag["meta"]["cost_source"] == "instrumentation"
    assert ag["data"]["outputs"]["messages"] == [
        {
            "role": "assistant",
            "tool_calls": [{"name": "get_weather", "arguments": {"city": "Lisbon"}}],
            "finish_reason": "tool_call",
        }
    ]


@pytest.mark.parametrize(
    ("call_type", "span_type"),
    [
        ("completion", "chat"),
        ("acompletion", "chat"),
        ("responses", "chat"),
        ("aresponses", "chat"),
        ("text_completion", "completion"),
        ("atext_completion", "completion"),
        ("embedding", "embedding"),
        ("aembedding", "embedding"),
        ("rerank", "rerank"),
        ("arerank", "rerank"),
    ],
)
def test_call_types_are_operations(call_type: str, span_type: str) -> None:
    assert mapped(**{"gen_ai.operation.name": call_type})["type"] == {"span": span_type}
    assert mapped(**{"llm.request.type": call_type, "litellm.call_id": "1"})["type"] == {"span": span_type}


def test_every_numbered_call_is_one_tool_call_of_the_answer() -> None:
    (ag,) = ags_of("litellm-tool-calls")

    (message,) = ag["data"]["outputs"]["messages"]
    assert message["tool_calls"] == [
        {"name": "get_weather", "arguments": {"city": "Bern"}},
        {"name": "get_weather", "arguments": {"city": "Zürich"}},
    ]
    assert ag["metrics"]["costs"]["incremental"] == {"prompt": 1.275e-05, "completion": 1.2e-05, "total": 2.475e-05}


@pytest.mark.parametrize(
    ("attributes", "message"),
    [
        (
            {"gen_ai.output.messages": '[{"role": "assistant", "parts": [{"type": "text", "content": "I look."}]}]'},
            {"role": "assistant", "content": "I look.", "tool_calls": [{"name": "look", "arguments": {}}]},
        ),
        (
            {"gen_ai.completion.0.role": "assistant", "gen_ai.completion.0.finish_reason": "tool_calls"},
            {"role": "assistant", "tool_calls": [{"name": "look", "arguments": {}}], "finish_reason": "tool_call"},
        ),
        ({}, {"role": "assistant", "tool_calls": [{"name": "look", "arguments": {}}]}),
        (
            {
                "gen_ai.output.messages": '[{"role": "assistant", "parts": [{"type": "tool_call", "id": "1", '
                '"name": "look", "arguments": {}}]}]'
            },
            {"role": "assistant", "tool_calls": [{"id": "1", "name": "look", "arguments": {}}]},
        ),
    ],
)
def test_numbered_calls_complete_what_the_messages_have(attributes: dict[str, Any], message: dict[str, Any]) -> None:
    numbered = {"gen_ai.completion.0.function_call.name": "look", "gen_ai.completion.0.function_call.arguments": "{}"}

    assert mapped(**attributes, **numbered)["data"]["outputs"] == {"messages": [message]}


def test_record_has_model_tokens_cost_and_user() -> None:
    first, cached = (ag_named(NAME, "litellm_request", at=at) for at in (0, 1))

    assert first["user"] == {"id": "user-lt1"}
    assert first["meta"]["request"] == {"model": "gpt-4o-mini", "stream": False}
    assert tokens_of(first) == {"prompt": 1085, "completion": 50, "total": 1135, "cached": 400, "reasoning": 20}
    assert tokens_of(cached) == {
        "prompt": 3386,
        "completion": 60,
        "total": 3446,
        "cached": 3000,
        "cache_write": 200,
        "reasoning": 0,
    }
    assert cached["metrics"]["costs"]["incremental"]["total"] == pytest.approx(0.003108)


def test_raw_request_is_not_a_second_model_call() -> None:
    raw = ag_named(NAME, "raw_gen_ai_request")

    assert "span" not in raw["type"]
    assert raw["metrics"]["tokens"] == {}


def test_identities_of_the_proxy() -> None:
    key = "metadata.user_api_key_"
    sent = {key + "end_user_id": "customer-7", key + "user_id": "dev-1", key + "team_id": "t1", key + "team_alias": ""}

    ag = mapped(**sent)

    assert ag["user"] == {"id": "customer-7"}
    assert ag["meta"] == {"user_api_key_team_id": "t1", "user_api_key_user_id": "dev-1"}
    assert mapped(**{**sent, key + "end_user_id": ""})["user"] == {"id": "dev-1"}
    assert mapped(**{**sent, key + "end_user_id": "", "llm.user": "rider-6"})["user"] == {"id": "rider-6"}


@pytest.mark.parametrize("usage", ["{'prompt_tokens': ", "[1]", "(" * 4_000, "x" * 5_000, "__import__('os')"])
def test_usage_that_is_no_python_object_is_counted_and_costs_itself(usage: str) -> None:
    sent = {"gen_ai.usage.input_tokens": 7, "metadata.usage_object": usage}

    found = map_attributes(sent, nest(sent))

    assert found is not None
    assert found.ag["metrics"]["tokens"]["incremental"] == {"prompt": 7, "total": 7}
    assert found.mapping_errors == [Reason.NOT_AN_OBJECT]
