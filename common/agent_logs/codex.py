"""Log records of Codex: the spans of a conversation are a trace, or those of a turn if records say their turn.

Source: ``codex-rs/otel`` of github.com/openai/codex, and its documentation of ``[otel]``. The name of an event is the
attribute ``event.name``; the field of that name has a line of Codex's source. Records have the time at which they were
observed. A response that is streamed has a record for each of its events, of which the one with the token counts is
the model call; that one has no duration.
"""

from __future__ import annotations

from typing import Final

from common.agent_logs.steps import Part, Step, event_of, span_of, text_of
from common.log_record import LogRecord
from common.log_refusals import LogRefusal
from common.span import Attributes, Span

AGENT: Final = "codex"
_CONVERSATION: Final = "conversation_starts"
_PROMPT: Final = "user_prompt"
_STREAMED: Final = frozenset({"sse_event", "websocket_event"})
_TOKENS: Final = "input_token_count"
_ERROR: Final = "error.message"
_CALL: Final = "call_id"


def codex_span(log: LogRecord) -> Span | LogRefusal | None:
    """Return the span of a log record, or why it is refused; ``None`` if it is not of Codex."""
    event = event_of(log, AGENT)
    if event is None:
        return None
    attributes = log.attributes
    conversation, turn = text_of(attributes, "conversation.id"), text_of(attributes, "turn.id")
    if conversation is None:
        return LogRefusal.NO_SESSION
    is_failed = _is_failed(attributes)
    if event in _STREAMED and _TOKENS not in attributes and not is_failed:
        return LogRefusal.PART_OF_STREAM
    trace: tuple[Part, ...] = (conversation, turn)
    step = Step(
        trace=trace,
        own=() if event == (_CONVERSATION if turn is None else _PROMPT) else _own(log),
        has_root=True,
        is_model_call=event in _STREAMED,
        is_failed=is_failed,
        durations=("duration_ms",),
    )
    return span_of(log, AGENT, event, step)


def _own(log: LogRecord) -> tuple[Part, ...]:
    """Return what identifies a record in its trace: there is no sequence, so its time, and the call of a tool."""
    return (text_of(log.attributes, _CALL), text_of(log.attributes, "event.timestamp"), log.time_ns)


def _is_failed(attributes: Attributes) -> bool:
    return bool(attributes.get(_ERROR)) or attributes.get("success") in (False, "false")
