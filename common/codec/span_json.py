"""``span_json``: one span object, or ``{"spans": […]}``, in the shape that ``/spans/query`` returns (contract §4).

Every member of a response is used when the span is published again; what the server derives (``trace_type``,
``span_type``, ``created_at`` and the like) is derived again. Source: reference §2, §2.1, §4.2, and contract §4 for the
further members. A record that the parser rejects as a whole is cut span by span (``json_cut``), and a span that it
rejects is read leniently (``json_lenient``).
"""

from __future__ import annotations

import re
from collections.abc import Callable
from functools import partial
from typing import Any, Final, TypeVar
from uuid import UUID

import orjson

from common.codec.checks import (
    Bounds,
    at_key,
    bounds_of,
    check_record_size,
    check_times,
    invalid_type,
    json_double,
)
from common.codec.decoded import Decoded, Group, gather, gather_split
from common.codec.json_cut import lay_out_spans
from common.codec.json_members import (
    JsonReader,
    count_of,
    enum_of,
    integer_of,
    is_running,
    list_of,
    object_of,
    parsed_whole,
    parts_of,
    text_of,
)
from common.codec.json_scores import read_score
from common.codec.repair import PLACE_LENGTH_MAX, REPAIRED_MAX
from common.errors import Rejected, RejectionCode
from common.ids import ZERO_ID, parse_span_id, parse_trace_id
from common.json_values import INT64_MIN, UINT64_MAX
from common.limits import SpanLimits
from common.score import Score
from common.span import (
    LOG_SOURCE,
    NO_RESOURCE,
    NO_SCOPE,
    PROMOTED_TEXTS,
    Attributes,
    Event,
    Link,
    LogMembers,
    Resource,
    Scope,
    Span,
    SpanKind,
    StatusCode,
)
from common.times import parse_time_ns

_ID_FORMS: Final = {"trace_id": "32 hexadecimal digits, or a UUID", "span_id": "16 hexadecimal digits, or a UUID"}
_Shared = TypeVar("_Shared", Resource, Scope)
_INT64_END: Final = 2.0**63  # at this absolute value and above, the parser returns a double for some integers
_STRING_OR_LONG_INTEGER: Final = re.compile(
    rb'"(?:[^"\\]++|\\.)*+"|(?<![0-9.eE+-])(-?[0-9]{19,})(?![0-9.eE])', re.DOTALL
)
_AG_LEVELS: Final = 3  # ``ag.data.inputs``: normalization puts these levels around a value, so they do not count


def decode(value: bytes, *, limits: SpanLimits, now_ns: int, sent_ns: int | None = None) -> Decoded:
    """Return the spans of one record, in the order of the document, and a rejection for each that cannot be kept.

    A span without times gets that of its record, ``sent_ns``, so that a record read twice gives the same span;
    ``now_ns`` if that is unknown or absurd. Raises ``Rejected`` if the record is too large, is not JSON, or is neither
    a span nor a list of spans.
    """
    check_record_size(value, limits)
    bounds = bounds_of(limits, now_ns=now_ns)
    if sent_ns is None or not bounds.earliest_ns <= sent_ns <= bounds.latest_ns:
        sent_ns = now_ns
    reader = _Reader(bounds, value, default_ns=sent_ns)
    document = parsed_whole(value, limits)
    if document is not None:
        try:
            return gather([Group(NO_RESOURCE, NO_SCOPE, _members(document))], lambda found, *_: reader.span(found))
        except _DoubtfulDouble:
            pass
    return _decode_split(value, limits, reader)


lay_out: Final = lay_out_spans


def _members(document: Any) -> list[Any]:
    """Return the span objects of a record. An empty object is an empty record."""
    if type(document) is not dict:
        raise Rejected(RejectionCode.UNDECODABLE, 'The record is neither a span object nor {"spans": […]}.')
    if not document:
        return []
    if "resourceSpans" in document:
        raise Rejected(
            RejectionCode.UNDECODABLE, "The record is an OTLP request in JSON: its content type is application/json."
        )
    if "trace_id" in document or "spans" not in document:
        return [document]
    spans = document["spans"]
    if spans is not None and type(spans) is not list:
        raise Rejected(
            RejectionCode.UNDECODABLE,
            "The member “spans” of the record is not an array; it must be an array of span objects.",
        )
    return spans or []


def _decode_split(value: bytes, limits: SpanLimits, reader: _Reader) -> Decoded:
    def read(raw: bytes, _resource: Resource, _scope: Scope) -> Span:
        return reader.span(reader.parsed_alone(raw, "The span"), long_integers=_long_integers(raw))

    return gather_split(lay_out(value), limits, read, lambda _: NO_RESOURCE, lambda _: NO_SCOPE)


class _DoubtfulDouble(Exception):
    """The parser returned a double that may have been an integer past 64 bits; only the bytes of the span show it."""


class _Reader(JsonReader):
    """Reads the spans of one record; neighbors with equal resources share one."""

    __slots__ = ("_default_ns", "_last_resource", "_last_scope", "_long_integers")
    trace_state = "trace_state"
    dropped_attributes_count = "dropped_attributes_count"

    def __init__(self, bounds: Bounds, record: bytes, *, default_ns: int) -> None:
        super().__init__(bounds, record)
        self._default_ns = default_ns
        self._last_resource = (b"", NO_RESOURCE)
        self._last_scope = (b"", NO_SCOPE)
        self._long_integers: set[float] | None = None

    def span(self, found: Any, *, long_integers: set[float] | None = None) -> Span:
        """Read one span; ``long_integers`` are those past 64 bits, if known. Raises ``Rejected``, and
        ``_DoubtfulDouble`` if they must be known.
        """
        self._long_integers = long_integers
        if type(found) is not dict:
            raise invalid_type("The span", found, "an object")
        get = found.get
        if get("spans"):
            raise Rejected(
                RejectionCode.INVALID_TYPE,
                "The span has a member “spans”; send nested spans next to it, in the same list.",
            )
        running = is_running(found)
        start_ns, end_ns = self._times(found)
        trace_id = _own_id(get("trace_id"), "trace_id", parse_trace_id, RejectionCode.INVALID_TRACE_ID)
        span_id = _own_id(get("span_id"), "span_id", parse_span_id, RejectionCode.INVALID_SPAN_ID)
        check_times(start_ns, end_ns, self._bounds)
        name = get("span_name")
        links = get("links")
        span = Span(
            trace_id=trace_id,
            span_id=span_id,
            parent_id=_parent_id(get("parent_id")),
            name=span_id[10:].hex() if name is None else text_of(name, "span_name"),
            kind=enum_of(get("span_kind"), "span_kind", SpanKind),
            start_ns=start_ns,
            end_ns=end_ns,
            status_code=enum_of(get("status_code"), "status_code", StatusCode),
            status_message=text_of(get("status_message"), "status_message") or None,
            attributes=self._attributes(get("attributes"), "attributes"),
            events=tuple([self._read_event(event, start_ns) for event in parts_of(get("events"), "events")]),
            links=None if links is None else tuple([self._read_link(link) for link in parts_of(links, "links")]),
            trace_state=text_of(get("trace_state"), "trace_state"),
            flags=count_of(get("flags"), "flags"),
            dropped_attributes_count=count_of(get("dropped_attributes_count"), "dropped_attributes_count"),
            dropped_events_count=count_of(get("dropped_events_count"), "dropped_events_count"),
            dropped_links_count=count_of(get("dropped_links_count"), "dropped_links_count"),
            resource=self._read_resource(get("resource")),
            scope=self._read_scope(get("scope")),
            repaired=_places(get("repaired")),
            references=self._identified(get("references"), "references"),
            hashes=self._identified(get("hashes"), "hashes"),
            scores=self._scores(get("scores"), end_ns),
            dropped_scores_count=count_of(get("dropped_scores_count"), "dropped_scores_count"),
            is_running=running,
            **{member: _optional_text(get(member), member) for member in PROMOTED_TEXTS},
        )
        return self._faults.repaired(span)

    def _times(self, members: dict[str, Any]) -> tuple[int, int]:
        """Return start and end. Each defaults to the other, both to that of the record; nanoseconds win over the
        readable time.
        """
        start_ns = _time_ns(members, "start_time_unix_nano", "start_time")
        end_ns = _time_ns(members, "end_time_unix_nano", "end_time")
        if start_ns is None:
            start_ns = self._default_ns if end_ns is None else end_ns
        return start_ns, start_ns if end_ns is None else end_ns

    def _read_event(self, found: Any, start_ns: int) -> Event:
        """Read an event; one without a time happened at the start of its span."""
        members = object_of(found, "An event")
        time_ns = _time_ns(members, "time_unix_nano", "timestamp")
        if time_ns is not None and not 0 <= time_ns <= UINT64_MAX:
            raise Rejected(
                RejectionCode.ABSURD_TIME, f"The time of an event is {time_ns} ns; allowed: 1970 to 2554, as in OTLP."
            )
        event = self._event(members, start_ns if time_ns is None else time_ns)
        return event._replace(log=self._log_members(members)) if members.get("source") == LOG_SOURCE else event

    def _log_members(self, members: dict[str, Any]) -> LogMembers:
        return LogMembers(
            body=self._value(members.get("body"), self._faults.depth_max, "events.body"),
            severity_text=text_of(members.get("severity_text"), "events.severity_text"),
            severity_number=count_of(members.get("severity_number"), "events.severity_number"),
        )

    def _scores(self, found: Any, end_ns: int) -> tuple[Score, ...]:
        """Read scores; one without a time was given at the end of its span."""
        scores = []
        for index, sent in enumerate(parts_of(found, "scores")):
            where = f"scores[{index}]"
            members = {
                name: self._value(member, self._faults.depth_max, f"{where}.{name}")
                for name, member in object_of(sent, where).items()
            }
            scores.append(read_score(members, where, end_ns))
        return tuple(scores)

    def _read_link(self, found: Any) -> Link:
        members = object_of(found, "A link")
        trace_id = _linked(members, "trace_id", parse_trace_id)
        return self._link(members, trace_id, _linked(members, "span_id", parse_span_id))

    def _read_resource(self, found: Any) -> Resource:
        if found is None:
            return NO_RESOURCE
        self._last_resource = self._shared(found, "resource", self._last_resource, self._resource)
        return self._last_resource[1]

    def _read_scope(self, found: Any) -> Scope:
        if found is None:
            return NO_SCOPE
        self._last_scope = self._shared(found, "scope", self._last_scope, self._scope)
        return self._last_scope[1]

    def _shared(
        self, found: Any, where: str, last: tuple[bytes, _Shared], read: Callable[[dict[str, Any], str], _Shared]
    ) -> tuple[bytes, _Shared]:
        """Return what was read last if ``found`` is equal to it; each with its JSON."""
        written = _written(found)
        if written and written == last[0]:
            return last
        members = object_of(found, where)
        return written, read(members, text_of(members.get("schema_url"), f"{where}.schema_url"))

    def _identified(self, found: Any, where: str) -> list[dict[str, Any]] | None:
        """Return references or hashes: JSON-ready objects, ids as dashed UUIDs; ``None`` if the member is absent."""
        if found is None:
            return None
        read = []
        for element in list_of(found, where):
            members = self._value(object_of(element, f"An element of {where}"), self._faults.depth_max, where)
            if members.get("id") is not None:
                members["id"] = _uuid(members["id"], f"{where}.id")
            read.append(members)
        return read

    def _attributes(self, found: Any, where: str) -> Attributes:
        attributes = {}
        depth_max = self._faults.depth_max
        for key, value in object_of(found, where).items():
            if type(value) is str:
                attributes[key] = value
            else:
                levels = depth_max + _AG_LEVELS if key == "ag" else depth_max
                attributes[key] = self._value(value, levels, at_key(where, key))
        return attributes

    def _value(self, found: Any, levels_left: int, where: str) -> Any:
        """Return a JSON value with its doubles in canonical form. ``levels_left``: how many arrays and objects may be
        opened.
        """
        kind = type(found)
        if kind is dict or kind is list:
            if levels_left == 0:
                return self._faults.deep(found, partial(self._opened, where=where))
            if kind is dict:
                return {key: self._value(member, levels_left - 1, where) for key, member in found.items()}
            return [self._value(element, levels_left - 1, where) for element in found]
        return self._opened(found, where) if kind is float else found

    def _opened(self, found: Any, where: str) -> Any:
        """Return a double in canonical form, and anything else as it is."""
        if type(found) is not float:
            return found
        if not -_INT64_END < found < _INT64_END:
            self._check_no_integer(found, where)
        return json_double(found)

    def _check_no_integer(self, found: float, where: str) -> None:
        if self._long_integers is None:
            raise _DoubtfulDouble
        if found in self._long_integers:
            raise Rejected(
                RejectionCode.INVALID_TYPE, f"{where} is an integer beyond 64 bits; allowed: -2^63 to 2^64-1."
            )


def _written(found: Any) -> bytes:
    """Return the JSON of a parsed value, empty if it must be repaired first. Two are equal only if values and types
    are; in Python, 1 equals true.
    """
    try:
        return orjson.dumps(found)
    except orjson.JSONEncodeError:  # nested past 254 levels, or with half of a surrogate pair
        return b""


def _places(found: Any) -> tuple[str, ...]:
    """Return the places that were repaired when the span was stored before."""
    places = list_of(found, "repaired")[:REPAIRED_MAX]
    texts = [text_of(place, "An element of repaired")[:PLACE_LENGTH_MAX] for place in places]
    return tuple(filter(None, texts))


def _long_integers(span: bytes) -> set[float]:
    """Return the integers past 64 bits in the bytes of a span, as the doubles that the parser makes of them."""
    found = (int(match[1]) for match in _STRING_OR_LONG_INTEGER.finditer(span) if match[1])
    return {float(integer) for integer in found if not INT64_MIN <= integer <= UINT64_MAX}


def _time_ns(members: dict[str, Any], exact: str, readable: str) -> int | None:
    """Return nanoseconds since 1970, or ``None`` if neither member is present."""
    nanoseconds = members.get(exact)
    if nanoseconds is not None:
        return integer_of(nanoseconds, exact, minimum=0, maximum=UINT64_MAX)
    time = members.get(readable)
    if time is None:
        return None
    if type(time) not in (str, int, float):
        raise invalid_type(readable, time, "a time as text or number")
    try:
        return parse_time_ns(time)
    except ValueError as exc:
        raise Rejected(RejectionCode.INVALID_TYPE, f"{readable}: {exc}") from exc


def _own_id(found: Any, name: str, parse: Callable[[str], bytes], code: RejectionCode) -> bytes:
    if found is None or found == "":
        raise Rejected(code, f"The span has no {name}; it must be {_ID_FORMS[name]}.")
    return _parsed_id(found, name, parse, code)


def _parent_id(found: Any) -> bytes | None:
    """Return the id of the parent, or ``None`` if it is absent, empty or all zeros."""
    if found is None or found == "" or _is_zeros(found):
        return None
    return _parsed_id(found, "parent_id", parse_span_id, RejectionCode.INVALID_PARENT_ID)


def _linked(members: dict[str, Any], name: str, parse: Callable[[str], bytes]) -> bytes:
    """Return an id of a link; zeros are kept, because OpenTelemetry allows a link that has only attributes."""
    found = members.get(name)
    if _is_zeros(found):
        return ZERO_ID
    return _parsed_id(found, f"links.{name}", parse, RejectionCode.INVALID_LINK)


def _parsed_id(found: Any, where: str, parse: Callable[[str], bytes], code: RejectionCode) -> bytes:
    if type(found) is not str:
        raise Rejected(code, str(invalid_type(where, found, "hexadecimal digits as text")))
    try:
        return parse(found)
    except ValueError as exc:
        raise Rejected(code, f"{where}: {exc}") from exc


def _is_zeros(found: Any) -> bool:
    return type(found) is str and len(found) in (16, 32) and not found.strip("0")


def _optional_text(found: Any, where: str) -> str | None:
    return None if found is None else text_of(found, where)


def _uuid(found: Any, where: str) -> str:
    try:
        return str(UUID(bytes=parse_trace_id(found))) if type(found) is str else str(UUID(found))
    except (ValueError, AttributeError, TypeError) as exc:
        raise invalid_type(where, found, "a UUID") from exc
