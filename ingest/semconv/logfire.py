"""Logfire: its spans of the OpenAI Agents SDK and of clients of OpenAI and Anthropic, and what its scrubber replaces.

Attributes of these spans have no prefix, so they count only next to Logfire's own. The template of the message is the
kind of a span. What Logfire shares with Pydantic AI is in ``pydantic_ai.py``.

When a span begins, Logfire exports a *pending span* as well: a span of its own, without a duration, with the
attributes that the span has by then. It announces its parent: that is the span that began, and
``logfire.pending_parent_id`` is the parent of that one. So it is read as the running state of the span that it
announces (contract §3.6).
"""

from __future__ import annotations

from typing import Any, Final

from common.ids import parse_span_id
from common.span import Span, Value
from ingest.semconv import converters as to
from ingest.semconv.chats import SAID_INPUTS, SAID_OUTPUTS, TOOLS_OF_REQUEST
from ingest.semconv.rows import Convention, Converter, Row
from ingest.semconv.usage import TOKENS_USED

_TEMPLATE: Final = "logfire.msg_template"
_MESSAGE: Final = "logfire.msg"
_SAME_SPAN = r"logfire\."
_SCRUBBED: Final = "[Scrubbed due to "
_SPAN_TYPE: Final = "logfire.span_type"
_PENDING: Final = "pending_span"
_ENDED_TYPE: Final = "span"
"""The type that the same span has when it ends."""

_PENDING_PARENT: Final = "logfire.pending_parent_id"
_PENDING_NAME: Final = " (pending)"
"""Ends the names of pending spans of the first versions of Logfire."""


_AGENT: Final = "Agent run: {name!r}"
_FUNCTION: Final = "Function: {name}"
_HANDOFF: Final = "Handoff: {from_agent} → {to_agent}"
_TEMPLATES: Final = {
    _AGENT: "agent",
    _FUNCTION: "tool",
    _HANDOFF: "tool",
    "Guardrail {name!r} {triggered=}": "task",
    "MCP: list tools from server {server}": "task",
    "OpenAI Agents trace: {name}": "workflow",
}
_STEPS: Final = {"task": "workflow", "turn": "chain"}


def with_readable_name(span: Span) -> Span:
    """Return the span with Logfire's message as its name, if its name is the template of the message.

    The template stays in the attributes.
    """
    message = span.attributes.get(_MESSAGE)
    is_template = message is not None and span.attributes.get(_TEMPLATE) == span.name
    return span._replace(name=message) if is_template and isinstance(message, str) and message else span


def announced(span: Span) -> Span:
    """Return the running span that a pending span announces; any other span as it is.

    A pending span that names no span, or a parent that cannot be read, stays an ordinary span.
    """
    if span.attributes.get(_SPAN_TYPE) != _PENDING or span.parent_id is None:
        return span
    try:
        parent_id = _parent_of_announced(span.attributes.get(_PENDING_PARENT))
    except ValueError:
        return span
    attributes = {key: value for key, value in span.attributes.items() if key != _PENDING_PARENT}
    return span._replace(
        span_id=span.parent_id,
        parent_id=parent_id,
        name=span.name.removesuffix(_PENDING_NAME),
        end_ns=span.start_ns,
        attributes={**attributes, _SPAN_TYPE: _ENDED_TYPE},
        is_running=True,
    )


def _parent_of_announced(sent: Value) -> bytes | None:
    """Return the parent; ``None`` for a root: Python sends zeros, Rust nothing. Raises ``ValueError``."""
    return None if sent is None or not str(sent).strip("0") else parse_span_id(str(sent))


def _of_template(template: str) -> Converter:
    """Return a converter to a name that counts only on spans of this kind."""

    def read(name: Value, sent_template: Value) -> str | None:
        return to.as_text(name) if sent_template == template and name is not None else None

    return Converter(f"the name, if the template is `{template}`", read)


def _identity(value: Value) -> str | None:
    text = to.as_text(value)
    return None if text is None or text.startswith(_SCRUBBED) else text


def _handoff(source: Value, target: Value) -> dict[str, Any] | None:
    return to.present(from_agent=source, to_agent=target) or None


def _handoff_name(target: Value) -> str | None:
    text = to.as_text(target)
    return None if text is None else f"handoff to {text}"


def _failure(value: Value) -> dict[str, str] | None:
    """Return the message of an error, an object with its message and data."""
    error = to.parsed_if_json(value)
    message = error.get("message") if isinstance(error, dict) else error
    return {"message": message} if message and isinstance(message, str) else None


def _response(value: Value) -> Value:
    """Return the answer in the data of a response: one message next to its usage, or all of it."""
    response = to.parsed_if_json(value)
    if isinstance(response, dict) and isinstance(response.get("message"), dict):
        response = response["message"]
    chat: Value = SAID_OUTPUTS.read(response)
    return chat


_IDENTITY = Converter("a text, unless Logfire's scrubber replaced it", _identity)
_FAILURE = Converter("the message", _failure)
_HANDOFF_INPUTS = Converter("the two agents", _handoff)
_HANDOFF_NAME = Converter("`handoff to` with the agent", _handoff_name)
_TRIGGERED = Converter("as `triggered`", lambda value: {"triggered": value})
_RESPONSE = Converter("messages, if the response has any; else the object", _response)
_PENDING_KIND = Converter(
    "a kind of span: `pending_span` → `unknown`", lambda value: "unknown" if value == _PENDING else None
)

LOGFIRE: Final = Convention(
    "logfire",
    "Logfire",
    (
        Row(_TEMPLATE, "type.span", to.word(_TEMPLATES)),
        Row("sdk_span_type", "type.span", to.word(_STEPS), requires=_SAME_SPAN),
        Row(_SPAN_TYPE, "type.span", _PENDING_KIND, note="a pending span that names no span"),
        Row(("name", _TEMPLATE), "unsupported.agent.name", _of_template(_AGENT), requires=_SAME_SPAN),
        Row(("name", _TEMPLATE), "unsupported.agent.id", _of_template(_AGENT), requires=_SAME_SPAN),
        Row(("name", _TEMPLATE), "meta.tool.name", _of_template(_FUNCTION), requires=_SAME_SPAN),
        Row("to_agent", "meta.tool.name", _HANDOFF_NAME, requires=_SAME_SPAN),
        Row(("from_agent", "to_agent"), "data.inputs", _HANDOFF_INPUTS, requires=_SAME_SPAN),
        Row("triggered", "data.outputs", _TRIGGERED, requires=_SAME_SPAN, note="of a guardrail"),
        Row("input", "data.inputs", SAID_INPUTS, requires=_SAME_SPAN),
        Row("output", "data.outputs", SAID_OUTPUTS, requires=_SAME_SPAN),
        Row("request_data", "data.inputs", SAID_INPUTS, requires=_SAME_SPAN),
        Row("response_data", "data.outputs", _RESPONSE, requires=_SAME_SPAN),
        Row("raw_input", "data.inputs", SAID_INPUTS, requires=_SAME_SPAN, unless=r"events", note="without `events`"),
        Row("response", "data.outputs", SAID_OUTPUTS, requires=r"response_id", note="of the Responses API"),
        Row("response", "data.parameters.tools", TOOLS_OF_REQUEST, requires=r"response_id"),
        Row("gen_ai.usage.raw", "metrics.tokens.incremental.*", TOKENS_USED, note="with the tokens of reasoning"),
        Row("error", "exception", _FAILURE, requires=_SAME_SPAN),
        Row("group_id", "session.id", _IDENTITY, requires=r"agent_trace_id"),
        Row("gen_ai.conversation.id", "session.id", _IDENTITY, requires=_SAME_SPAN),
        Row("session.id", "session.id", _IDENTITY, requires=_SAME_SPAN),
        Row("user.id", "user.id", _IDENTITY, requires=_SAME_SPAN),
    ),
)
