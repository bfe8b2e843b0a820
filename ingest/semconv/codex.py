"""Codex's log records, which become spans (``common/agent_logs/codex.py``): kinds, usage, tools, failures.

Source: ``codex-rs/otel`` of github.com/openai/codex. ``codex.event`` is the name of the event. Every record names the
model of the conversation, so only that of a model call, which has the kind of an event of its response, is a model.
"""

from __future__ import annotations

from typing import Any, Final

from common.span import Value
from ingest.semconv import converters as to
from ingest.semconv.rows import Convention, Converter, Row

_EVENT = r"codex\.event"
_TOKENS = "metrics.tokens.incremental."

_TYPES: Final = {
    "api_request": "task",
    "conversation_starts": "agent",
    "sse_event": "chat",
    "tool_result": "tool",
    "user_prompt": "agent",
    "websocket_connect": "task",
    "websocket_event": "chat",
    "websocket_request": "task",
}

_REDACTED: Final = "[REDACTED]"


def _type(event: Value) -> str:
    return _TYPES.get(event, "unknown") if isinstance(event, str) else "unknown"


def _model(model: Value, kind: Value) -> str | None:
    return None if kind is None else to.as_text(model)


def _inputs(prompt: Value) -> dict[str, Any] | None:
    return None if prompt == _REDACTED else to.as_inputs(prompt)


def _failure(message: Value, success: Value) -> dict[str, str] | None:
    if not message and success not in (False, "false"):
        return None
    return {"message": message} if isinstance(message, str) and message else {}


_KIND = Converter(
    ", ".join(f"`{event}` → `{kind}`" for event, kind in _TYPES.items()) + "; any other → `unknown`", _type
)

CODEX: Final = Convention(
    "codex",
    "Codex, log records",
    (
        Row("codex.event", "type.span", _KIND),
        Row("provider_name", "meta.system", to.PROVIDER, requires=_EVENT, note="of the start of a conversation"),
        Row(
            ("model", "event.kind"),
            "meta.request.model",
            Converter("a text, of a model call", _model),
            requires=_EVENT,
        ),
        Row("input_token_count", _TOKENS + "prompt", to.COUNT, requires=_EVENT),
        Row("output_token_count", _TOKENS + "completion", to.COUNT, requires=_EVENT),
        Row("cached_token_count", _TOKENS + "cached", to.COUNT, requires=_EVENT),
        Row("reasoning_token_count", _TOKENS + "reasoning", to.COUNT, requires=_EVENT),
        Row("conversation.id", "session.id", to.TEXT, requires=_EVENT),
        Row("user.account_id", "user.id", to.TEXT, requires=_EVENT),
        Row("tool_name", "meta.tool.name", to.TEXT, requires=_EVENT),
        Row("call_id", "meta.tool.id", to.TEXT, requires=_EVENT),
        Row("arguments", "data.inputs", to.INPUTS, requires=_EVENT),
        Row("output", "data.outputs", to.RESULT, requires=_EVENT),
        Row(
            "prompt",
            "data.inputs",
            Converter("the text as `value`, unless it is redacted", _inputs),
            requires=_EVENT,
            note="with `log_user_prompt`",
        ),
        Row(
            ("error.message", "success"),
            "exception",
            Converter("the message, if there is one or `success` is false", _failure),
            requires=_EVENT,
        ),
    ),
)
