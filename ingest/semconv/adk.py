"""Google's Agent Development Kit 1: the request and the response of a model call as JSON, in words of Gemini's API."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, Final

from common.span import Value
from ingest.semconv import converters as to
from ingest.semconv.messages import messages_of
from ingest.semconv.rows import Convention, Converter, Row
from ingest.semconv.tools import tools_offered

_PREFIX: Final = "gcp.vertex.agent."
_NO_SETTINGS: Final = frozenset({"http_options", "system_instruction", "tools", "labels"})


def _object(members: Value, name: str) -> dict[str, Any]:
    inner = members.get(name) if isinstance(members, dict) else None
    return inner if isinstance(inner, dict) else {}


def _is_object(value: Value) -> bool:
    return isinstance(value, dict)


def _list(members: dict[str, Any], name: str) -> list[Any]:
    inner = members.get(name)
    return inner if isinstance(inner, list) else []


def _request(sent: Value) -> dict[str, Any]:
    """Return the inputs and the parameters of a request: its instructions and contents as messages, its tools."""
    request = to.as_object(sent)
    config = _object(request, "config")
    instructions = config.get("system_instruction")
    system = [{"role": "system", **_said(instructions)}] if instructions else []
    messages = messages_of([*system, *map(_message, filter(_is_object, _list(request, "contents")))])
    tools = tools_offered(list(_declared(_list(config, "tools"))))
    return to.present(
        inputs={"messages": messages} if messages else None, parameters={"tools": tools} if tools else None
    )


def _outputs(sent: Value) -> dict[str, Any] | None:
    """Return the one message of a response."""
    response = to.as_object(sent)
    content = response.get("content")
    if not isinstance(content, dict):
        return None
    message = {"role": "model", **_message(content), "finish_reason": response.get("finish_reason")}
    return {"messages": messages_of([message])}


def _said(content: Value) -> dict[str, Any]:
    """Return the text or the parts of instructions, which may be a whole content."""
    if isinstance(content, dict):
        return {"parts": list(map(_part, _list(content, "parts")))}
    return {"parts": list(map(_part, content))} if isinstance(content, list) else {"content": content}


def _message(content: dict[str, Any]) -> dict[str, Any]:
    role = {"role": content["role"]} if content.get("role") else {}
    return {**role, "parts": list(map(_part, _list(content, "parts")))}


def _part(part: Value) -> Value:
    """Return a part in the spelling of ``messages.py``: Gemini's parts are known by their one member."""
    if not isinstance(part, dict):
        return part
    call, result = part.get("function_call"), part.get("function_response")
    if isinstance(call, dict):
        return {"type": "tool_call", **to.present(id=call.get("id"), name=call.get("name"), arguments=call.get("args"))}
    if isinstance(result, dict):
        known = to.present(id=result.get("id"), name=result.get("name"))
        return {"type": "tool_call_response", **known, "response": result.get("response")}
    if isinstance(part.get("text"), str):
        return {"type": "reasoning" if part.get("thought") else "text", "content": part["text"]}
    return {"type": next(iter(part), None), **part}


def _declared(tools: Iterable[Any]) -> Iterable[Any]:
    for tool in tools:
        yield from (
            {"type": "function", **function}
            for function in (_list(tool, "function_declarations") if isinstance(tool, dict) else ())
            if isinstance(function, dict)
        )


def _settings(sent: Value) -> dict[str, Any]:
    config = _object(to.as_object(sent), "config")
    found: dict[str, Any] = to.SETTINGS.read(
        {name: member for name, member in config.items() if name not in _NO_SETTINGS}
    )
    return found


def _usage(sent: Value) -> dict[str, int]:
    """Return the tokens that only the response has: from the cache, and of reasoning."""
    usage = _object(to.as_object(sent), "usage_metadata")
    counts = {"cached": usage.get("cached_content_token_count"), "reasoning": usage.get("thoughts_token_count")}
    return {name: count for name, count in counts.items() if type(count) is int and count >= 0}


_REQUEST = Converter("inputs: messages, beginning with the instructions; parameters: the tools", _request)
_OUTPUTS = Converter("one message", _outputs)
_SETTINGS = Converter("the settings under their normalized names", _settings)
_USAGE = Converter("the tokens of the cache and of reasoning", _usage)
_INVOCATION = Converter("as `invocation_id`", lambda value: to.present(invocation_id=to.as_text(value)))

ADK: Final = Convention(
    "adk",
    "Google ADK 1",
    (
        Row(_PREFIX + "llm_request", "data.*", _REQUEST),
        Row(_PREFIX + "llm_request", "meta.request.*", _SETTINGS),
        Row(_PREFIX + "llm_response", "data.outputs", _OUTPUTS),
        Row(_PREFIX + "llm_response", "metrics.tokens.incremental.*", _USAGE),
        Row(_PREFIX + "tool_call_args", "data.inputs", to.INPUTS),
        Row(_PREFIX + "tool_response", "data.outputs", to.OUTPUTS),
        Row(_PREFIX + "data", "data.inputs", to.INPUTS, note="what a live agent was sent"),
        Row(_PREFIX + "session_id", "session.id", to.TEXT),
        Row(_PREFIX + "invocation_id", "meta.*", _INVOCATION),
    ),
)
