"""Converters that return messages, one for each way to send a chat (the shape of a message: ``messages.py``).

A chat is under ``messages`` of the inputs or the outputs of a span. The input is never changed.
"""

from __future__ import annotations

from typing import Any

from common.span import Value
from ingest.semconv.converters import as_inputs, as_object, of_mime_type, parsed_if_json, structured
from ingest.semconv.messages import messages_of
from ingest.semconv.rows import Converter, MappingError, Reason


def _chat(sent: Value) -> dict[str, Any] | None:
    """Return a chat; ``None`` if no message has any content."""
    messages = messages_of(sent)
    return {"messages": messages} if any(name != "role" for message in messages for name in message) else None


def _chat_with_instructions(sent: Value, instructions: Value) -> dict[str, Any] | None:
    """Return a chat after its instructions, which are a text or the parts of one message."""
    chat = None if sent is None else _chat(sent)
    if instructions is None:
        return chat
    parts = parsed_if_json(instructions)
    system = messages_of([{"role": "system", "parts": parts if isinstance(parts, list) else [parts]}])
    return {"messages": [*system, *(chat["messages"] if chat else ())]}


def _prompts(sent: Value) -> dict[str, Any] | None:
    """Return numbered prompts: a chat, or, without roles, the texts that were embedded or completed."""
    messages = messages_of(sent)
    if messages and not any("role" in message for message in messages):
        return {"value": [message.get("content") for message in messages]}
    return {"messages": messages} if messages else None


def _spoken(value: Value) -> Value:
    """Return a value with its ``messages``, if they are messages, in our spelling. Any other value is unchanged."""
    if isinstance(value, dict) and isinstance(value.get("messages"), list):
        try:
            return {**value, "messages": messages_of(value["messages"])}
        except MappingError:
            return value
    return value


def _inputs_of_mime_type(value: Value, mime_type: Value) -> dict[str, Any] | None:
    return None if value is None else as_inputs(_spoken(of_mime_type(value, mime_type)))


def _outputs_of_mime_type(value: Value, mime_type: Value) -> Value:
    return _spoken(of_mime_type(value, mime_type))


def _vercel_prompt(value: Value) -> dict[str, Any]:
    """Return ``{system?, prompt | messages}`` as one chat."""
    prompt = as_object(value)
    said = prompt.get("messages", prompt.get("prompt"))
    if isinstance(said, str):
        said = [{"role": "user", "content": said}]
    system = [{"role": "system", "content": prompt["system"]}] if isinstance(prompt.get("system"), str) else []
    return {"messages": [*system, *messages_of(said)]}


def _vercel_answer(text: Value, calls: Value, instead: Value) -> dict[str, Any] | None:
    """Return one message from a text and tool calls in separate attributes; ``instead``: JSON that was requested.

    Structured calls may hold results of tools; each of these becomes a message, as everywhere.
    """
    said = {"role": "assistant", "content": instead if text is None else text}
    try:
        sent = None if calls is None else structured(calls)
    except MappingError as mapping_error:  # cut off, for example by a limit of the sender: keep the text
        raise MappingError(mapping_error.reason, found=_chat([said]) if said["content"] else None) from mapping_error
    return _chat([{**said, "tool_calls": sent}])


def _whole_conversation(sent: Value, instructions: Value) -> dict[str, Any]:
    """Split an agent's run: messages up to the user's last one are inputs, all messages are internals."""
    chat = _chat_with_instructions(sent, instructions)
    messages = chat["messages"] if chat else []
    last = max((at for at, message in enumerate(messages) if message.get("role") == "user"), default=len(messages) - 1)
    return {"inputs": {"messages": messages[: last + 1]}, "internals": {"messages": messages}}


def _events(sent: Value) -> dict[str, Any]:
    """Return messages that came as a list of events: ``gen_ai.choice`` is the output."""
    events = structured(sent)
    if not isinstance(events, list) or not all(isinstance(event, dict) for event in events):
        raise MappingError(Reason.NOT_MESSAGES)
    choices = [event for event in events if event.get("event.name") == "gen_ai.choice"]
    data: dict[str, Any] = {
        "inputs": {"messages": messages_of([event for event in events if event.get("event.name") != "gen_ai.choice"])}
    }
    if choices:
        data["outputs"] = {"messages": messages_of(choices)}
    return data


CHAT = Converter("messages", _chat)
CHAT_WITH_INSTRUCTIONS = Converter("messages, beginning with the instructions", _chat_with_instructions)
PROMPTS = Converter("messages; texts without a role as `value`", _prompts)
EVENTS = Converter("messages; those of `gen_ai.choice` become outputs", _events)
WHOLE_CONVERSATION = Converter(
    "messages: all become internals, those up to the last user message become inputs", _whole_conversation
)
INPUTS_OF_MIME_TYPE = Converter(
    "depends on the MIME type: a JSON object as it is; other JSON and text as `value`", _inputs_of_mime_type
)
OUTPUTS_OF_MIME_TYPE = Converter("depends on the MIME type: JSON or text", _outputs_of_mime_type)
VERCEL_PROMPT = Converter("messages", _vercel_prompt)
VERCEL_ANSWER = Converter("one message", _vercel_answer)
