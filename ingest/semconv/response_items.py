"""Items of OpenAI's Responses API as messages: its lists mix messages with calls of tools, results and reasoning.

The items of one answer become one message of the assistant, in their order; the result of a tool is a message of its
own. Nothing that is read is changed.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final

from ingest.semconv.converters import first_of

_CALLS: Final = frozenset({"function_call", "custom_tool_call"})
_RESULTS: Final = frozenset({"function_call_output", "custom_tool_call_output"})
_REASONING: Final = "reasoning"
_PROVIDERS_CALL: Final = "_call"
"""The end of the type of a call that the provider runs itself: ``web_search_call``, ``file_search_call`` …"""


def is_item(sent: Any) -> bool:
    """Return whether this is an item that is not a message."""
    if not isinstance(sent, dict) or "role" in sent:
        return False
    kind = sent.get("type")
    return isinstance(kind, str) and (kind in _RESULTS or kind == _REASONING or _is_call(sent, kind))


def _is_call(sent: dict[str, Any], kind: str) -> bool:
    if kind in _CALLS:
        return "call_id" in sent
    return kind.endswith(_PROVIDERS_CALL) and kind != "tool_call" and "id" in sent


def without_items(sent: Sequence[Any]) -> list[Any]:
    """Return the list with messages instead of items, which are part of the answer next to them."""
    messages: list[Any] = []
    answer: list[Any] | None = None
    for element in sent:
        parts = _parts(element)
        if parts is None:
            messages.append(_result(element) if is_item(element) else element)
            answer = None
            continue
        if answer is None:
            answer = []
            messages.append({"role": "assistant", "content": answer})
        answer += parts
    return messages


def _parts(element: Any) -> list[Any] | None:
    """Return what an element adds to an answer; ``None`` if it is not part of one."""
    if not isinstance(element, dict):
        return None
    kind = element.get("type")
    if kind == "message" and element.get("role") == "assistant":
        return _parts_of_text(element.get("content"))
    if not is_item(element) or kind in _RESULTS:
        return None
    if kind == _REASONING:
        texts = _parts_of_text(element.get("summary") or element.get("content"))
        return [{"type": "reasoning", "content": part.get("text")} for part in texts if isinstance(part, dict)]
    if kind in _CALLS:
        arguments = first_of(element, "arguments", "input")
        call = {"id": element["call_id"], "name": element.get("name"), "arguments": arguments}
        return [{"type": "tool_call", **call}]
    return [element]


def _parts_of_text(content: Any) -> list[Any]:
    if isinstance(content, list):
        return content
    return [] if content is None else [{"type": "text", "text": content}]


def _result(element: dict[str, Any]) -> dict[str, Any]:
    return {"role": "tool", "tool_call_id": element.get("call_id"), "content": element.get("output")}
