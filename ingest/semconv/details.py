"""Attributes of a model call that came in an event of its span instead.

OpenTelemetry's GenAI conventions put content on spans, into an event with the same attributes, or both (1.37 and later;
Python calls these ``SPAN_ONLY``, ``EVENT_ONLY`` and ``SPAN_AND_EVENT``). What they mean is the same, so ``ag`` is
derived from both together (``ingest/normalize.py``). Pure.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import Final

from common.span import Attributes, Event, Value
from ingest.semconv.converters import is_json_text, parsed_if_json
from ingest.semconv.engine import flattened

DETAILS_EVENT: Final = "gen_ai.client.inference.operation.details"

_AG: Final = "ag"
_CLOSED: Final = ("]", "}")
_MESSAGES: Final = frozenset({"gen_ai.input.messages", "gen_ai.output.messages"})


def with_details(sent: Attributes, events: Iterable[Event]) -> Attributes:
    """Return the attributes of a span, and those in its events of details that it does not have itself.

    Of one key the span's value counts, else that of the first event; but the messages of several events are put
    together, because Strands sends some as they come. A JSON text that a limit on lengths cut off counts only if no
    other value is whole. Returns ``sent`` itself if the events add nothing; never changes it.
    """
    said: dict[str, list[Value]] = {}
    for key, value in _attributes_of(events):
        own = sent.get(key)
        if own is None or _is_cut_off(own):
            said.setdefault(key, [] if own is None else [own]).append(value)
    return {**sent, **{key: _one_of(key, values) for key, values in said.items()}} if said else sent


def _attributes_of(events: Iterable[Event]) -> Iterator[tuple[str, Value]]:
    for event in events:
        if event.name == DETAILS_EVENT:
            for key, value in flattened(event.attributes).items():
                if value is not None and key != _AG:
                    yield key, value


def _one_of(key: str, values: Sequence[Value]) -> Value:
    whole = [value for value in values if not _is_cut_off(value)] or values
    return _united(whole) if key in _MESSAGES and len(whole) > 1 else whole[0]


def _united(values: Sequence[Value]) -> Value:
    """Return the messages of several events in their order. What repeats the first or the last ones adds nothing."""
    messages: list[Value] = []
    for sent in map(parsed_if_json, values):
        if not isinstance(sent, list) or sent in (messages[: len(sent)], messages[-len(sent) :]):
            continue
        if sent[: len(messages)] == messages:
            messages = list(sent)
        else:
            messages.extend(sent)
    return messages or values[0]


def _is_cut_off(value: Value) -> bool:
    return is_json_text(value) and not value.rstrip().endswith(_CLOSED)
