"""Chats in values that may hold anything: SDKs of observability send one value as the inputs, one as the outputs of a
span, whatever its kind.

A value is a chat if it has the shape of one: messages, one message, a request to a model or its response, as the APIs
of OpenAI and Anthropic and as LangChain write them. Its messages are then under ``messages`` in our spelling
(``messages.py``). Any other value stays as it was sent.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any, Final

from common.span import Value
from ingest.semconv.converters import as_inputs, first_of, parsed_if_json, parsed_value
from ingest.semconv.messages import Message, messages_of
from ingest.semconv.response_items import is_item
from ingest.semconv.rows import Converter, MappingError
from ingest.semconv.tools import tools_offered
from ingest.semconv.vocabulary import ROLES

_HOLDERS: Final = {"messages": "system", "input": "instructions", "output": ""}
"""Members that hold messages, with the member that holds their instructions."""

_TOOLS: Final = "tools"
_SAID: Final = frozenset({"content", "parts", "tool_calls", "function_call"})
_RESPONSE: Final = "response"


def chat_in(value: Value) -> Value:
    """Return a chat with its messages under ``messages``, any other value unchanged. Raises nothing."""
    try:
        found = _chat(value)
    except MappingError:
        return value
    return value if found is None else found


def _chat(value: Value) -> dict[str, Any] | None:
    """Return the chat that a value is, without the tools that it offers; ``None`` if it is none."""
    messages = _messages_in(value)
    if messages is not None:
        return {"messages": messages}
    if not isinstance(value, dict):
        return None
    for name, instructions in _HOLDERS.items():
        messages = _messages_in(value.get(name))
        if messages is not None:
            system = _instructions(value.get(instructions))
            known = {name, _TOOLS, instructions} if system else {name, _TOOLS}
            others = {} if value.get("object") == _RESPONSE else value
            return {**{key: other for key, other in others.items() if key not in known}, "messages": system + messages}
    answers = _answers(value)
    return {"messages": messages_of(answers)} if answers else None


def _messages_in(value: Value) -> list[Message] | None:
    """Return the messages that a value is: one, a list, or lists of lists, as LangChain batches them; else ``None``."""
    elements: list[Any]
    if isinstance(value, dict):
        elements = [value]
    elif isinstance(value, list) and value:
        elements = value
        if all(isinstance(element, list) and not _is_pair(element) for element in elements):
            elements = [message for batch in elements for message in batch]
    else:
        return None
    sent = [_message(element) for element in elements]
    return messages_of(sent) if sent and all(element is not None for element in sent) else None


def _message(element: Any) -> Message | None:
    """Return a message or an item of OpenAI's Responses API as ``messages_of`` reads it, ``None`` for anything else."""
    if isinstance(element, list):
        return {"role": ROLES[element[0]], "content": element[1]} if _is_pair(element) else None
    if not isinstance(element, dict):
        return None
    inner = _unwrapped(element)
    is_known = isinstance(inner.get("role"), str) or (str(inner.get("type")) in ROLES and "content" in inner)
    return inner if is_item(element) or (is_known and not _SAID.isdisjoint(inner)) else None


def _is_pair(element: list[Any]) -> bool:
    """Return whether this is the short form of a message in LangChain: a role and a text."""
    return len(element) == 2 and all(isinstance(text, str) for text in element) and element[0] in ROLES


def _unwrapped(element: Message) -> Message:
    """Return a message of LangChain, which may be the arguments of its class, or have its members below ``data``."""
    for wrapping in () if "role" in element else ("kwargs", "data"):
        inner = element.get(wrapping)
        if isinstance(inner, dict) and "content" in inner:
            named = element.get("id") if wrapping == "kwargs" else element.get("type")
            return {"type": named[-1] if isinstance(named, list) and named else named, **inner}
    return element


def _instructions(sent: Value) -> list[Message]:
    """Return the instructions of a request, a text or parts, as a message."""
    return messages_of([{"role": "system", "content": sent}]) if sent and isinstance(sent, str | list) else []


def _answers(value: Mapping[str, Any]) -> list[Message]:
    """Return the answers in a response: OpenAI's choices, or LangChain's generations."""
    choices = value.get("choices")
    if isinstance(choices, list) and all(isinstance(choice, dict) and "message" in choice for choice in choices):
        return choices
    generations = value.get("generations")
    return list(_generated(generations)) if isinstance(generations, list) else []


def _generated(generations: list[Any]) -> Iterable[Message]:
    for batch in generations:
        for generation in batch if isinstance(batch, list) else [batch]:
            if isinstance(generation, dict):
                text = {"role": "assistant", "content": generation.get("text")}
                answer = _message(generation.get("message")) or text
                yield {**answer, "finish_reason": _reason(generation, answer)}


def _reason(generation: Message, message: Message) -> Any:
    """Return the finish reason of a generation of LangChain, which some models say in the metadata of the message."""
    said = _object(generation, "generation_info").get("finish_reason")
    return said or first_of(_object(message, "response_metadata"), "finish_reason", "stop_reason")


def _object(members: Mapping[str, Any], name: str) -> dict[str, Any]:
    inner = members.get(name)
    return inner if isinstance(inner, dict) else {}


def _tools(sent: Value) -> list[dict[str, Any]] | None:
    """Return the tools that a request offers. The text is not parsed again unless it names some."""
    if isinstance(sent, str) and f'"{_TOOLS}"' not in sent:
        return None
    request = parsed_if_json(sent)
    tools = request.get(_TOOLS) if isinstance(request, dict) else None
    return tools_offered(tools) if isinstance(tools, list) else None


SAID_INPUTS = Converter(
    "messages, if the value is a chat; another object as it is; other JSON and text as `value`",
    lambda value: as_inputs(chat_in(parsed_if_json(value))),
    has_value_of_json=True,
)
SAID_OUTPUTS = Converter(
    "messages, if the value is a chat; else the object, the array or the text",
    lambda value: chat_in(parsed_if_json(value)),
    has_value_of_json=True,
)
SAID_INPUTS_IN_JSON = Converter(
    "messages, if the JSON is a chat; another object as it is; anything else as `value`",
    lambda value: as_inputs(chat_in(parsed_value(value))),
    has_value_of_json=True,
)
SAID_OUTPUTS_IN_JSON = Converter(
    "messages, if the JSON is a chat; else the JSON",
    lambda value: chat_in(parsed_value(value)),
    has_value_of_json=True,
)
TOOLS_OF_REQUEST = Converter("the tools of a request: type, name, description, parameters", _tools)
