"""Pydantic AI and Logfire: attributes outside the GenAI conventions. Keys without a prefix count only next to prefixed
ones.
"""

from __future__ import annotations

from typing import Any, Final

from common.span import Value
from ingest.semconv import converters as to
from ingest.semconv.messages import Message, chat_with_instructions, messages_of, without_answer
from ingest.semconv.rows import Convention, Converter, MappingError, Reason, Row
from ingest.semconv.tools import tools_offered

_SAME_SPAN = r"logfire\.|gen_ai\.|pydantic_ai\."
_RESPONSE = r"gen_ai\.response\.|gen_ai\.usage\.output_tokens"
_OLD = "1"


def _whole_conversation(sent: Value, instructions: Value) -> dict[str, Any]:
    """Split an agent's run: messages up to the user's last one are inputs, all messages are internals."""
    chat = chat_with_instructions(sent, instructions)
    messages = chat["messages"] if chat else []
    last = max((at for at, message in enumerate(messages) if message.get("role") == "user"), default=len(messages) - 1)
    return {"inputs": {"messages": messages[: last + 1]}, "internals": {"messages": messages}}


def _events(sent: Value) -> dict[str, Any]:
    """Return messages that came as a list of events: ``gen_ai.choice`` is the output."""
    inputs, choices = _said_in(sent)
    return {"inputs": {"messages": inputs}, **({"outputs": {"messages": choices}} if choices else {})}


def _events_of_response(sent: Value) -> dict[str, Any]:
    """Return the same of a call that was answered: without ``gen_ai.choice`` its last messages are the answer."""
    inputs, choices = _said_in(sent)
    if not choices:
        inputs, choices = without_answer(inputs)
    return {"inputs": {"messages": inputs}, **({"outputs": {"messages": choices}} if choices else {})}


def _said_in(sent: Value) -> tuple[list[Message], list[Message]]:
    """Return the messages of a list of events, and those that are choices."""
    events = to.structured(sent)
    if not isinstance(events, list) or not all(isinstance(event, dict) for event in events):
        raise MappingError(Reason.NOT_MESSAGES)
    choices = [event for event in events if event.get("event.name") == "gen_ai.choice"]
    return messages_of([event for event in events if event.get("event.name") != "gen_ai.choice"]), messages_of(choices)


def _tools_of_request(sent: Value) -> list[dict[str, Any]] | None:
    """Return the tools in Pydantic AI's request parameters: the functions, then the output tools."""
    request = to.as_object(sent)
    lists = [found for name in ("function_tools", "output_tools") if isinstance(found := request.get(name), list)]
    return tools_offered([tool for found in lists for tool in found])


_EVENTS = Converter("messages; those of `gen_ai.choice` become outputs", _events)
_EVENTS_OF_RESPONSE = Converter(
    "messages; those of `gen_ai.choice`, else the assistant's at the end, become outputs", _events_of_response
)
_WHOLE_CONVERSATION = Converter(
    "messages: all become internals, those up to the last user message become inputs", _whole_conversation
)
_TOOLS_OF_REQUEST = Converter("tools: type, name, description, parameters", to.remembered(_tools_of_request))

PYDANTIC_AI: Final = Convention(
    "pydantic-ai",
    "Pydantic AI",
    (
        Row("agent_name", "type.span", to.always("agent"), requires=_SAME_SPAN, unless=r"gen_ai\.operation\.name"),
        Row("model_name", "meta.request.model", to.TEXT, requires=_SAME_SPAN),
        Row("events", "data.*", _EVENTS, generations=_OLD, requires=_SAME_SPAN, unless=_RESPONSE),
        Row("events", "data.*", _EVENTS_OF_RESPONSE, generations=_OLD, requires=_RESPONSE),
        Row(
            ("all_messages_events", "gen_ai.system_instructions"),
            "data.*",
            _WHOLE_CONVERSATION,
            generations=_OLD,
            requires=r"all_messages_events",
        ),
        Row(
            ("pydantic_ai.all_messages", "gen_ai.system_instructions"),
            "data.*",
            _WHOLE_CONVERSATION,
            generations="2",
            requires=r"pydantic_ai\.all_messages",
        ),
        Row("final_result", "data.outputs", to.OUTPUTS, requires=_SAME_SPAN),
        Row("tool_arguments", "data.inputs", to.INPUTS, generations=_OLD, requires=_SAME_SPAN),
        Row("tool_response", "data.outputs", to.RESULT, generations=_OLD, requires=_SAME_SPAN),
        Row(
            "model_request_parameters",
            "data.parameters.tools",
            _TOOLS_OF_REQUEST,
            generations=_OLD,
            requires=_SAME_SPAN,
            unless=r"gen_ai\.tool\.definitions",
        ),
        Row("operation.cost", "metrics.costs.incremental.total", to.AMOUNT),
    ),
)
