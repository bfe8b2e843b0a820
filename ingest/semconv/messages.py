"""Messages in one shape for all sources, and the converters to chats that several conventions need.

A message is ``{role, content | parts, tool_calls?, tool_call_id?, name?, finish_reason?}``:

- ``content`` is the text, where a message is one text (or a tool's result, as it came); else ``parts`` holds
  ``{type, content, …}`` in their order, kinds that are unknown here as they were sent.
- ``tool_calls`` are ``{id, name, arguments}``, the arguments parsed where they are JSON.
- The results of a tool call are a message of their own with the role ``tool``, also where they were sent as parts of
  another.

What is read here was decoded already, or is JSON text.
Nothing that is read is changed; structured values in it are shared.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, Final

import orjson

from common.span import Value
from ingest.semconv.converse import is_block, typed
from ingest.semconv.converters import (
    array_of,
    as_inputs,
    as_text,
    elements_of,
    first_of,
    json_or_text,
    only_block,
    parsed_if_json,
    present,
    structured,
    unquoted,
    value_of,
    within,
)
from ingest.semconv.response_items import is_item, without_items
from ingest.semconv.rows import Converter, MappingError, Reason
from ingest.semconv.vocabulary import ROLES, finish_reason_named, role_named

Message = dict[str, Any]

_JSON: Final = "application/json"
_TEXT_PARTS: Final = frozenset({"text", "input_text", "output_text"})
_CALL_PARTS: Final = frozenset({"tool_call", "tool_use", "tool-call"})
_RESULT_PARTS: Final = frozenset({"tool_call_response", "tool_result", "tool-result"})
_REASONING_PARTS: Final = frozenset({"reasoning", "thinking"})
_KNOWN_PARTS: Final = _TEXT_PARTS | _CALL_PARTS | _RESULT_PARTS | _REASONING_PARTS
_WITHOUT_CONTENT: Final = frozenset({"role", "tool_call_id", "finish_reason"})
_INSTRUCTING: Final = frozenset({"system", "developer"})


def messages_of(sent: Value) -> list[Message]:
    """Return the messages of a list, an object with numbered members, or a list in JSON. Raises ``MappingError``."""
    messages: list[Message] = []
    elements = array_of(structured(sent), Reason.NOT_MESSAGES)
    for message in elements:
        plain = _plain(message)
        if plain is not None:
            messages.append(plain)
        elif isinstance(message, dict) and "type" in message and "role" not in message and is_item(message):
            return messages_of(without_items(elements))
        else:
            messages.extend(_messages(message))
    return messages


def _plain(sent: Value) -> Message | None:
    """Read the most common message, one text with a role; ``None`` for any other. Faster than ``_messages``."""
    if not isinstance(sent, dict):
        return None
    inner = sent["message"] if len(sent) == 1 and "message" in sent else sent
    if not isinstance(inner, dict):
        return None
    role, content = inner.get("role"), inner.get("content")
    if len(inner) != 2:
        is_result = len(inner) == 3 and role == "tool" and isinstance(content, str)
        call_id = inner.get("tool_call_id") if is_result else None
        return {"role": role, "content": content, "tool_call_id": call_id} if type(call_id) is str and call_id else None
    parts = inner.get("parts")
    if isinstance(parts, list) and len(parts) == 1 and isinstance(parts[0], dict) and len(parts[0]) == 2:
        content = parts[0].get("content") if parts[0].get("type") == "text" else None
    if not (role and isinstance(role, str) and isinstance(content, str)):
        return None
    named = ROLES.get(role)
    return None if named is None else {"role": named, "content": content}


def _messages(sent: Value) -> Iterable[Message]:
    """Return the message that was sent, and one for each tool result in it."""
    if not isinstance(sent, dict):
        raise MappingError(Reason.NOT_MESSAGES)
    inner = _unwrapped(sent)
    role = _role(inner, sent)
    gathered = _Gathered()
    gathered.add_content(_content(inner), is_result=role == "tool")
    gathered.add_calls(elements_of(inner.get("tool_calls")))
    message = gathered.message({} if role is None else {"role": role})
    call_id = inner.get("tool_call_id") or (inner.get("id") if role == "tool" else None)
    message |= _texts(tool_call_id=call_id, name=inner.get("name"))
    reason = as_text(inner.get("finish_reason") or sent.get("finish_reason") or "")
    if reason is not None:
        message["finish_reason"] = finish_reason_named(reason)
    if not gathered.results:
        return (message,)
    results = _one_for_each_call(gathered.results)
    is_more = any(key in message for key in ("content", "parts", "tool_calls"))
    if is_more and role == "tool" and len(results) == 1 and not gathered.calls:  # all parts are of the one call
        return (_of_one_call([*({"content": part.get("content")} for part in gathered.parts), *results]),)
    return (message, *results) if is_more else results


def _one_for_each_call(results: list[Message]) -> list[Message]:
    """Return one message for the results of each call: of the parts of one message, those with the same id."""
    if len(results) == 1:
        return results
    by_call: dict[Any, list[Message]] = {}
    for index, result in enumerate(results):
        call_id = result.get("tool_call_id")
        by_call.setdefault(call_id if isinstance(call_id, str | int | None) else (index,), []).append(result)
    return [same[0] if len(same) == 1 else _of_one_call(same) for same in by_call.values()]


def _of_one_call(results: list[Message]) -> Message:
    contents = [result.get("content") for result in results]
    message = {name: member for name, member in results[-1].items() if name != "content"}
    if all(isinstance(content, str) for content in contents):
        return message | {"parts": [{"type": "text", "content": content} for content in contents]}
    return message | {"content": contents}


def _role(inner: Message, sent: Message) -> str | None:
    """Return the role of a message, which LangChain says as its type. Raises ``MappingError``."""
    said = inner.get("role")
    if said:
        text = as_text(said)
        return None if text is None else ROLES.get(text) or role_named(text)
    return ROLES.get(str(inner.get("type", sent.get("type"))))


def _texts(**members: Value) -> dict[str, str]:
    """Return the members that are scalars, as texts. Raises ``MappingError``."""
    texts = {name: as_text(member) for name, member in members.items() if member is not None}
    return {name: text for name, text in texts.items() if text is not None}


def _unwrapped(sent: Message) -> Message:
    """Unwrap the message of OpenInference and of choices (``message``), or of LangChain (``data``, ``kwargs``)."""
    for wrapping in ("message",) if "role" in sent else ("message", "data", "kwargs"):
        inner = sent.get(wrapping)
        if isinstance(inner, dict):
            return inner
    return sent


def _content(inner: Message) -> Value:
    """Return the content of a message. Only parts may be numbered: a content may be an object that a tool returned."""
    for name in ("parts", "contents"):
        if name in inner:
            return elements_of(inner[name])
    return inner.get("content")


class _Gathered:
    """The content of a message: its parts, tool calls and tool results."""

    __slots__ = ("calls", "content", "parts", "results")

    def __init__(self) -> None:
        self.content: Value = None
        self.parts: list[dict[str, Any]] = []
        self.calls: list[dict[str, Any]] = []
        self.results: list[Message] = []

    def add_content(self, content: Value, *, is_result: bool) -> None:
        """Add a text, or parts. The result of a tool is not parsed."""
        if isinstance(content, list) and not (is_result and not _are_parts(content)):
            for part in content:
                self._add_part(part)
        else:
            self.content = within(content)

    def add_calls(self, calls: Value) -> None:
        """Add calls from outside the content. One that equals a call among the parts, with an id, is the same one."""
        if calls is None:
            return
        if not isinstance(calls, list):
            raise MappingError(Reason.NOT_MESSAGES)
        in_parts = {_identity(call) for call in self.calls if call.get("id")}
        for sent in calls:
            call = _call(sent)
            if not in_parts or _identity(call) not in in_parts:
                self.calls.append(call)

    def message(self, message: Message) -> Message:
        """Return ``message`` completed with the content."""
        if self.parts:
            is_text = len(self.parts) == 1 and self.parts[0].get("type") == "text" and len(self.parts[0]) == 2
            message |= {"content": self.parts[0]["content"]} if is_text else {"parts": self.parts}
        elif self.content is not None and not (self.content == "" and self.calls):
            message["content"] = self.content
        if self.calls:
            message["tool_calls"] = self.calls
        return message

    def _add_part(self, sent: Value) -> None:
        if isinstance(sent, str):
            self.parts.append({"type": "text", "content": sent})
            return
        if not isinstance(sent, dict):
            raise MappingError(Reason.NOT_MESSAGES)
        part = sent.get("message_content", sent)  # OpenInference wraps them
        if not isinstance(part, dict):
            raise MappingError(Reason.NOT_MESSAGES)
        if "type" not in part:
            part = typed(part)
        kind = str(part.get("type"))
        if kind in _TEXT_PARTS:
            self.parts.append({"type": "text", "content": first_of(part, "content", "text")})
        elif kind in _CALL_PARTS:
            self.calls.append(_call(sent if "message_content" in sent else part))
        elif kind in _RESULT_PARTS:
            self.results.append(_result(part))
        elif kind in _REASONING_PARTS:
            signature = {"signature": part["signature"]} if part.get("signature") else {}
            self.parts.append(
                {"type": "reasoning", "content": first_of(part, "content", "text", "thinking"), **signature}
            )
        else:
            self.parts.append(within(part))


def _are_parts(content: list[Any]) -> bool:
    return all(
        isinstance(part, dict) and ("type" in part or "message_content" in part or is_block(part)) for part in content
    )


def parts_in(value: Value) -> Value:
    """Return the parts that a text holds as JSON, where content can only be sent as text; any other value unchanged."""
    found = parsed_if_json(value)
    if not isinstance(found, list) or not _are_parts(found):
        return value
    return found if any(part.get("type") in _KNOWN_PARTS or is_block(part) for part in found) else value


def _identity(call: dict[str, Any]) -> bytes:
    return orjson.dumps([call.get("id"), call.get("name"), call.get("arguments")], option=orjson.OPT_SORT_KEYS)


def _call(sent: Value) -> dict[str, Any]:
    """Return a tool call: ``{id, name, arguments}`` as far as they were sent."""
    if not isinstance(sent, dict):
        raise MappingError(Reason.NOT_MESSAGES)
    call = sent.get("tool_call", sent)
    function = call.get("function", call) if isinstance(call, dict) else None
    if not isinstance(function, dict):
        raise MappingError(Reason.NOT_MESSAGES)
    return present(
        id=first_of(call, "id", "toolCallId"),
        name=first_of(function, "name", "toolName"),
        arguments=value_of(first_of(function, "arguments", "input", "args")),
    )


def _result(part: dict[str, Any]) -> Message:
    content = first_of(part, "response", "result", "content", "output")
    if isinstance(content, dict) and content.get("type") in ("json", "text") and "value" in content:
        content = content["value"]  # the AI SDK says how its value is to be read
    return present(
        role="tool",
        content=unquoted(within(only_block(content))),
        tool_call_id=first_of(part, "id", "tool_use_id", "toolCallId"),
        name=first_of(part, "name", "toolName"),
    )


# Converters to chats. A chat is under ``messages`` of the inputs or the outputs of a span.


def chat_of(sent: Value) -> dict[str, Any] | None:
    """Return a chat; ``None`` if no message has any content. Raises ``MappingError``."""
    messages = messages_of(sent)
    return {"messages": messages} if any(map(has_content, messages)) else None


def has_content(message: Message) -> bool:
    """Return whether a message says more than who wrote it and why it ends."""
    return not message.keys() <= _WITHOUT_CONTENT


def chat_with_instructions(sent: Value, instructions: Value) -> dict[str, Any] | None:
    """Return a chat after its instructions, which are a text or the parts of one message. Raises ``MappingError``."""
    chat = None if sent is None else chat_of(sent)
    if instructions is None:
        return chat
    parts = parsed_if_json(instructions)
    system = messages_of([{"role": "system", "parts": parts if isinstance(parts, list) else [parts]}])
    return {"messages": instructed(system, chat["messages"] if chat else [])}


def instructed(system: list[Message], messages: list[Message]) -> list[Message]:
    """Return messages after their instructions, without those that the messages show already."""
    shown = {text for message in messages if message.get("role") in _INSTRUCTING for text in _shown_texts(message)}
    return [*(message for message in system if not _is_shown(message, shown)), *messages]


def are_instructions(messages: list[Message]) -> bool:
    """Return whether all messages are instructions."""
    return all(message.get("role") in _INSTRUCTING for message in messages)


def _is_shown(message: Message, shown: set[str]) -> bool:
    texts = _shown_texts(message)
    return bool(texts) and shown.issuperset(texts)


def _shown_texts(message: Message) -> list[str]:
    texts = [message.get("content"), *(part.get("content") for part in message.get("parts", ()))]
    return [text for text in texts if isinstance(text, str)]


def without_answer(messages: list[Message]) -> tuple[list[Message], list[Message]]:
    """Return the messages that a model was given and, from the end of them, those that it said."""
    end = len(messages)
    while end and messages[end - 1].get("role") == "assistant":
        end -= 1
    return messages[:end], messages[end:]


def _spoken(value: Value) -> Value:
    """Return a value with its ``messages``, if they are messages, in our spelling. Any other value is unchanged."""
    if isinstance(value, dict) and isinstance(value.get("messages"), list):
        try:
            return {**value, "messages": messages_of(value["messages"])}
        except MappingError:
            return value
    return value


def _inputs_of_mime_type(value: Value, mime_type: Value) -> dict[str, Any] | None:
    if value is None:
        return None
    return json_or_text(value, _inputs) if mime_type == _JSON else _inputs(value)


def _inputs(value: Value) -> dict[str, Any]:
    return as_inputs(_spoken(value))


def _outputs_of_mime_type(value: Value, mime_type: Value) -> Value:
    return json_or_text(value, _spoken) if mime_type == _JSON else _spoken(value)


CHAT = Converter("messages", chat_of)
CHAT_WITH_INSTRUCTIONS = Converter("messages, beginning with the instructions", chat_with_instructions)
INPUTS_OF_MIME_TYPE = Converter(
    "depends on the MIME type: a JSON object as it is; other JSON and text as `value`",
    _inputs_of_mime_type,
    has_value_of_json=True,
)
OUTPUTS_OF_MIME_TYPE = Converter(
    "depends on the MIME type: JSON or text", _outputs_of_mime_type, has_value_of_json=True
)
