"""``otlp_proto``: one ``ExportTraceServiceRequest`` per record, what an OpenTelemetry Collector writes (contract §4).

Source: opentelemetry-proto 1.x, ``trace.proto`` and ``common.proto``; ``TracesData`` is the same on the wire.
Protobuf's own parser reads the whole record, which is fast. It rejects the record for one span with a text that is not
UTF-8 or with deep nesting; then the record is split on the wire (``protobuf_cut``), each span is read alone, and one
that the parser rejects is read leniently (``protobuf_lenient``). A large record is split too, because the parser takes
ninety times the bytes of empty spans.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any, Final, TypeVar

from google.protobuf.message import DecodeError
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest
from opentelemetry.proto.common.v1.common_pb2 import AnyValue, ArrayValue, KeyValueList
from opentelemetry.proto.common.v1.common_pb2 import InstrumentationScope as ScopeMessage
from opentelemetry.proto.resource.v1.resource_pb2 import Resource as ResourceMessage
from opentelemetry.proto.trace.v1.trace_pb2 import ResourceSpans as ResourceSpansMessage
from opentelemetry.proto.trace.v1.trace_pb2 import ScopeSpans as ScopeSpansMessage
from opentelemetry.proto.trace.v1.trace_pb2 import Span as SpanMessage

from common.codec import protobuf_values
from common.codec.checks import (
    SMALL_PARTS_MAX,
    Bounds,
    bounds_of,
    check_parts,
    check_paths,
    check_record_size,
    check_span_size,
    check_times,
    shown,
    unknown_enum,
)
from common.codec.decoded import NO_TRACE_ID, Decoded, gather, gather_split, missing_id
from common.codec.protobuf_values import (
    WHOLE_BYTES_MAX,
    attributes_of,
    groups_of,
    no_frame,
    read_alone,
    resource_alone,
    resource_of,
    scope_alone,
    scope_of,
    split_layout,
    text_of,
    value_of,
)
from common.codec.repair import Faults
from common.errors import Rejected, RejectionCode
from common.ids import ZERO_ID
from common.limits import SpanLimits
from common.span import Event, Link, Resource, Scope, Span

UNKNOWN_BYTES_MAX: Final = 150
"""More unknown bytes may be 75 or more groups inside of each other."""

_T = TypeVar("_T")
_FRAME: Final = "resource_spans"
_MEMBERS: Final = "spans"
_ID_SIZES: Final = {"trace_id_form": "16 bytes", "span_id_form": "8 bytes"}


def decode(value: bytes, *, limits: SpanLimits, now_ns: int) -> Decoded:
    """Return the spans of one request, in wire order, and a rejection for each that cannot be kept.

    Raises ``Rejected`` if the record is too large, or if its frame cannot be followed to find its spans.
    """
    check_record_size(value, limits)
    bounds = bounds_of(limits, now_ns=now_ns)
    if len(value) > WHOLE_BYTES_MAX:
        return _decode_split(value, limits, bounds)
    try:
        request = ExportTraceServiceRequest.FromString(value)
    except DecodeError:
        return _decode_split(value, limits, bounds, is_refused_whole=True)
    if value and not request.resource_spans:
        raise no_frame(_FRAME, _MEMBERS)
    faults = Faults(bounds.nesting_depth_max)
    spans = groups_of(request.resource_spans, "scope_spans", "spans", faults)
    if len(value) <= limits.span_bytes_max:  # no span can be larger than its record
        return gather(spans, partial(_span, bounds, faults))
    return gather(spans, partial(_sized_span, limits, bounds, faults))


lay_out: Final = protobuf_values.lay_out


def read_resource(raw: bytes, schema_url: str, bounds: Bounds) -> Resource:
    """Return a resource whose message came alone.

    Raises ``Rejected`` or ``DecodeError``, like all functions below; also if anything of the message must be repaired.
    """
    return _read(resource_of, ResourceSpansMessage(resource=_part(ResourceMessage, raw), schema_url=schema_url), bounds)


def read_scope(raw: bytes, schema_url: str, bounds: Bounds) -> Scope:
    """Return a scope whose message came alone."""
    return _read(scope_of, ScopeSpansMessage(scope=_part(ScopeMessage, raw), schema_url=schema_url), bounds)


def read_event(raw: bytes, bounds: Bounds) -> Event:
    """Return an event whose message came alone."""
    event = _read(_event, _part(SpanMessage.Event, raw), bounds)
    check_paths("events.attributes", event.attributes)
    return event


def read_link(raw: bytes, bounds: Bounds) -> Link:
    """Return a link whose message came alone."""
    return _read(_link, _part(SpanMessage.Link, raw), bounds)


def read_array(raw: bytes, bounds: Bounds) -> Any:
    """Return an array among values whose message came alone."""
    return _read(_attribute, AnyValue(array_value=_part(ArrayValue, raw)), bounds)


def read_object(raw: bytes, bounds: Bounds) -> Any:
    """Return an object among values whose message came alone."""
    return _read(_attribute, AnyValue(kvlist_value=_part(KeyValueList, raw)), bounds)


def _read(read: Callable[[Any, Faults], _T], message: Any, bounds: Bounds) -> _T:
    faults = Faults(bounds.nesting_depth_max)
    found = read(message, faults)
    if faults.are_found:
        raise DecodeError
    return found


def _attribute(value: Any, faults: Faults) -> Any:
    return value_of(value, faults, faults.depth_max, "attributes", "")


def _part(message_type: Any, raw: bytes) -> Any:
    """Parse a message that came alone. Raises ``DecodeError`` also if much of it is unknown: it may be nested so deep
    that the parser rejects it at its place in a request.
    """
    message = message_type.FromString(raw)
    if len(raw) > UNKNOWN_BYTES_MAX:
        message.DiscardUnknownFields()
        if message.ByteSize() < len(raw) - UNKNOWN_BYTES_MAX:
            raise DecodeError
    return message


def _sized_span(
    limits: SpanLimits, bounds: Bounds, faults: Faults, message: Any, resource: Resource, scope: Scope
) -> Span:
    check_span_size(message.ByteSize(), limits)
    return _span(bounds, faults, message, resource, scope)


def _span(bounds: Bounds, faults: Faults, message: Any, resource: Resource, scope: Scope) -> Span:
    trace_id = message.trace_id
    span_id = message.span_id
    parent_id = message.parent_span_id
    if len(trace_id) != 16 or len(span_id) != 8 or trace_id == ZERO_ID or not any(span_id):
        raise _bad_id(trace_id, span_id)
    if parent_id:
        parent_id = _parent_id(parent_id)
    start_ns = message.start_time_unix_nano
    end_ns = message.end_time_unix_nano
    check_times(start_ns, end_ns, bounds)
    kind = message.kind
    if kind > 5 or kind < 0:
        raise unknown_enum("kind", kind, "a SpanKind, 0 to 5")
    status = message.status
    status_code = status.code
    if status_code > 2 or status_code < 0:
        raise unknown_enum("status.code", status_code, "a StatusCode, 0 to 2")
    events = message.events
    links = message.links
    if len(events) > SMALL_PARTS_MAX:
        check_parts("events", len(events), sum([event.ByteSize() for event in events]))
    if len(links) > SMALL_PARTS_MAX:
        check_parts("links", len(links), sum([link.ByteSize() for link in links]))
    span = Span(
        trace_id=trace_id,
        span_id=span_id + span_id,
        parent_id=parent_id or None,
        name=text_of(message.name, faults),
        kind=kind,
        start_ns=start_ns,
        end_ns=end_ns,
        status_code=status_code,
        status_message=text_of(status.message, faults) or None,
        attributes=attributes_of(message.attributes, faults, "attributes"),
        events=tuple([_event(event, faults) for event in events]) if events else (),
        links=tuple([_link(link, faults) for link in links]) if links else None,
        trace_state=text_of(message.trace_state, faults),
        flags=message.flags,
        dropped_attributes_count=message.dropped_attributes_count,
        dropped_events_count=message.dropped_events_count,
        dropped_links_count=message.dropped_links_count,
        resource=resource,
        scope=scope,
    )
    return faults.repaired(span)


def _bad_id(trace_id: bytes, span_id: bytes) -> Rejected:
    if trace_id and len(trace_id) != 16:
        text = _printable(trace_id)
        found = f"{NO_TRACE_ID}it is the text {shown(text)}" if text else f"The trace id has {len(trace_id)} bytes"
        return Rejected(RejectionCode.INVALID_TRACE_ID, f"{found}; it must be 16 bytes.")
    if any(trace_id) and span_id and len(span_id) != 8:
        return Rejected(RejectionCode.INVALID_SPAN_ID, f"The span id has {len(span_id)} bytes; it must have 8 bytes.")
    return missing_id(trace_id, **_ID_SIZES)


def _printable(raw: bytes) -> str | None:
    """Return the text that is in place of an id, such as the name of a metric; a hexadecimal id is not one."""
    text = raw.decode("latin-1")
    return text if text.isascii() and text.isprintable() and not text.isalnum() else None


def _parent_id(parent_id: bytes) -> bytes | None:
    """Return the id of the parent, or ``None`` if it is all zeros."""
    if len(parent_id) != 8:
        raise Rejected(
            RejectionCode.INVALID_PARENT_ID,
            f"The parent's span id has {len(parent_id)} bytes; it must have 8 bytes, or none in a root.",
        )
    return parent_id + parent_id if any(parent_id) else None


def _event(message: Any, faults: Faults) -> Event:
    return Event(
        name=text_of(message.name, faults),
        time_ns=message.time_unix_nano,
        attributes=attributes_of(message.attributes, faults, "events.attributes"),
        dropped_attributes_count=message.dropped_attributes_count,
    )


def _link(message: Any, faults: Faults) -> Link:
    """Read a link as sent. Ids that are empty or zero are kept as zeros: OpenTelemetry allows a link that has only
    attributes.
    """
    trace_id = message.trace_id or ZERO_ID
    span_id = message.span_id or ZERO_ID[:8]
    if len(trace_id) != 16 or len(span_id) != 8:
        raise Rejected(
            RejectionCode.INVALID_LINK,
            f"A link has ids of {len(trace_id)} and {len(span_id)} bytes; "
            "the trace id must have 16 bytes, the span id 8 bytes.",
        )
    return Link(
        trace_id=trace_id,
        span_id=span_id + span_id,
        attributes=attributes_of(message.attributes, faults, "links.attributes"),
        trace_state=text_of(message.trace_state, faults),
        flags=message.flags,
        dropped_attributes_count=message.dropped_attributes_count,
    )


def _decode_split(value: bytes, limits: SpanLimits, bounds: Bounds, *, is_refused_whole: bool = False) -> Decoded:
    layout = split_layout(value, is_refused_whole=is_refused_whole, members=_MEMBERS, frame=_FRAME)
    faults = Faults(bounds.nesting_depth_max)
    return gather_split(
        layout,
        limits,
        lambda raw, *wrappers: read_alone(
            SpanMessage,
            raw,
            faults,
            lambda span: _span(bounds, faults, span, *wrappers),
            lacking=lambda: missing_id(b"", **_ID_SIZES),
        ),
        lambda raw: resource_alone(raw, faults),
        lambda raw: scope_alone(raw, faults),
    )
