"""JSON texts of a span: its members as responses contain them, and what only names with dots lead to in them.

The latter are the columns ``resource_by_key``, ``scope_by_key`` and ``attributes_by_key`` of the table ``spans``, and
empty for nearly every span. They have values by the key that finds them (``common/paths.py``). The engine's JSON
functions take a path as arguments, one for each name, so they cannot try where the names of a key end; here one
argument leads to a value. A key that only begins others has null: it exists. Of ``attributes`` there are objects and
arrays alone, since ``leaves`` has the scalars, and says which keys begin others.
"""

from __future__ import annotations

import re
from collections import deque
from collections.abc import Iterator, Sequence
from typing import Any, Final

import orjson

from common.ids import span_id_hex, trace_id_hex
from common.paths import Located, located
from common.score import Score
from common.span import LOG_SOURCE, Event, Link, LogMembers, Resource, Scope
from common.times import format_us

BY_KEY_BYTES_MAX: Final = 256 * 1024
"""Of a text of values by key. The values nearest to the root are in it first."""

_NAME_WITH_DOT: Final = re.compile(rb'"[^"]*\.(?:[^"\\]|\\.)*":', re.DOTALL)


def events_json(events: Sequence[Event]) -> bytes:
    """Return the member ``events`` as JSON text; empty if the span has none."""
    return orjson.dumps(list(map(event_members, events))) if events else b""


def links_json(links: Sequence[Link] | None) -> bytes:
    """Return the member ``links`` as JSON text; empty if it was absent."""
    return b"" if links is None else orjson.dumps(list(map(_link, links)))


def event_members(event: Event) -> dict[str, Any]:
    """Return an event as responses show it."""
    return {
        "name": event.name,
        "timestamp": format_us(event.time_ns // 1000),
        "time_unix_nano": str(event.time_ns),
        **_present(attributes=event.attributes, dropped_attributes_count=event.dropped_attributes_count),
        **({} if event.log is None else _log_members(event.log)),
    }


def _log_members(log: LogMembers) -> dict[str, Any]:
    severity = _present(severity_text=log.severity_text, severity_number=log.severity_number)
    return {**({} if log.body is None else {"body": log.body}), **severity, "source": LOG_SOURCE}


def _link(link: Link) -> dict[str, Any]:
    return {
        "trace_id": trace_id_hex(link.trace_id),
        "span_id": span_id_hex(link.span_id),
        **_present(
            attributes=link.attributes,
            trace_state=link.trace_state,
            flags=link.flags,
            dropped_attributes_count=link.dropped_attributes_count,
        ),
    }


def scores_json(scores: Sequence[Score]) -> bytes:
    """Return the member ``scores`` as JSON text; empty if the span has none."""
    return orjson.dumps(list(map(_score, scores))) if scores else b""


def _score(score: Score) -> dict[str, Any]:
    kind, trace_id, span_id, evaluator = score.source
    members = {"value": score.value, "label": score.label, "explanation": score.explanation}
    source = {
        "trace_id": trace_id and trace_id_hex(trace_id),
        "span_id": span_id and span_id_hex(span_id),
        "evaluator": evaluator,
    }
    return {
        "name": score.name,
        **_not_null(members),
        "source": {"kind": kind, **_not_null(source)},
        "at": format_us(score.at_ns // 1000),
    }


def _not_null(members: dict[str, Any]) -> dict[str, Any]:
    return {name: member for name, member in members.items() if member is not None}


def source_json(source: Resource | Scope) -> bytes:
    """Return a resource or scope as JSON text; empty if it says nothing. What was repaired is a member of its spans."""
    members = _present(**source._replace(repaired=())._asdict())
    return orjson.dumps(members) if members else b""


def repaired_json(places: Sequence[str]) -> bytes:
    """Return the member ``repaired`` as JSON text; empty if nothing was repaired."""
    return orjson.dumps(places) if places else b""


def _present(**members: Any) -> dict[str, Any]:
    """Return the members that are neither empty nor zero: the others are absent from responses."""
    return {name: member for name, member in members.items() if member}


def source_values(text: bytes) -> bytes:
    """Return the values by key of a resource or scope, given as JSON text."""
    if _NAME_WITH_DOT.search(text) is None:
        return b""
    document = orjson.loads(text)
    values = dict(_values_by_key(document))
    for key in list(values):
        segments = key.split(".")
        for count in range(1, len(segments)):
            if located(document, tuple(segments[:count])) is None:
                values[".".join(segments[:count])] = None
    return _bounded_json(values)


def attribute_values(nested: dict[str, Any]) -> bytes:
    """Return the objects and arrays by key of nested attributes."""
    return _bounded_json({key: value for key, value in _values_by_key(nested) if isinstance(value, dict | list)})


def _values_by_key(document: dict[str, Any]) -> Iterator[tuple[str, Any]]:
    """Yield each value below a name with a dot with the key that finds it, those nearest to the root first."""
    waiting = deque([Located((), document)])
    while waiting:
        names, value = waiting.popleft()
        members = value.items() if isinstance(value, dict) else ((str(at), each) for at, each in enumerate(value))
        for name, member in members:
            inner = Located((*names, name), member)
            if isinstance(member, dict | list):
                waiting.append(inner)
            if member is not None and any("." in each for each in inner.names):
                key = ".".join(inner.names)
                found = located(document, tuple(key.split(".")))
                if found is not None and found.names == inner.names:
                    yield key, member


def _bounded_json(values: dict[str, Any]) -> bytes:
    size = 0
    parts = []
    for key, value in values.items():
        part = orjson.dumps(key) + b":" + orjson.dumps(value)
        size += len(part)
        if size > BY_KEY_BYTES_MAX:
            break
        parts.append(part)
    return b"{" + b",".join(parts) + b"}" if parts else b""
