"""Vercel's AI SDK: version 5 under ``ai.*``; version 7 as the GenAI conventions say, with its context below
``ai.settings.context``.
"""

from __future__ import annotations

from typing import Final

from ingest.semconv.chats import CHAT, VERCEL_ANSWER, VERCEL_PROMPT
from ingest.semconv.converters import (
    COUNT,
    EMBEDDED,
    FINISH_REASONS_READ,
    INPUTS,
    JSON_OUTPUTS,
    METADATA,
    OUTPUTS,
    PROVIDER,
    SETTINGS,
    TAGS,
    TEXT,
    word,
)
from ingest.semconv.rows import Convention, Row
from ingest.semconv.tools import TOOLS
from ingest.semconv.vocabulary import VERCEL_OPERATIONS

_TOKENS = "metrics.tokens.incremental."
_META_NOTE = "except names that `ag.meta` uses itself"

VERCEL: Final = Convention(
    "vercel",
    "Vercel AI SDK",
    (
        Row("ai.operationId", "type.span", word(VERCEL_OPERATIONS), generations="5"),
        Row("ai.prompt", "data.inputs", VERCEL_PROMPT, generations="5"),
        Row("ai.prompt.messages", "data.inputs", CHAT, generations="5"),
        Row("ai.value", "data.inputs", EMBEDDED, generations="5"),
        Row("ai.values", "data.inputs", EMBEDDED, generations="5"),
        Row("ai.prompt.tools", "data.parameters.tools", TOOLS, generations="5"),
        Row("ai.prompt.toolChoice", "data.parameters.tool_choice", OUTPUTS, generations="5"),
        Row(
            ("ai.response.text", "ai.response.toolCalls", "ai.response.object"),
            "data.outputs",
            VERCEL_ANSWER,
            generations="5",
        ),
        Row(
            "ai.response.object",
            "data.outputs",
            JSON_OUTPUTS,
            note="the object of the whole call; the object of a model call stays a message",
            generations="5",
            unless=r"ai\.prompt\.messages",
        ),
        Row("ai.toolCall.name", "meta.tool.name", TEXT, generations="5"),
        Row("ai.toolCall.id", "meta.tool.id", TEXT, generations="5"),
        Row("ai.toolCall.args", "data.inputs", INPUTS, generations="5"),
        Row("ai.toolCall.result", "data.outputs", OUTPUTS, generations="5"),
        Row("ai.model.provider", "meta.system", PROVIDER, generations="5"),
        Row("ai.model.id", "meta.request.model", TEXT, generations="5"),
        Row("ai.response.model", "meta.response.model", TEXT, generations="5"),
        Row("ai.response.id", "meta.response.id", TEXT, generations="5"),
        Row("ai.response.finishReason", "meta.response.finish_reasons", FINISH_REASONS_READ, generations="5"),
        Row("ai.settings.*", "meta.request.*", SETTINGS, note="except `context`", generations="5"),
        Row("ai.usage.tokens", _TOKENS + "prompt", COUNT, note="of embeddings", generations="5"),
        Row(
            "ai.usage.promptTokens", _TOKENS + "prompt", COUNT, note="responses that are not streamed", generations="5"
        ),
        Row(
            "ai.usage.completionTokens",
            _TOKENS + "completion",
            COUNT,
            note="responses that are not streamed",
            generations="5",
        ),
        Row("ai.usage.inputTokens", _TOKENS + "prompt", COUNT, note="streamed responses", generations="5"),
        Row("ai.usage.outputTokens", _TOKENS + "completion", COUNT, note="streamed responses", generations="5"),
        Row("ai.usage.totalTokens", _TOKENS + "total", COUNT, generations="5"),
        Row("ai.usage.cachedInputTokens", _TOKENS + "cached", COUNT, generations="5"),
        Row("ai.usage.reasoningTokens", _TOKENS + "reasoning", COUNT, generations="5"),
        Row("ai.telemetry.functionId", "unsupported.agent.name", TEXT, generations="5"),
        Row("ai.telemetry.functionId", "unsupported.agent.id", TEXT, generations="5"),
        Row("ai.telemetry.metadata.sessionId", "session.id", TEXT, generations="5"),
        Row("ai.telemetry.metadata.userId", "user.id", TEXT, generations="5"),
        Row("ai.telemetry.metadata.tags", "tags.*", TAGS, generations="5"),
        Row("ai.telemetry.metadata.*", "meta.*", METADATA, note=_META_NOTE, generations="5"),
        Row("ai.settings.context.sessionId", "session.id", TEXT, generations="7"),
        Row("ai.settings.context.userId", "user.id", TEXT, generations="7"),
        Row("ai.settings.context.*", "meta.*", METADATA, note=_META_NOTE, generations="7"),
    ),
)
