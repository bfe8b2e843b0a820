"""``otlp_json``: one ``ExportTraceServiceRequest`` as JSON per record (contract §4).

Source: https://opentelemetry.io/docs/specs/otlp/#json-protobuf-encoding; pitfalls in the reference's notes on
instrumentations. Ids are hexadecimal; base64, which protobuf's own JSON mapping writes, is accepted and counted.
Members are read in lowerCamelCase and in snake_case, unknown ones are ignored. The names that scopes had before OTLP
0.15 are read if the new ones are absent, because their spans would be lost silently. A document that the parser rejects
as a whole is cut span by span (``json_cut``), and a span that it rejects is read leniently (``json_lenient``).

The spans are not built through protobuf messages: that costs 8 µs more per plain span and 14 µs per LLM span, a third
of decoding (protobuf's own ``json_format`` costs 110 and 215 µs).
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from functools import partial
from typing import Any, Final, NamedTuple

from common.codec.checks import (
    Bounds,
    at_key,
    bounds_of,
    check_record_size,
    check_times,
    invalid_type,
    shown,
)
from common.codec.decoded import Decoded, Group, Rejection, gather, gather_split, guarded, missing_id
from common.codec.json_cut import lay_out_request
from common.codec.json_members import (
    JsonReader,
    count_of,
    enum_of,
    from_base64,
    integer_of,
    list_of,
    object_of,
    otlp_scalar,
    parsed_whole,
    parts_of,
    text_of,
)
from common.errors import Rejected, RejectionCode
from common.ids import ZERO_ID
from common.json_values import UINT64_MAX
from common.limits import SpanLimits
from common.span import Attributes, Event, Link, Resource, Scope, Span, SpanKind, StatusCode

_ID_FORMS: Final = {16: "32 hexadecimal digits", 8: "16 hexadecimal digits"}


class _Names(NamedTuple):
    """The members of one message: their names, and other spellings of them, preferred spellings first."""

    known: frozenset[str]
    spelled: dict[str, str]

    def read(self, found: Any, where: str) -> dict[str, Any]:
        """Return the object with its members in lowerCamelCase. Raises ``Rejected`` if it is not an object."""
        if type(found) is not dict:
            raise invalid_type(where, found, "an object")
        if self.known.issuperset(found):
            return found
        members = dict(found)
        for spelling, name in self.spelled.items():
            if spelling in members and members.get(name) is None:
                members[name] = members[spelling]
        return members


def _names(*known: str, former: dict[str, str] | None = None) -> _Names:
    """``former``: former names of members in OTLP, with the current ones."""
    former = former or {}
    snake = {_snake_case(name): name for name in known}
    return _Names(frozenset(known), snake | former | {_snake_case(name): now for name, now in former.items()})


def _snake_case(name: str) -> str:
    return re.sub("[A-Z]", lambda found: "_" + found[0].lower(), name)


_REQUEST: Final = _names("resourceSpans")
_RESOURCE_SPANS: Final = _names(
    "resource", "scopeSpans", "schemaUrl", former={"instrumentationLibrarySpans": "scopeSpans"}
)
_SCOPE_SPANS: Final = _names("scope", "spans", "schemaUrl", former={"instrumentationLibrary": "scope"})
_RESOURCE: Final = _names("attributes", "droppedAttributesCount")
_SCOPE: Final = _names("name", "version", "attributes", "droppedAttributesCount")
_SPAN: Final = _names(
    *("traceId", "spanId", "traceState", "parentSpanId", "flags", "name", "kind", "startTimeUnixNano"),
    *("endTimeUnixNano", "attributes", "droppedAttributesCount", "events", "droppedEventsCount", "links"),
    *("droppedLinksCount", "status"),
)
_EVENT: Final = _names("timeUnixNano", "name", "attributes", "droppedAttributesCount")
_LINK: Final = _names("traceId", "spanId", "traceState", "attributes", "droppedAttributesCount", "flags")
_VALUE: Final = _names("stringValue", "boolValue", "intValue", "doubleValue", "arrayValue", "kvlistValue", "bytesValue")


def decode(value: bytes, *, limits: SpanLimits, now_ns: int) -> Decoded:
    """Return the spans of one request, in the order of the document, and a rejection for each that cannot be kept.

    Raises ``Rejected`` if the record is too large, is not JSON, or does not have the frame of a request.
    """
    check_record_size(value, limits)
    reader = _Reader(bounds_of(limits, now_ns=now_ns), value)
    document = parsed_whole(value, limits)
    decoded = _decode_split(value, limits, reader) if document is None else gather(reader.groups(document), reader.span)
    return decoded._replace(base64_ids_count=reader.base64_ids_count)


lay_out: Final = lay_out_request


def _decode_split(value: bytes, limits: SpanLimits, reader: _Reader) -> Decoded:
    layout = lay_out(value)
    parse = reader.parsed_alone
    if not layout.spans:
        reader.check_is_request(parse(value, "The record"))
    return gather_split(
        layout,
        limits,
        lambda raw, resource, scope: reader.span(parse(raw, "The span"), resource, scope),
        lambda wrapper: reader.resource(parse(b"{%b}" % wrapper, "The resource")),
        lambda wrapper: reader.scope(parse(b"{%b}" % wrapper, "The scope")),
    )


class _Reader(JsonReader):
    """Reads the messages of one record, and counts the ids that came as base64."""

    __slots__ = ("base64_ids_count",)
    trace_state = "traceState"
    dropped_attributes_count = "droppedAttributesCount"

    def __init__(self, bounds: Bounds, record: bytes) -> None:
        super().__init__(bounds, record)
        self.base64_ids_count = 0

    def groups(self, document: Any) -> Iterator[Group]:
        """Yield the groups of a whole document. Raises ``Rejected`` if it does not have the frame of a request."""
        for found in list_of(self.check_is_request(document).get("resourceSpans"), "resourceSpans"):
            resource_spans = _framed(_RESOURCE_SPANS, found, "An element of resourceSpans")
            resource: Resource | Rejection | None = None
            for inner in list_of(resource_spans.get("scopeSpans"), "scopeSpans"):
                scope_spans = _framed(_SCOPE_SPANS, inner, "An element of scopeSpans")
                spans = list_of(scope_spans.get("spans"), "spans")
                if not spans:  # a record may hold millions of these
                    continue
                if resource is None:
                    resource = guarded(self.resource, resource_spans)
                yield Group(resource, guarded(self.scope, scope_spans), spans)

    def check_is_request(self, document: Any) -> dict[str, Any]:
        """Return the members of the request. An object with only other members is another document, not an empty
        request.
        """
        request = _framed(_REQUEST, document, "The record")
        if request and "resourceSpans" not in request:
            raise Rejected(
                RejectionCode.UNDECODABLE,
                f"The record has no resourceSpans but {shown(', '.join(request))}: it is not an export of spans.",
            )
        return request

    def resource(self, resource_spans: Any) -> Resource:
        """Read the resource of an element of ``resourceSpans``."""
        found = _RESOURCE_SPANS.read(resource_spans, "resourceSpans")
        schema_url = text_of(found.get("schemaUrl"), "resourceSpans.schemaUrl")
        return self._resource(_RESOURCE.read(found.get("resource") or {}, "resource"), schema_url)

    def scope(self, scope_spans: Any) -> Scope:
        """Read the scope of an element of ``scopeSpans``."""
        found = _SCOPE_SPANS.read(scope_spans, "scopeSpans")
        schema_url = text_of(found.get("schemaUrl"), "scopeSpans.schemaUrl")
        return self._scope(_SCOPE.read(found.get("scope") or {}, "scope"), schema_url)

    def span(self, found: Any, resource: Resource, scope: Scope) -> Span:
        """Read one span. Raises ``Rejected``."""
        members = _SPAN.read(found, "The span")
        get = members.get
        start_ns = _uint64(get("startTimeUnixNano"), "startTimeUnixNano")
        end_ns = _uint64(get("endTimeUnixNano"), "endTimeUnixNano")
        trace_id = self._id(get("traceId"), 16, RejectionCode.INVALID_TRACE_ID, "traceId")
        span_id = self._id(get("spanId"), 8, RejectionCode.INVALID_SPAN_ID, "spanId")
        if not trace_id or trace_id == ZERO_ID or not any(span_id):
            raise missing_id(trace_id, trace_id_form=_ID_FORMS[16], span_id_form=_ID_FORMS[8])
        check_times(start_ns, end_ns, self._bounds)
        parent_id = self._id(get("parentSpanId"), 8, RejectionCode.INVALID_PARENT_ID, "parentSpanId")
        status = object_of(get("status"), "status")
        links = parts_of(get("links"), "links")
        span = Span(
            trace_id=trace_id,
            span_id=span_id + span_id,
            parent_id=parent_id + parent_id if any(parent_id) else None,
            name=text_of(get("name"), "name"),
            kind=enum_of(get("kind"), "kind", SpanKind),
            start_ns=start_ns,
            end_ns=end_ns,
            status_code=enum_of(status.get("code"), "status.code", StatusCode),
            status_message=text_of(status.get("message"), "status.message") or None,
            attributes=self._attributes(get("attributes"), "attributes"),
            events=tuple([self._read_event(event) for event in parts_of(get("events"), "events")]),
            links=tuple([self._read_link(link) for link in links]) if links else None,
            trace_state=text_of(get("traceState"), "traceState"),
            flags=count_of(get("flags"), "flags"),
            dropped_attributes_count=count_of(get("droppedAttributesCount"), "droppedAttributesCount"),
            dropped_events_count=count_of(get("droppedEventsCount"), "droppedEventsCount"),
            dropped_links_count=count_of(get("droppedLinksCount"), "droppedLinksCount"),
            resource=resource,
            scope=scope,
        )
        return self._faults.repaired(span)

    def _read_event(self, found: Any) -> Event:
        members = _EVENT.read(found, "An event")
        return self._event(members, _uint64(members.get("timeUnixNano"), "events.timeUnixNano"))

    def _read_link(self, found: Any) -> Link:
        """Read a link as sent. Ids that are absent or zero are kept as zeros: a link may have only attributes."""
        members = _LINK.read(found, "A link")
        trace_id = self._id(members.get("traceId"), 16, RejectionCode.INVALID_LINK, "links.traceId")
        span_id = self._id(members.get("spanId"), 8, RejectionCode.INVALID_LINK, "links.spanId")
        return self._link(members, trace_id or ZERO_ID, span_id + span_id or ZERO_ID)

    def _id(self, found: Any, size: int, code: RejectionCode, where: str) -> bytes:
        """Return the bytes of an id, empty if it is absent."""
        if not found:
            if found is None or found == "":
                return b""
        elif type(found) is str:
            if len(found) == size * 2:
                try:
                    raw = bytes.fromhex(found)
                except ValueError:
                    raw = b""
                if len(raw) == size:  # fromhex skips spaces
                    return raw
            raw = from_base64(found) or b""
            if len(raw) == size:
                self.base64_ids_count += 1
                return raw
        raise Rejected(code, f"{where} is {shown(found)}; it must be {_ID_FORMS[size]}.")

    def _attributes(self, found: Any, where: str) -> Attributes:
        """Return attributes as JSON-ready values. Texts, which most are, take a short path."""
        if found is None:
            return {}
        if type(found) is not list:
            raise invalid_type(where, found, 'a list of {"key": …, "value": {"stringValue": …}}')
        attributes: Attributes = {}
        for key_value in found:
            try:
                key = key_value["key"]
                value = key_value["value"]
                text = value["stringValue"]
            except (KeyError, TypeError):
                key, value, text = *_pair(key_value, where), None
            if type(text) is str and len(value) == 1 and type(key) is str:
                attributes[key] = text
            else:
                key = text_of(key, f"A key in {where}")
                attributes[key] = self._value(value, self._faults.depth_max, at_key(where, key))
        return attributes

    def _value(self, found: Any, levels_left: int, where: str) -> Any:
        """Return one value. ``levels_left`` is how many arrays and objects may still be opened."""
        value = self._opened(found, where)
        kind = type(value)
        if kind is not list and kind is not dict:
            return value
        if levels_left == 0:
            return self._faults.deep(found, partial(self._opened, where=where))
        if kind is list:
            return [self._value(element, levels_left - 1, where) for element in value]
        return {key: self._value(member, levels_left - 1, where) for key, member in value.items()}

    def _opened(self, found: Any, where: str) -> Any:
        """Return a scalar, or the values of an array or object as they were sent."""
        if not found and (found is None or type(found) is dict):
            return None
        members = _VALUE.read(found, where)
        known = [name for name in members if name in _VALUE.known]
        kinds = [name for name in known if members[name] is not None]
        if known and not kinds:
            return None
        if len(kinds) != 1:
            kind = "no kind that OTLP knows" if not kinds else "several kinds: " + ", ".join(kinds)
            raise Rejected(RejectionCode.INVALID_TYPE, f"{where} is of {kind}; it must be one of {_VALUE_KINDS}.")
        kind = kinds[0]
        value = members[kind]
        if kind not in ("arrayValue", "kvlistValue"):
            return otlp_scalar(kind, value, f"{where}.{kind}")
        inner = list_of(object_of(value, where).get("values"), f"{where}.values")
        if kind == "arrayValue":
            return inner
        pairs = (_pair(member, where) for member in inner)
        return {text_of(key, f"A key in {where}"): one for key, one in pairs}


def _framed(names: _Names, found: Any, where: str) -> dict[str, Any]:
    """Read a part of the frame. A wrong one rejects the whole record, because its spans cannot be separated."""
    try:
        return names.read(found, where)
    except Rejected as rejected:
        raise Rejected(RejectionCode.UNDECODABLE, rejected.detail) from rejected


def _pair(found: Any, where: str) -> tuple[Any, Any]:
    """Return key and value of one element of a list of pairs."""
    members = object_of(found, f"An element of {where}")
    return members.get("key"), members.get("value")


def _uint64(found: Any, where: str) -> int:
    return integer_of(found, where, minimum=0, maximum=UINT64_MAX)


_VALUE_KINDS: Final = ", ".join(sorted(_VALUE.known))
