"""What the agents have in common: one log record is one step of their work, and becomes one span.

The ids of the span are hashes of what the record says it is, so a record that comes twice is the same span. Everything
else stays an attribute as it was sent: masking and the mapping to ``ag`` (``ingest/semconv``) come later, as for every
span. Ids are made of values as they were sent, so rules for masking never join or split traces.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Iterable, Sequence
from typing import Any, Final, NamedTuple, TypeAlias

import orjson

from common.json_values import number_in, scalar_text
from common.log_record import EVENT_NAME, LogRecord
from common.span import Attributes, Span, SpanKind, StatusCode

BODY: Final = "log.body"
SEVERITY_NUMBER: Final = "log.severity_number"
SEVERITY_TEXT: Final = "log.severity_text"
"""The attributes of a span with what the log record has besides its attributes."""

DURATION_MS_MAX: Final = 7 * 24 * 3_600_000
"""No step takes longer; a larger number is not read as a duration."""

_NS_IN_MS: Final = 1_000_000
_EVENT: Final = re.compile(r"[a-z][a-z0-9_.]{0,79}")
_PLACES: Final = {"body": f"attributes.{BODY}", "name": "span_name", "severity_text": f"attributes.{SEVERITY_TEXT}"}

Part: TypeAlias = str | int | None


class Step(NamedTuple):
    """What an agent says about one of its log records.

    ``trace`` and ``own`` are what identifies its trace, and it among the spans of the trace; ``own`` is empty for the
    root. ``has_root``: whether some record of the trace is its root, the parent of all others.
    """

    trace: tuple[Part, ...]
    own: tuple[Part, ...]
    has_root: bool
    is_model_call: bool
    is_failed: bool
    durations: Sequence[str]
    """The attributes with its duration in milliseconds, of which the first that is present counts."""


def event_of(log: LogRecord, agent: str) -> str | None:
    """Return the name of the event without the beginning ``<agent>.``; ``None`` if it is not one of this agent."""
    beginning = f"{agent}."
    for name in (log.attributes.get(EVENT_NAME), log.name, log.body):
        if isinstance(name, str) and name.startswith(beginning):
            event = name.removeprefix(beginning)
            if _EVENT.fullmatch(event):
                return event
    return None


def text_of(attributes: Attributes, *keys: str) -> str | None:
    """Return the first of these attributes that is a scalar and not empty, as text."""
    return next((text for key in keys if (text := scalar_text(attributes.get(key)))), None)


def span_of(log: LogRecord, agent: str, event: str, step: Step) -> Span:
    """Return the span of a log record."""
    trace_id = _digest((agent, "trace", *step.trace), 16)
    root_id = _digest((agent, "root", *step.trace), 8)
    is_root = not step.own
    span_id = root_id if is_root else _digest((agent, event, *step.trace, *step.own), 8)
    return Span(
        trace_id=trace_id,
        span_id=span_id + span_id,
        parent_id=root_id + root_id if step.has_root and not is_root else None,
        name=f"{agent}.{event}",
        kind=SpanKind.SPAN_KIND_CLIENT if step.is_model_call else SpanKind.SPAN_KIND_INTERNAL,
        start_ns=log.time_ns - _duration_ns(log.attributes, step.durations),
        end_ns=log.time_ns,
        status_code=StatusCode.STATUS_CODE_ERROR if step.is_failed else StatusCode.STATUS_CODE_UNSET,
        status_message=None,
        attributes=_attributes(log, agent, event),
        flags=log.flags,
        dropped_attributes_count=log.dropped_attributes_count,
        resource=log.resource,
        scope=log.scope,
        repaired=tuple(dict.fromkeys(map(_place, log.repaired))),
    )


def _digest(parts: Iterable[Part], size: int) -> bytes:
    return hashlib.sha256(orjson.dumps(list(parts))).digest()[:size]


def _duration_ns(attributes: Attributes, keys: Iterable[str]) -> int:
    sent = next((attributes[key] for key in keys if key in attributes), None)
    number: Any = number_in(sent) if isinstance(sent, str) else sent
    if isinstance(number, bool) or not isinstance(number, int | float) or not 0 <= number <= DURATION_MS_MAX:
        return 0
    return round(number * _NS_IN_MS)


def _attributes(log: LogRecord, agent: str, event: str) -> Attributes:
    attributes: Attributes = {f"{agent}.event": event}
    if log.body is not None and log.body != f"{agent}.{event}":
        attributes[BODY] = log.body
    if log.severity_number:
        attributes[SEVERITY_NUMBER] = log.severity_number
    if log.severity_text:
        attributes[SEVERITY_TEXT] = log.severity_text
    return {**attributes, **log.attributes, f"{agent}.event": event}


def _place(place: str) -> str:
    """Return the name in a span of a place that was repaired in a log record."""
    first, dot, rest = place.partition(".")
    return _PLACES.get(first, first) + dot + rest
