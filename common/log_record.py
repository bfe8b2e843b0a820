"""A log record as it was sent, in whatever encoding: the result of the codecs of logs (contract §4.1).

Plain values, immutable, no I/O. Values, times and ids are as in ``common/span.py``.
"""

from __future__ import annotations

import hashlib
import re
from typing import Final, NamedTuple

from common.span import NO_RESOURCE, NO_SCOPE, Attributes, Event, LogMembers, Resource, Scope, Value

EVENT_NAME: Final = "event.name"
"""The attribute with the name of the event, from before log records had a field for it."""

EVALUATION: Final = "gen_ai.evaluation.result"
RESPONSE_ID: Final = "gen_ai.response.id"

_RESPONSE_ID: Final = re.compile(r"[\x20-\x7e]*[0-9A-Za-z][\x20-\x7e]*")
"""Printable ASCII with a letter or digit: spans are looked up by the longest word of the id of their response."""

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

    @property
    def about(self) -> tuple[bytes, bytes] | None:
        """The trace id and span id of the span that it is about; ``response_name`` if it is an evaluation of a response
        and names no span.
        """
        if self.trace_id is not None and self.span_id is not None:
            return self.trace_id, self.span_id
        if EVALUATION not in (self.name, self.attributes.get(EVENT_NAME)):
            return None
        response_id = self.attributes.get(RESPONSE_ID)
        if not isinstance(response_id, str) or not _RESPONSE_ID.fullmatch(response_id):
            return None
        return response_name(response_id)


def response_name(response_id: str) -> tuple[bytes, bytes]:
    """Return the trace id and span id under which evaluations of a response wait for its span."""
    return hashlib.blake2b(response_id.encode(), digest_size=16).digest(), bytes(16)


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
