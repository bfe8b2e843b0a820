"""OpenTelemetry's GenAI conventions, from 1.27 on: what most instrumentations write today, including OpenLLMetry and AI
SDK 7.
"""

from __future__ import annotations

from typing import Final

from ingest.semconv.chats import CHAT, CHAT_WITH_INSTRUCTIONS
from ingest.semconv.converters import (
    AMOUNT,
    COUNT,
    FINISH_REASONS_READ,
    INPUTS,
    NUMBER,
    OUTPUTS,
    PROVIDER,
    SETTINGS,
    TEXT,
    TEXTS,
    always,
    word,
)
from ingest.semconv.rows import Convention, Row
from ingest.semconv.tools import TOOLS
from ingest.semconv.vocabulary import GENAI_OPERATIONS

_TOKENS = "metrics.tokens.incremental."
_SUMS = "metrics.tokens.cumulative."
_OLD = "until 1.36"

GENAI: Final = Convention(
    "genai",
    "OpenTelemetry GenAI",
    (
        Row("gen_ai.tool.name", "type.span", always("tool"), unless=r"gen_ai\.operation\.name"),
        Row("gen_ai.operation.name", "type.span", word(GENAI_OPERATIONS)),
        Row("gen_ai.system", "meta.system", PROVIDER, generations=_OLD),
        Row("gen_ai.provider.name", "meta.system", PROVIDER),
        Row("gen_ai.openai.request.*", "meta.request.*", SETTINGS, generations=_OLD),
        Row("gen_ai.request.*", "meta.request.*", SETTINGS),
        Row("gen_ai.request.model", "meta.request.model", TEXT),
        Row("gen_ai.request.temperature", "meta.request.temperature", NUMBER),
        Row("gen_ai.request.top_p", "meta.request.top_p", NUMBER),
        Row("gen_ai.request.top_k", "meta.request.top_k", NUMBER),
        Row("gen_ai.request.max_tokens", "meta.request.max_tokens", COUNT),
        Row("gen_ai.request.stop_sequences", "meta.request.stop_sequences", TEXTS),
        Row("gen_ai.request.frequency_penalty", "meta.request.frequency_penalty", NUMBER),
        Row("gen_ai.request.presence_penalty", "meta.request.presence_penalty", NUMBER),
        Row("gen_ai.embeddings.dimension.count", "meta.request.dimensions", COUNT),
        Row("gen_ai.response.model", "meta.response.model", TEXT),
        Row("gen_ai.response.id", "meta.response.id", TEXT),
        Row("anthropic.message.stop_reason", "meta.response.finish_reasons", FINISH_REASONS_READ),
        Row("gen_ai.response.finish_reasons", "meta.response.finish_reasons", FINISH_REASONS_READ),
        Row("gen_ai.usage.input_tokens", _TOKENS + "prompt", COUNT),
        Row("gen_ai.usage.output_tokens", _TOKENS + "completion", COUNT),
        Row("gen_ai.usage.cache_read.input_tokens", _TOKENS + "cached", COUNT),
        Row("gen_ai.usage.cache_write.input_tokens", _TOKENS + "cache_write", COUNT),
        Row("gen_ai.usage.cache_creation.input_tokens", _TOKENS + "cache_write", COUNT),
        Row("gen_ai.usage.details.reasoning_tokens", _TOKENS + "reasoning", COUNT),
        Row("gen_ai.usage.reasoning.output_tokens", _TOKENS + "reasoning", COUNT),
        Row("gen_ai.aggregated_usage.input_tokens", _SUMS + "prompt", COUNT, note="a sum, as the name says"),
        Row("gen_ai.aggregated_usage.output_tokens", _SUMS + "completion", COUNT, note="a sum, as the name says"),
        Row("gen_ai.usage.cost", "metrics.costs.incremental.total", AMOUNT),
        Row("gen_ai.conversation.id", "session.id", TEXT),
        Row("gen_ai.agent.name", "unsupported.agent.name", TEXT),
        Row("gen_ai.agent.name", "unsupported.agent.id", TEXT, note="if there is no id"),
        Row("gen_ai.agent.id", "unsupported.agent.id", TEXT),
        Row(
            ("gen_ai.input.messages", "gen_ai.system_instructions"),
            "data.inputs",
            CHAT_WITH_INSTRUCTIONS,
            unless=r"pydantic_ai\.all_messages",
        ),
        Row("gen_ai.output.messages", "data.outputs", CHAT),
        Row("gen_ai.tool.definitions", "data.parameters.tools", TOOLS),
        Row("gen_ai.tool.name", "meta.tool.name", TEXT),
        Row("gen_ai.tool.call.id", "meta.tool.id", TEXT),
        Row("gen_ai.tool.description", "meta.tool.description", TEXT),
        Row("gen_ai.tool.type", "meta.tool.type", TEXT),
        Row("gen_ai.tool.call.arguments", "data.inputs", INPUTS),
        Row("gen_ai.tool.call.result", "data.outputs", OUTPUTS),
    ),
)
