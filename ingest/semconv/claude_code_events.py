"""Claude Code's log records, which become spans (``common/agent_logs/claude_code.py``): kinds, usage, tools, failures.

Source: https://code.claude.com/docs/en/monitoring-usage. ``claude_code.event`` is the name of the event. The number of
input tokens lacks those of the cache (``prompt_tokens.py``). Where content is not sent, the attribute says so.
"""

from __future__ import annotations

from typing import Any, Final

from common.span import Value
from ingest.semconv import converters as to
from ingest.semconv.rows import Convention, Converter, Row

_EVENT = r"claude_code\.event"
_TOKENS = "metrics.tokens.incremental."
_RETRIED = "total_attempts"

_TYPES: Final = {
    "api_error": "chat",
    "api_request": "chat",
    "compaction": "task",
    "hook_execution_complete": "task",
    "subagent_completed": "agent",
    "tool_result": "tool",
    "user_prompt": "agent",
}

_CALLS: Final = ("api_error", "api_request")
"""Other events name the model too, such as that of a response."""

_REDACTED: Final = "<REDACTED>"


def _type(event: Value) -> str:
    return _TYPES.get(event, "unknown") if isinstance(event, str) else "unknown"


def _provider(event: Value, _model: Value) -> str | None:
    return "anthropic" if event in _CALLS else None


def _model_of_call(event: Value, model: Value) -> str | None:
    return to.as_text(model) if event in _CALLS and model is not None else None


def _unless_redacted(value: Value) -> Value:
    return None if value == _REDACTED else value


def _inputs(prompt: Value) -> dict[str, Any] | None:
    sent = _unless_redacted(prompt)
    return None if sent is None else to.as_inputs(sent)


def _failure(error: Value, error_type: Value, error_name: Value, success: Value) -> dict[str, str] | None:
    kind = error_type or error_name
    if success in (True, "true") or not (error or kind or success in (False, "false")):
        return None
    members = {"type": kind, "message": error}
    return {name: text for name, text in members.items() if isinstance(text, str) and text}


_KIND = Converter(
    ", ".join(f"`{event}` → `{kind}`" for event, kind in _TYPES.items()) + "; any other → `unknown`", _type
)
_PROVIDER = Converter("`anthropic`, of a model call", _provider)
_MODEL = Converter("a text, of a model call", _model_of_call)
_FAILURE = Converter("type and message, unless `success` is true", _failure)

CLAUDE_CODE_EVENTS: Final = Convention(
    "claude-code-events",
    "Claude Code, log records",
    (
        Row("claude_code.event", "type.span", _KIND),
        Row(("claude_code.event", "model"), "meta.system", _PROVIDER, requires=_EVENT),
        Row(("claude_code.event", "model"), "meta.request.model", _MODEL, requires=_EVENT),
        Row("input_tokens", _TOKENS + "prompt", to.COUNT, requires=_EVENT, note="without those of the cache"),
        Row("output_tokens", _TOKENS + "completion", to.COUNT, requires=_EVENT),
        Row("cache_read_tokens", _TOKENS + "cached", to.COUNT, requires=_EVENT),
        Row("cache_creation_tokens", _TOKENS + "cache_write", to.COUNT, requires=_EVENT),
        Row("cost_usd", "metrics.costs.incremental.total", to.AMOUNT, requires=_EVENT),
        Row("tool_name", "meta.tool.name", to.TEXT, requires=_EVENT),
        Row("tool_use_id", "meta.tool.id", to.TEXT, requires=_EVENT),
        Row("tool_parameters", "data.inputs", to.INPUTS, requires=_EVENT, note="with `OTEL_LOG_TOOL_DETAILS`"),
        Row("tool_input", "data.inputs", to.INPUTS, requires=_EVENT, note="with `OTEL_LOG_TOOL_DETAILS`"),
        Row(
            "prompt",
            "data.inputs",
            Converter("the text as `value`, unless it is redacted", _inputs),
            requires=_EVENT,
            note="with `OTEL_LOG_USER_PROMPTS`",
        ),
        Row(
            "response",
            "data.outputs",
            Converter("the text, unless it is redacted", _unless_redacted),
            requires="response_length",
            note="with `OTEL_LOG_ASSISTANT_RESPONSES`",
        ),
        Row(
            ("error", "error_type", "error_name", "success"),
            "exception",
            _FAILURE,
            requires=_EVENT,
            unless=_RETRIED,
        ),
    ),
)
