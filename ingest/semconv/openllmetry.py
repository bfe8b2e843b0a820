"""OpenLLMetry (Traceloop): its attributes outside the GenAI conventions (``genai.py``).

Until 0.4x prompts and completions are numbered attributes, since 0.5x JSON in ``gen_ai.*.messages``.
"""

from __future__ import annotations

from typing import Any, Final

from common.span import Value
from ingest.semconv import converters as to
from ingest.semconv.messages import chat_of, messages_of, parts_in
from ingest.semconv.rows import Convention, Converter, Reason, Row
from ingest.semconv.tools import TOOLS

_OLD = "until 0.4x"
_NUMBERS = "numbered members"
_PROMPT = "metrics.tokens.incremental.prompt"
_COMPLETION = "metrics.tokens.incremental.completion"
_TOTAL = "metrics.tokens.incremental.total"

_KINDS: Final = {"agent": "agent", "task": "task", "tool": "tool", "workflow": "workflow"}
_REQUEST_TYPES: Final = {"chat": "chat", "completion": "completion", "embedding": "embedding", "rerank": "rerank"}


def _numbered(sent: Value) -> list[Value]:
    """Return numbered messages, whose parts can only be sent as JSON text, without members that have a name."""
    numbered = {key: sent[key] for key in sent if key.isdecimal()} if isinstance(sent, dict) else sent
    return [
        {**message, "content": parts_in(message["content"])} if _may_hold_parts(message) else message
        for message in to.array_of(numbered, Reason.NOT_MESSAGES)
    ]


def _may_hold_parts(message: Value) -> bool:
    content = message.get("content") if isinstance(message, dict) else None
    return isinstance(content, str) and content.startswith("[")


def _prompts(sent: Value) -> dict[str, Any] | None:
    """Return numbered prompts: a chat, or, without roles, the texts that were embedded or completed."""
    messages = messages_of(_numbered(sent))
    if messages and not any("role" in message for message in messages):
        return {"value": [message.get("content") for message in messages]}
    return {"messages": messages} if messages else None


def _entity_named(kind: str) -> Converter:
    """Return a converter to a name that counts only if the kind next to it is this one."""

    def read(name: Value, sent_kind: Value) -> str | None:
        return to.as_text(name) if sent_kind == kind and name is not None else None

    return Converter(f"the name, if the kind is `{kind}`", read)


_COMPLETIONS = Converter("messages", lambda sent: chat_of(_numbered(sent)))
_PROMPTS = Converter("messages; texts without a role as `value`", _prompts)

OPENLLMETRY: Final = Convention(
    "openllmetry",
    "OpenLLMetry",
    (
        Row("llm.request.type", "type.span", to.word(_REQUEST_TYPES), generations=_OLD),
        Row("traceloop.span.kind", "type.span", to.word(_KINDS)),
        Row("traceloop.entity.input", "data.inputs", to.JSON_INPUTS),
        Row("traceloop.entity.output", "data.outputs", to.JSON_OUTPUTS),
        Row(("traceloop.entity.name", "traceloop.span.kind"), "meta.tool.name", _entity_named("tool")),
        Row(("traceloop.entity.name", "traceloop.span.kind"), "unsupported.agent.name", _entity_named("agent")),
        Row(("traceloop.entity.name", "traceloop.span.kind"), "unsupported.agent.id", _entity_named("agent")),
        Row("gen_ai.prompt.*", "data.inputs", _PROMPTS, _NUMBERS, generations=_OLD, requires=r"gen_ai\.prompt\.\d"),
        Row(
            "gen_ai.completion.*",
            "data.outputs",
            _COMPLETIONS,
            _NUMBERS,
            generations=_OLD,
            requires=r"gen_ai\.completion\.\d",
        ),
        Row("llm.request.functions.*", "data.parameters.tools", TOOLS, generations=_OLD),
        Row("gen_ai.usage.prompt_tokens", _PROMPT, to.COUNT, generations=_OLD),
        Row("gen_ai.usage.completion_tokens", _COMPLETION, to.COUNT, generations=_OLD),
        Row("llm.usage.total_tokens", _TOTAL, to.COUNT, generations=_OLD),
        Row("gen_ai.usage.total_tokens", _TOTAL, to.COUNT),
        Row("gen_ai.usage.cache_read_input_tokens", "metrics.tokens.incremental.cached", to.COUNT, generations=_OLD),
        Row(
            "gen_ai.usage.cache_creation_input_tokens",
            "metrics.tokens.incremental.cache_write",
            to.COUNT,
            generations=_OLD,
        ),
        Row("gen_ai.usage.reasoning_tokens", "metrics.tokens.incremental.reasoning", to.COUNT),
        Row("llm.is_streaming", "meta.request.stream", to.FLAG, generations=_OLD),
        Row("gen_ai.is_streaming", "meta.request.stream", to.FLAG),
        Row("llm.frequency_penalty", "meta.request.frequency_penalty", to.NUMBER, generations=_OLD),
        Row("llm.presence_penalty", "meta.request.presence_penalty", to.NUMBER, generations=_OLD),
        Row("llm.user", "user.id", to.TEXT, generations=_OLD),
        Row("gen_ai.user", "user.id", to.TEXT),
        Row("traceloop.association.properties.session_id", "session.id", to.TEXT),
        Row("traceloop.association.properties.user_id", "user.id", to.TEXT),
        Row(
            "traceloop.association.properties.*", "meta.*", to.METADATA, note="except names that `ag.meta` uses itself"
        ),
    ),
)
