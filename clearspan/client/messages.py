"""The conversation of a trace: the inputs and outputs of its model calls, each message once."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Final, NamedTuple

from rich.text import Text

from clearspan.client.connection import ApiClient
from clearspan.client.output import console, note, print_objects, safe
from clearspan.client.requests import pages
from clearspan.client.span_values import Span, cost_text, duration_ms, duration_text, is_error, value_of
from clearspan.console import NOTHING_FOUND
from common.printable import printable

CHARACTERS_MAX: Final = 2_000
"""Characters of a text that are shown, unless all of it is."""

MODEL_CALLS: Final = ("llm", "chat", "completion", "embedding", "rerank")
"""The types of spans that are model calls."""

_INPUTS: Final = "ag.data.inputs.messages"
_OUTPUTS: Final = "ag.data.outputs.messages"
_STYLES: Final = {"system": "magenta", "user": "green", "assistant": "cyan", "tool": "yellow"}


class Turn(NamedTuple):
    """A message, and whether the model got it (``input``) or returned it (``output``)."""

    side: str
    message: Mapping[str, Any]


async def print_conversation(api: ApiClient, trace_id: str, *, limit: int, is_full: bool, as_json: bool) -> int:
    """Print the messages of the first ``limit`` model calls of a trace; return 3 if there are none.

    If no model call has messages, those of other spans are printed.
    """
    conversation = _Conversation(is_full=is_full, as_json=as_json)
    is_model_call = {"field": "span_type", "operator": "in", "value": MODEL_CALLS}
    for conditions in ([is_model_call], []):
        query = _query(trace_id, conditions)
        async for page in pages(api, "/spans/query", query, member="spans", limit=limit):
            for span in page:
                conversation.print_call(span)
        if conversation.calls_count:
            return 0
    note("No span of this trace has messages.")
    return NOTHING_FOUND


class _Conversation:
    """Prints model calls, each with the messages that no earlier call has shown."""

    def __init__(self, *, is_full: bool, as_json: bool) -> None:
        self._is_full = is_full
        self._as_json = as_json
        self._earlier: list[list[str]] = []

    @property
    def calls_count(self) -> int:
        """How many calls were printed."""
        return len(self._earlier)

    def print_call(self, span: Span) -> None:
        """Print the messages of a model call."""
        turns = list(turns_of(span))
        keys = [message_key(turn.message) for turn in turns]
        repeated = _repeated(keys, self._earlier)
        self._earlier.append(keys)
        if self._as_json:
            named = {"span_id": span["span_id"], "span_name": span.get("span_name")}
            print_objects({**named, "side": turn.side, "message": turn.message} for turn in turns[repeated:])
        else:
            _print_call(span, turns, repeated, is_full=self._is_full)


def turns_of(span: Span) -> Iterator[Turn]:
    """Yield the messages of a model call, its inputs first."""
    for side, path in (("input", _INPUTS), ("output", _OUTPUTS)):
        messages = value_of(span, f"attributes.{path}")
        for message in messages if isinstance(messages, list) else ():
            if isinstance(message, Mapping):
                yield Turn(side, message)


def _query(trace_id: str, conditions: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    has_messages = [{"field": "attributes", "key": path, "operator": "exists"} for path in (_INPUTS, _OUTPUTS)]
    of_trace = [{"field": "trace_id", "value": trace_id}, {"operator": "or", "conditions": has_messages}]
    return {"filtering": {"conditions": [*of_trace, *conditions]}, "windowing": {"order": "ascending"}}


def message_key(message: Mapping[str, Any]) -> str:
    """Return what makes a message the same when a later call is sent it again."""
    calls = [(_call_name(call), _call_arguments(call)) for call in _list(message.get("tool_calls"))]
    return json.dumps([message.get("role"), message.get("content"), calls], sort_keys=True)


def _repeated(keys: Sequence[str], earlier: Sequence[Sequence[str]]) -> int:
    """Return how many messages an earlier call has already shown: the longest common beginning with one of them."""
    longest = 0
    for other in earlier:
        common = next((place for place, (one, two) in enumerate(zip(keys, other, strict=False)) if one != two), None)
        longest = max(longest, min(len(keys), len(other)) if common is None else common)
    return longest


def _print_call(span: Span, turns: Sequence[Turn], repeated: int, *, is_full: bool) -> None:
    out = console()
    tokens = value_of(span, "tokens")
    parts = [
        safe(f"{'✗ ' if is_error(span) else ''}{span.get('span_name')}", "bold red" if is_error(span) else "bold"),
        safe(value_of(span, "model")),
        Text(duration_text(duration_ms(span))),
        safe(f"{tokens} tokens" if tokens is not None else None),
        Text(cost_text(value_of(span, "cost"))),
        safe(span.get("span_id"), "dim"),
    ]
    out.print(Text("   ").join(part for part in parts if part.plain), soft_wrap=True)
    if repeated:
        _print_indented(2, Text(f"… {repeated} messages as before", "dim"))
    for turn in turns[repeated:]:
        _print_message(turn, is_full=is_full)
    out.print()


def _print_message(turn: Turn, *, is_full: bool) -> None:
    message = turn.message
    role = str(message.get("role") or ("user" if turn.side == "input" else "assistant"))
    name = message.get("name")
    _print_indented(2, safe(role if name is None else f"{role} {name}", _STYLES.get(role, "blue")))
    for style, text in _texts(message):
        shown = text if is_full else text[:CHARACTERS_MAX]
        _print_indented(4, Text(printable(shown, keep="\n\t"), style))
        if len(shown) < len(text):
            _print_indented(4, Text(f"… {len(text) - len(shown):,} more characters; --full shows them", "dim"))


def _print_indented(columns: int, text: Text) -> None:
    out = console()
    for line in text.split("\n", allow_blank=True):
        out.print(Text(" " * columns) + line, soft_wrap=True)


def _texts(message: Mapping[str, Any]) -> Iterator[tuple[str, str]]:
    """Yield the texts of a message with their styles: reasoning, content, tool calls."""
    if message.get("reasoning"):
        yield "dim italic", str(message["reasoning"])
    content = message.get("content")
    for part in content if isinstance(content, list) else [content]:
        if part not in (None, ""):
            yield "", _part_text(part)
    for call in _list(message.get("tool_calls")):
        yield "yellow", f"calls {_call_name(call)} {_call_arguments(call)}"


def _part_text(part: Any) -> str:
    if isinstance(part, Mapping) and isinstance(part.get("text", part.get("content")), str):
        return str(part.get("text", part.get("content")))
    return part if isinstance(part, str) else json.dumps(part, ensure_ascii=False)


def _call_name(call: Any) -> str:
    function = call.get("function") if isinstance(call, Mapping) else None
    named = function if isinstance(function, Mapping) else call
    return str(named.get("name", "tool")) if isinstance(named, Mapping) else "tool"


def _call_arguments(call: Any) -> str:
    function = call.get("function") if isinstance(call, Mapping) else None
    named = function if isinstance(function, Mapping) else call
    sent = named.get("arguments") if isinstance(named, Mapping) else None
    return sent if isinstance(sent, str) else "" if sent is None else json.dumps(sent, ensure_ascii=False)


def _list(value: Any) -> list[Any]:
    return value if isinstance(value, list) else []
