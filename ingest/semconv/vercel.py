"""Vercel's AI SDK: version 5 under ``ai.*``; version 7 as the GenAI conventions say, with its context below
``ai.settings.context``.
"""

from __future__ import annotations

from typing import Any, Final

from common.span import Value
from ingest.semconv import converters as to
from ingest.semconv.messages import CHAT, chat_of, messages_of
from ingest.semconv.rows import Convention, Converter, MappingError, Row
from ingest.semconv.tools import TOOLS

_TOKENS = "metrics.tokens.incremental."
_META_NOTE = "except names that `ag.meta` uses itself"

_OPERATIONS: Final = {
    "ai.embed": "task",
    "ai.embed.doEmbed": "embedding",
    "ai.embedMany": "task",
    "ai.embedMany.doEmbed": "embedding",
    "ai.generateObject": "agent",
    "ai.generateObject.doGenerate": "chat",
    "ai.generateText": "agent",
    "ai.generateText.doGenerate": "chat",
    "ai.streamObject": "agent",
    "ai.streamObject.doStream": "chat",
    "ai.streamText": "agent",
    "ai.streamText.doStream": "chat",
    "ai.toolCall": "tool",
}


def _prompt(value: Value) -> dict[str, Any]:
    """Return ``{system?, prompt | messages}`` as one chat."""
    prompt = to.as_object(value)
    said = prompt.get("messages", prompt.get("prompt"))
    if isinstance(said, str):
        said = [{"role": "user", "content": said}]
    system = [{"role": "system", "content": prompt["system"]}] if isinstance(prompt.get("system"), str) else []
    return {"messages": [*system, *messages_of(said)]}


def _answer(text: Value, calls: Value, instead: Value) -> dict[str, Any] | None:
    """Return one message from a text and tool calls in separate attributes; ``instead``: JSON that was requested.

    Structured calls may hold results of tools; each of these becomes a message, as everywhere.
    """
    said = {"role": "assistant", "content": instead if text is None else text}
    try:
        sent = None if calls is None else to.structured(calls)
    except MappingError as mapping_error:  # cut off, for example by a limit of the sender: keep the text
        raise MappingError(mapping_error.reason, found=chat_of([said]) if said["content"] else None) from mapping_error
    return chat_of([{**said, "tool_calls": sent}])


def _embedded(value: Value) -> dict[str, Any]:
    """Return what was embedded: one JSON text or several."""
    return {"value": [to.parsed_value(text) for text in value] if isinstance(value, list) else to.parsed_value(value)}


def _cache_of_provider(value: Value) -> dict[str, Any] | None:
    """Return the tokens of the cache in the metadata of a provider: its usage, or members next to it."""
    if isinstance(value, str) and "ache" not in value:
        return None
    usages = [
        members
        for provider in to.as_object(value).values()
        if isinstance(provider, dict)
        for members in (provider.get("usage"), provider.get("usageMetadata"), provider)
        if isinstance(members, dict)
    ]
    tokens = {
        "cached": next((count for usage in usages if _is_count(count := to.first_of(usage, *_CACHED))), None),
        "cache_write": next((count for usage in usages if _is_count(count := to.first_of(usage, *_WRITTEN))), None),
    }
    return to.present(**tokens)


def _is_count(value: Value) -> bool:
    return type(value) is int and value >= 0


_CACHED: Final = ("cache_read_input_tokens", "cacheReadInputTokens", "cachedPromptTokens", "cachedContentTokenCount")
_WRITTEN: Final = ("cache_creation_input_tokens", "cacheCreationInputTokens", "cacheWriteInputTokens")

_PROMPT = Converter("messages", _prompt)
_ANSWER = Converter("one message", _answer)
_CACHE = Converter("the tokens of the cache, in the provider's words", _cache_of_provider)
_EMBEDDED = Converter("the texts that were embedded, as `value`", _embedded)

VERCEL: Final = Convention(
    "vercel",
    "Vercel AI SDK",
    (
        Row("ai.operationId", "type.span", to.word(_OPERATIONS), generations="5"),
        Row("ai.prompt", "data.inputs", _PROMPT, generations="5"),
        Row("ai.prompt.messages", "data.inputs", CHAT, generations="5"),
        Row("ai.value", "data.inputs", _EMBEDDED, generations="5"),
        Row("ai.values", "data.inputs", _EMBEDDED, generations="5"),
        Row("ai.prompt.tools", "data.parameters.tools", TOOLS, generations="5"),
        Row("ai.prompt.toolChoice", "data.parameters.tool_choice", to.OUTPUTS, generations="5"),
        Row(
            ("ai.response.text", "ai.response.toolCalls", "ai.response.object"),
            "data.outputs",
            _ANSWER,
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
        Row("ai.toolCall.result", "data.outputs", to.RESULT, generations="5"),
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
        Row("ai.response.providerMetadata", "metrics.tokens.incremental.*", _CACHE, generations="5"),
        Row("ai.usage.cachedInputTokens", _TOKENS + "cached", to.COUNT, generations="5"),
        Row("ai.usage.reasoningTokens", _TOKENS + "reasoning", to.COUNT, generations="5"),
        Row("ai.usage.inputTokenDetails.cacheReadTokens", _TOKENS + "cached", to.COUNT, generations="6"),
        Row("ai.usage.inputTokenDetails.cacheWriteTokens", _TOKENS + "cache_write", to.COUNT, generations="6"),
        Row("ai.usage.outputTokenDetails.reasoningTokens", _TOKENS + "reasoning", to.COUNT, generations="6"),
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
