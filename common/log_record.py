"""A log record as it was sent, in whatever encoding: the result of the codecs of logs (contract §4.1).

Plain values, immutable, no I/O. Values, times and ids are as in ``common/span.py``.
"""

from __future__ import annotations

from typing import Final, NamedTuple

from common.span import NO_RESOURCE, NO_SCOPE, Attributes, Event, LogMembers, Resource, Scope, Value

EVENT_NAME: Final = "event.name"
"""The attribute with the name of the event, from before log records had a field for it."""

UNNAMED: Final = "log"
SEVERITY_MAX: Final = 24
"""The last of OTLP's severity numbers, of which 0 is none."""


class LogRecord(NamedTuple):
    """One log record as sent.

    ``trace_id`` and ``span_id`` are ``None`` if they are absent or all zeros. ``name`` is the name of the event, else
    the attribute ``event.name``, else ``log``. ``time_ns`` is the time, else the time at which it was observed.
    ``attributes`` stay flat, as sent. ``resource``, ``scope`` and ``repaired`` are as in ``Span``.
    """

    trace_id: bytes | None
    span_id: bytes | None
    name: str
    time_ns: int
    body: Value
    attributes: Attributes
    severity_number: int = 0
    severity_text: str = ""
    flags: int = 0
    dropped_attributes_count: int = 0
    resource: Resource = NO_RESOURCE
    scope: Scope = NO_SCOPE
    repaired: tuple[str, ...] = ()

    @property
    def names_span(self) -> bool:
        """Whether it belongs to a span."""
        return self.trace_id is not None and self.span_id is not None


def event_name_of(sent: str, attributes: Attributes) -> str:
    """Return the name of a log record, given its field and its attributes."""
    if sent:
        return sent
    name = attributes.get(EVENT_NAME)
    return name if isinstance(name, str) and name else UNNAMED


def event_of(log: LogRecord) -> Event:
    """Return a log record as an event of the span that it names."""
    members = LogMembers(log.body, log.severity_text, log.severity_number)
    return Event(log.name, log.time_ns, log.attributes, log.dropped_attributes_count, members)
