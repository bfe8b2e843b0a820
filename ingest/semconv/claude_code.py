"""Claude Code: kinds of its spans, and what its tools were given, below names of its own.

Arguments and results are sent only with ``OTEL_LOG_TOOL_DETAILS`` and ``OTEL_LOG_TOOL_CONTENT``; the result of a tool
is an event (``events.py``). Its model calls follow the GenAI conventions.
"""

from __future__ import annotations

from typing import Any, Final

from common.span import Value
from ingest.semconv import converters as to
from ingest.semconv.rows import Convention, Converter, Row

_SAME_SPAN = r"span\.type"

_TYPES: Final = {
    "hook": "task",
    "interaction": "agent",
    "llm_request": "chat",
    "tool": "tool",
    "tool.blocked_on_user": "unknown",
    "tool.execution": "chain",
}
"""The part of a tool call in which the tool runs is a ``chain``, so that a run is one ``tool``. Waiting for the user is
no work of the agent.
"""

_ARGUMENTS: Final = {
    "full_command": "command",
    "file_path": "file_path",
    "skill_name": "skill",
    "subagent_type": "subagent_type",
}
"""Attributes of a tool → its argument."""


def _arguments(*sent: Value) -> dict[str, Any] | None:
    return {name: value for name, value in zip(_ARGUMENTS.values(), sent, strict=True) if value is not None} or None


def _failure(error: Value, success: Value) -> dict[str, str] | None:
    if success in (True, "true") or not (error or success in (False, "false")):
        return None
    return {"message": error} if error and isinstance(error, str) else {}


_OF_TOOL = Converter("the arguments, as `command`, `file_path`, `skill` and `subagent_type`", _arguments)
_FAILURE = Converter("the message, unless `success` is true", _failure)

CLAUDE_CODE: Final = Convention(
    "claude-code",
    "Claude Code",
    (
        Row("span.type", "type.span", to.word(_TYPES)),
        Row("user_prompt", "data.inputs", to.INPUTS, requires=_SAME_SPAN, note="with `OTEL_LOG_USER_PROMPTS`"),
        Row(tuple(_ARGUMENTS), "data.inputs", _OF_TOOL, requires=_SAME_SPAN, note="with `OTEL_LOG_TOOL_DETAILS`"),
        Row("tool_input", "data.inputs", to.INPUTS, requires=_SAME_SPAN, note="all arguments, where they are sent"),
        Row("agent_id", "unsupported.agent.id", to.TEXT, requires=_SAME_SPAN, note="of a subagent"),
        Row(("error", "success"), "exception", _FAILURE, requires=_SAME_SPAN),
    ),
)
