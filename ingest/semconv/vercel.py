"""Vercel's AI SDK: version 5 under ``ai.*``; version 7 as the GenAI conventions say, with its context below
``ai.settings.context``.
"""

from __future__ import annotations

from typing import Final

from ingest.semconv import converters as to
from ingest.semconv.chats import CHAT, VERCEL_ANSWER, VERCEL_PROMPT
from ingest.semconv.rows import Convention, Row
from ingest.semconv.tools import TOOLS
from ingest.semconv.vocabulary import VERCEL_OPERATIONS

_TOKENS = "metrics.tokens.incremental."
_META_NOTE = "except names that `ag.meta` uses itself"

VERCEL: Final = Convention(
    "vercel",
    "Vercel AI SDK",
    (
        Row("ai.operationId", "type.span", to.word(VERCEL_OPERATIONS), generations="5"),
        Row("ai.prompt", "data.inputs", VERCEL_PROMPT, generations="5"),
        Row("ai.prompt.messages", "data.inputs", CHAT, generations="5"),
        Row("ai.value", "data.inputs", to.EMBEDDED, generations="5"),
        Row("ai.values", "data.inputs", to.EMBEDDED, generations="5"),
        Row("ai.prompt.tools", "data.parameters.tools", TOOLS, generations="5"),
        Row("ai.prompt.toolChoice", "data.parameters.tool_choice", to.OUTPUTS, generations="5"),
        Row(
            ("ai.response.text", "ai.response.toolCalls", "ai.response.object"),
            "data.outputs",
            VERCEL_ANSWER,
            generations="5",
        ),
        Row(
            "ai.response.object",
            "data.outputs",
            to.JSON_OUTPUTS,
            note="the object of the whole call; the object of a model call stays a message",
            generations="5",
            unless=r"ai\.prompt\.messages",
        ),
        Row("ai.toolCall.name", "meta.tool.name", to.TEXT, generations="5"),
        Row("ai.toolCall.id", "meta.tool.id", to.TEXT, generations="5"),
        Row("ai.toolCall.args", "data.inputs", to.INPUTS, generations="5"),
        Row("ai.toolCall.result", "data.outputs", to.OUTPUTS, generations="5"),
        Row("ai.model.provider", "meta.system", to.PROVIDER, generations="5"),
        Row("ai.model.id", "meta.request.model", to.TEXT, generations="5"),
        Row("ai.response.model", "meta.response.model", to.TEXT, generations="5"),
        Row("ai.response.id", "meta.response.id", to.TEXT, generations="5"),
        Row("ai.response.finishReason", "meta.response.finish_reasons", to.FINISH_REASONS_READ, generations="5"),
        Row("ai.settings.*", "meta.request.*", to.SETTINGS, note="except `context`", generations="5"),
        Row("ai.usage.tokens", _TOKENS + "prompt", to.COUNT, note="of embeddings", generations="5"),
        Row(
            "ai.usage.promptTokens",
            _TOKENS + "prompt",
            to.COUNT,
            note="responses that are not streamed",
            generations="5",
        ),
        Row(
            "ai.usage.completionTokens",
            _TOKENS + "completion",
            to.COUNT,
            note="responses that are not streamed",
            generations="5",
        ),
        Row("ai.usage.inputTokens", _TOKENS + "prompt", to.COUNT, note="streamed responses", generations="5"),
        Row("ai.usage.outputTokens", _TOKENS + "completion", to.COUNT, note="streamed responses", generations="5"),
        Row("ai.usage.totalTokens", _TOKENS + "total", to.COUNT, generations="5"),
        Row("ai.usage.cachedInputTokens", _TOKENS + "cached", to.COUNT, generations="5"),
        Row("ai.usage.reasoningTokens", _TOKENS + "reasoning", to.COUNT, generations="5"),
        Row("ai.telemetry.functionId", "unsupported.agent.name", to.TEXT, generations="5"),
        Row("ai.telemetry.functionId", "unsupported.agent.id", to.TEXT, generations="5"),
        Row("ai.telemetry.metadata.sessionId", "session.id", to.TEXT, generations="5"),
        Row("ai.telemetry.metadata.userId", "user.id", to.TEXT, generations="5"),
        Row("ai.telemetry.metadata.tags", "tags.*", to.TAGS, generations="5"),
        Row("ai.telemetry.metadata.*", "meta.*", to.METADATA, note=_META_NOTE, generations="5"),
        Row("ai.settings.context.sessionId", "session.id", to.TEXT, generations="7"),
        Row("ai.settings.context.userId", "user.id", to.TEXT, generations="7"),
        Row("ai.settings.context.*", "meta.*", to.METADATA, note=_META_NOTE, generations="7"),
    ),
)
