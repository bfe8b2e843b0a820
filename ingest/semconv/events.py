"""Chats that came as events of a span, in two generations of OpenTelemetry's GenAI conventions:

- until 1.29: ``gen_ai.content.prompt`` and ``gen_ai.content.completion``, each with a chat in an attribute;
- until 1.36: one event per message, ``gen_ai.user.message`` and the like, and ``gen_ai.choice`` for each answer; as log
  records they have the message in the body.

The event of later ones has the attributes that spans have, and is read with them (``details.py``).

The events stay as they were sent. What attributes say (``engine.py``) wins over events, except that instructions on one
side and messages on the other are one chat. The events of a tool's span hold its arguments and its result.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Any, Final

from common.span import Attributes, Event, Value
from ingest.semconv.converters import first_of, parsed_if_json, present
from ingest.semconv.engine import Mapped
from ingest.semconv.messages import (
    Message,
    are_instructions,
    chat_of,
    has_content,
    instructed,
    messages_of,
    parts_in,
    without_answer,
)
from ingest.semconv.rows import MappingError
from ingest.semconv.tool_messages import arguments_in, result_in

_BEGINNING: Final = "gen_ai."
_CHOICE: Final = "gen_ai.choice"
_TOOL_OUTPUT: Final = "tool.output"
_ROLES: Final = {f"gen_ai.{role}.message": role for role in ("system", "user", "assistant", "tool")}
_REFERENCES: Final = frozenset({"messages_ref", "system_instructions_ref"})
"""Members of inputs and outputs that say where their messages are stored instead."""

_OF_TOOL: Final = (("inputs", arguments_in), ("outputs", result_in))

_INPUTS: Final = frozenset({"gen_ai.content.prompt", *_ROLES})
_OUTPUTS: Final = frozenset({"gen_ai.content.completion", _CHOICE})


def with_events(mapped: Mapped, events: Iterable[Event]) -> Mapped:
    """Add the inputs and outputs that only events have to what was mapped."""
    data, mapping_errors = data_of_events(events)
    output = next((_output(event.attributes) for event in events if event.name == _TOOL_OUTPUT), None)
    if not data and not mapping_errors and output is None:
        return mapped
    own = present(outputs=output) | mapped.ag.get("data", {})
    data = {name: said | _references(own.get(name)) for name, said in data.items()}
    own = {name: value for name, value in own.items() if name not in data or not _references(value)}
    if mapped.ag.get("type", {}).get("span") == "tool":
        data = _of_tool(data)
    elif "inputs" in data and "inputs" in own:
        own = own | {"inputs": _joined(own["inputs"], data["inputs"])}
    elif "inputs" in data and "outputs" not in data | own and _is_answered(mapped.ag):
        data = _with_answer(data["inputs"]["messages"])
    return Mapped(mapped.ag | {"data": data | own}, [*mapped.mapping_errors, *mapping_errors])


def _references(value: Value) -> dict[str, Any]:
    """Return inputs or outputs that only say where their messages are stored, else an empty object."""
    return value if isinstance(value, dict) and value.keys() <= _REFERENCES else {}


def _output(said: Attributes) -> Value:
    """Return the result of a tool of Claude Code, which sends it as an event."""
    return parsed_if_json(first_of(said, "output", "content"))


def _joined(own: dict[str, Any], said: dict[str, Any]) -> dict[str, Any]:
    """Return what attributes say, joined with what events say if one of the two has only the instructions."""
    messages, others = own.get("messages"), said["messages"]
    if not isinstance(messages, list):
        return own
    if are_instructions(messages):
        return {"messages": instructed(messages, others)}
    return own | {"messages": instructed(others, messages)} if are_instructions(others) else own


def _of_tool(data: dict[str, Any]) -> dict[str, Any]:
    """Return the arguments and the result of a tool, which came as one message each."""
    values = {name: value_in(data[name]["messages"]) for name, value_in in _OF_TOOL if name in data}
    return data | {name: value for name, value in values.items() if value is not None}


def _is_answered(mapped: dict[str, Any]) -> bool:
    tokens = mapped.get("metrics", {}).get("tokens", {}).get("incremental", {})
    return "response" in mapped.get("meta", {}) or bool(tokens.get("completion"))


def _with_answer(messages: list[Message]) -> dict[str, Any]:
    """Return the data of a call without a choice: the assistant's messages at the end are its answer."""
    said = dict(zip(("inputs", "outputs"), without_answer(messages), strict=True))
    return {name: {"messages": messages} for name, messages in said.items() if messages}


def data_of_events(events: Iterable[Event]) -> tuple[dict[str, Any], Sequence[str]]:
    """Return the members of ``ag.data`` from events, and a reason for each that cannot be read."""
    chat_events = [event for event in events if event.name.startswith(_BEGINNING)]
    data: dict[str, Any] = {}
    mapping_errors: list[str] = []
    for name, names, read in (("inputs", _INPUTS, _input_messages), ("outputs", _OUTPUTS, _output_messages)):
        try:
            messages = _read([event for event in chat_events if event.name in names], read)
        except MappingError as mapping_error:
            mapping_errors.append(mapping_error.reason)
            continue
        if messages:
            data[name] = {"messages": messages}
    return data, mapping_errors


def _read(events: Iterable[Event], read: Callable[[str, Attributes], list[Message]]) -> list[Message]:
    return [message for event in events for message in read(event.name, _members_of(event))]


def _members_of(event: Event) -> Attributes:
    """Return the attributes of an event, and the members of the body of a log record, which has the message."""
    body = None if event.log is None else parsed_if_json(event.log.body)
    return {**body, **event.attributes} if isinstance(body, dict) else event.attributes


def _input_messages(name: str, said: Attributes) -> list[Message]:
    if name in _ROLES:
        return _message({"role": _ROLES[name], **said})
    return _chat(said.get("gen_ai.prompt"))


def _output_messages(name: str, said: Attributes) -> list[Message]:
    if name == _CHOICE:
        message = parsed_if_json(said.get("message"))
        if not isinstance(message, dict):
            message = {**said, "content": said.get("content") if message is None else message}
        return _message({"role": "assistant", **message, "finish_reason": said.get("finish_reason")})
    return _chat(said.get("gen_ai.completion"))


def _message(said: Attributes) -> list[Message]:
    """Return the one message; none if it has only a role, because content is not captured."""
    content = {"content": parts_in(said["content"])} if "content" in said else {}
    messages = messages_of([{**said, **content, "tool_calls": parsed_if_json(said.get("tool_calls"))}])
    return [message for message in messages if has_content(message)]


def _chat(sent: Value) -> list[Message]:
    chat = None if sent is None else chat_of(sent)
    messages: list[Message] = chat["messages"] if chat else []
    return messages
