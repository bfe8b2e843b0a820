"""The arguments and the result of a tool that came as one message each, as Strands sends them."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Final

from common.span import Value
from ingest.semconv.converters import as_inputs, parsed_if_json, unquoted
from ingest.semconv.messages import Message, chat_of
from ingest.semconv.rows import Converter, MappingError

_EXECUTE_TOOL: Final = "execute_tool"


def arguments_in(messages: Sequence[Message]) -> Value:
    """Return the arguments in the one message of a tool; ``None`` if there are more messages, or none."""
    value = _value_in(messages)
    return None if value is None else as_inputs(value)


def result_in(messages: Sequence[Message]) -> Value:
    """Return the result in the one message of a tool; ``None`` if there are more messages, or none."""
    value = _value_in(messages)
    return None if value is None else unquoted(value)


def _value_in(messages: Sequence[Message]) -> Value:
    if len(messages) != 1:
        return None
    (message,) = messages
    calls = message.get("tool_calls", ())
    return calls[0].get("arguments") if len(calls) == 1 else parsed_if_json(message.get("content"))


def _of_tool(said: str, value_in: Callable[[Sequence[Message]], Value]) -> Converter:
    """Return a converter of messages, the operation and the name of a tool."""

    def read(sent: Value, operation: Value, tool: Value) -> Value:
        if operation != _EXECUTE_TOOL and (operation is not None or tool is None):
            return None
        try:
            chat = chat_of(sent)
        except MappingError:  # the row that reads the messages counts it
            return None
        return value_in(chat["messages"]) if chat else None

    return Converter(f"{said} in the one message, if the span is of a tool", read)


ARGUMENTS_IN_MESSAGES: Final = _of_tool("the arguments", arguments_in)
RESULT_IN_MESSAGES: Final = _of_tool("the result", result_in)
