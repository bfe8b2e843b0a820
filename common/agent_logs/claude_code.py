"""Log records of Claude Code: the spans of one prompt are a trace, whose root is the prompt.

Source: https://code.claude.com/docs/en/monitoring-usage. The record of an event has its name in ``event.name``, without
``claude_code.``, and with it in the body or in the name of the event. Records before the first prompt, such as those of
plugins, have only ``session.id``: they are a trace without a root.
"""

from __future__ import annotations

from typing import Final

from common.agent_logs.steps import Part, Step, event_of, span_of, text_of
from common.log_record import LogRecord
from common.log_refusals import LogRefusal
from common.span import Span

AGENT: Final = "claude_code"
PROMPT: Final = "user_prompt"
_MODEL_CALLS: Final = frozenset({"api_request", "api_error"})
_FAILURES: Final = frozenset({"api_error", "internal_error"})
_DURATIONS: Final = ("duration_ms", "total_duration_ms")


def claude_code_span(log: LogRecord) -> Span | LogRefusal | None:
    """Return the span of a log record, or why it is refused; ``None`` if it is not of Claude Code."""
    event = event_of(log, AGENT)
    if event is None:
        return None
    attributes = log.attributes
    prompt, session = text_of(attributes, "prompt.id"), text_of(attributes, "session.id")
    if prompt is None and session is None:
        return LogRefusal.NO_SESSION
    trace: tuple[Part, ...] = ("prompt", prompt) if prompt is not None else ("session", session)
    is_root = prompt is not None and event == PROMPT
    step = Step(
        trace=trace,
        own=() if is_root else (session, prompt, text_of(attributes, "event.sequence"), log.time_ns),
        has_root=prompt is not None,
        is_model_call=event in _MODEL_CALLS,
        is_failed=event in _FAILURES or attributes.get("success") in (False, "false"),
        durations=_DURATIONS,
    )
    return span_of(log, AGENT, event, step)
