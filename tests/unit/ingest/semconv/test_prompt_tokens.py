"""What prompt and completion include, for each row of the tables, and model calls without an operation name."""

from __future__ import annotations

from typing import Any

import pytest

from common.span import Scope, Span
from ingest.normalize import normalize
from ingest.semconv.prompt_tokens import EXCLUSIVE_COMPLETIONS, EXCLUSIVE_PROMPTS
from tests.support.reported_cases import ags_of, cost_of, tokens_of

OPENINFERENCE = {
    "openinference.span.kind": "LLM",
    "llm.model_name": "claude-sonnet-4-5",
    "llm.provider": "anthropic",
    "llm.token_count.prompt": 60,
    "llm.token_count.completion": 20,
    "llm.token_count.prompt_details.cache_read": 30,
    "llm.token_count.prompt_details.cache_write": 10,
}
GENAI = {
    "gen_ai.operation.name": "chat",
    "gen_ai.system": "anthropic",
    "gen_ai.request.model": "claude-sonnet-4-5",
    "gen_ai.usage.input_tokens": 60,
    "gen_ai.usage.output_tokens": 20,
    "gen_ai.usage.cache_read.input_tokens": 30,
    "gen_ai.usage.cache_creation.input_tokens": 10,
}
AI_SDK = {
    "ai.operationId": "ai.generateText.doGenerate",
    "ai.model.provider": "anthropic.messages",
    "ai.model.id": "claude-sonnet-4-5",
    "ai.usage.inputTokens": 60,
    "ai.usage.outputTokens": 20,
    "ai.usage.cachedInputTokens": 30,
    "ai.response.providerMetadata": '{"anthropic": {"cacheCreationInputTokens": 10}}',
}
CLAUDE_CODE_EVENTS = {
    "claude_code.event": "api_request",
    "model": "claude-sonnet-4-5",
    "input_tokens": 60,
    "output_tokens": 20,
    "cache_read_tokens": 30,
    "cache_creation_tokens": 10,
}
AGNO, OPENLIT = "openinference.instrumentation.agno", "openlit.instrumentation.anthropic"
WITHOUT_CACHE = [
    pytest.param(AGNO, OPENINFERENCE, id="agno, by OpenInference"),
    pytest.param("com.anthropic.claude_code.events", CLAUDE_CODE_EVENTS, id="Claude Code, log records"),
    pytest.param(OPENLIT, GENAI, id="OpenLIT"),
    pytest.param("ai", AI_SDK, id="AI SDK 5"),
    pytest.param(
        "ai",
        AI_SDK
        | {
            "ai.model.provider": "amazon-bedrock",
            "ai.response.providerMetadata": '{"bedrock": {"usage": {"cacheWriteInputTokens": 10}}}',
        },
        id="AI SDK 5 with Bedrock",
    ),
    pytest.param("ai", AI_SDK | {"ai.model.provider": "vertex.anthropic.messages"}, id="AI SDK 5 with Vertex"),
    pytest.param("any", GENAI | {"gen_ai.usage.total_tokens": 120}, id="total with the cache"),
]
WITH_CACHE = [
    pytest.param("openinference.instrumentation.anthropic", OPENINFERENCE, id="OpenInference"),
    pytest.param(AGNO, OPENINFERENCE | {"llm.provider": "OpenAI"}, id="agno with OpenAI"),
    pytest.param("openlit.instrumentation.openai", GENAI | {"gen_ai.system": "openai"}, id="OpenLIT with OpenAI"),
    pytest.param("pydantic-ai", GENAI, id="GenAI"),
    pytest.param("ai", AI_SDK | {"ai.model.provider": "openai.responses"}, id="AI SDK 5 with OpenAI"),
    pytest.param(
        "ai",
        AI_SDK | {"ai.usage.inputTokenDetails.cacheReadTokens": 30, "ai.usage.inputTokenDetails.cacheWriteTokens": 10},
        id="AI SDK 6",
    ),
]

GEMINI = {
    "gen_ai.operation.name": "generate_content",
    "gen_ai.system": "gemini",
    "gen_ai.request.model": "gemini-2.5-flash",
    "gen_ai.usage.input_tokens": 100,
    "gen_ai.usage.output_tokens": 50,
    "gen_ai.usage.reasoning.output_tokens": 30,
}
AI_SDK_GEMINI = {
    "ai.operationId": "ai.generateText.doGenerate",
    "ai.model.provider": "google.generative-ai",
    "ai.usage.inputTokens": 100,
    "ai.usage.outputTokens": 50,
    "ai.usage.reasoningTokens": 30,
}
ADK = {
    "gen_ai.system": "gcp.vertex.agent",
    "gen_ai.request.model": "gemini-2.5-flash",
    "gen_ai.usage.input_tokens": 100,
    "gen_ai.usage.output_tokens": 50,
    "gcp.vertex.agent.llm_response": '{"usage_metadata": {"thoughts_token_count": 30}}',
}
WITHOUT_REASONING = [
    pytest.param("gcp.vertex.agent", ADK, id="Google ADK 1"),
    pytest.param("openlit.instrumentation.google_ai_studio", GEMINI, id="OpenLIT with Gemini"),
    pytest.param("ai", AI_SDK_GEMINI, id="AI SDK 5 with Gemini"),
    pytest.param("any", GEMINI | {"gen_ai.usage.total_tokens": 180}, id="total with reasoning"),
]
WITH_REASONING = [
    pytest.param("opentelemetry.instrumentation.google_genai", GEMINI, id="OpenTelemetry with Gemini"),
    pytest.param("gcp.vertex.agent", GEMINI | {"gen_ai.system": "gcp.vertex.agent"}, id="Google ADK 2"),
    pytest.param("openlit.instrumentation.openai", GEMINI | {"gen_ai.system": "openai"}, id="OpenLIT with OpenAI"),
    pytest.param("ai", AI_SDK_GEMINI | {"ai.model.provider": "openai.responses"}, id="AI SDK 5 with OpenAI"),
    pytest.param("ai", AI_SDK_GEMINI | {"ai.usage.outputTokenDetails.reasoningTokens": 30}, id="AI SDK 6"),
]


def used(scope: str, attributes: dict[str, Any]) -> dict[str, int]:
    (normalized,) = normalize([Span(b"", b"", None, "call", 0, 0, 0, 0, None, attributes, scope=Scope(scope))])
    return tokens_of(normalized.attributes["ag"])


def test_every_row_of_the_table_has_a_case() -> None:
    assert {reporter.reporter for reporter in EXCLUSIVE_PROMPTS} <= {case.id for case in WITHOUT_CACHE}
    assert {reporter.reporter for reporter in EXCLUSIVE_COMPLETIONS} <= {case.id for case in WITHOUT_REASONING}


@pytest.mark.parametrize(("scope", "attributes"), WITHOUT_CACHE)
def test_cache_that_a_prompt_lacks_is_added_to_it(scope: str, attributes: dict[str, Any]) -> None:
    assert used(scope, attributes) == {"prompt": 100, "completion": 20, "total": 120, "cached": 30, "cache_write": 10}


@pytest.mark.parametrize(("scope", "attributes"), WITH_CACHE)
def test_cache_in_the_prompt_is_not_added_again(scope: str, attributes: dict[str, Any]) -> None:
    assert used(scope, attributes) == {"prompt": 60, "completion": 20, "total": 80, "cached": 30, "cache_write": 10}


@pytest.mark.parametrize(("scope", "attributes"), WITHOUT_REASONING)
def test_reasoning_that_a_completion_lacks_is_added_to_it(scope: str, attributes: dict[str, Any]) -> None:
    assert used(scope, attributes) == {"prompt": 100, "completion": 80, "total": 180, "reasoning": 30}


@pytest.mark.parametrize(("scope", "attributes"), WITH_REASONING)
def test_reasoning_in_the_completion_is_not_added_again(scope: str, attributes: dict[str, Any]) -> None:
    assert used(scope, attributes) == {"prompt": 100, "completion": 50, "total": 150, "reasoning": 30}


def test_thoughts_and_cache_are_added_once_each() -> None:
    both = GENAI | {"gen_ai.usage.reasoning.output_tokens": 5}

    assert used("openlit.instrumentation.anthropic", both) == {
        "prompt": 100,
        "completion": 20,
        "total": 120,
        "cached": 30,
        "cache_write": 10,
        "reasoning": 5,
    }


def test_agno_with_claude_costs_what_anthropic_charges() -> None:
    _, call = ags_of("prompt-without-cache")

    assert tokens_of(call) == {"prompt": 100, "completion": 20, "total": 120, "cached": 30, "cache_write": 10}
    assert cost_of(call) == pytest.approx(526.5e-6)


def test_ai_sdk_5_with_claude_costs_what_anthropic_charges() -> None:
    first, second = ags_of("ai-sdk-5-anthropic-cache")

    assert tokens_of(first) == {"prompt": 3307, "completion": 60, "total": 3367, "cached": 3000, "cache_write": 200}
    assert cost_of(first) == pytest.approx(0.002871)
    assert tokens_of(second) == {"prompt": 7000, "completion": 100, "total": 7100, "cached": 3000}
    assert cost_of(second) == pytest.approx(0.0144)


@pytest.mark.parametrize("metadata", ["{}", "cache", '{"anthropic": 5}', '{"a": {"cacheReadInputTokens": "many"}}'])
def test_metadata_without_tokens_of_the_cache_says_nothing(metadata: str) -> None:
    attributes = {**AI_SDK, "ai.response.providerMetadata": metadata}
    del attributes["ai.usage.cachedInputTokens"]

    assert used("ai", attributes) == {"prompt": 60, "completion": 20, "total": 80}


def test_model_call_without_an_operation_name_is_a_chat() -> None:
    (ag,) = ags_of("no-operation-name")

    assert ag["type"]["span"] == "chat"
    assert cost_of(ag) == pytest.approx(0.000195)


@pytest.mark.parametrize(
    ("others", "kind"),
    [
        ({"gen_ai.operation.name": "dream"}, "chat"),
        ({"gen_ai.operation.name": "embeddings"}, "embedding"),
        ({"gen_ai.agent.name": "planner"}, None),
        ({"agent_name": "planner"}, "agent"),
        ({"gen_ai.tool.name": "search"}, "tool"),
        ({"gen_ai.usage.output_tokens": 0}, None),
        ({"gen_ai.request.model": ""}, None),
        ({"ag.type.node": "workflow"}, "workflow"),
    ],
)
def test_only_a_span_of_no_known_kind_becomes_a_chat(others: dict[str, Any], kind: str | None) -> None:
    attributes = {key: value for key, value in GENAI.items() if key != "gen_ai.operation.name"} | others
    (normalized,) = normalize([Span(b"", b"", None, "call", 0, 0, 0, 0, None, attributes)])

    assert normalized.attributes["ag"]["type"].get("span") == kind
