"""``otlp_proto``: one ``ExportTraceServiceRequest`` per record, what an OpenTelemetry Collector writes (contract §4).

Source: opentelemetry-proto 1.x, ``trace.proto`` and ``common.proto``; ``TracesData`` is the same on the wire.
Protobuf's own parser reads the whole record, which is fast. It rejects the record for one span with a text that is not
UTF-8 or with deep nesting; then the record is split on the wire (``protobuf_cut``) and each span is read alone. So is a
large record, because the parser takes ninety times the bytes of empty spans.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from functools import partial
from typing import Any, Final

from google.protobuf.message import DecodeError
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest
from opentelemetry.proto.common.v1.common_pb2 import AnyValue, ArrayValue, KeyValueList
from opentelemetry.proto.common.v1.common_pb2 import InstrumentationScope as ScopeMessage
from opentelemetry.proto.resource.v1.resource_pb2 import Resource as ResourceMessage
from opentelemetry.proto.trace.v1.trace_pb2 import ResourceSpans as ResourceSpansMessage
from opentelemetry.proto.trace.v1.trace_pb2 import ScopeSpans as ScopeSpansMessage
from opentelemetry.proto.trace.v1.trace_pb2 import Span as SpanMessage

from common.codec.checks import (
    SMALL_PARTS_MAX,
    Bounds,
    at_key,
    bounds_of,
    check_parts,
    check_paths,
    check_record_size,
    check_span_size,
    check_times,
    json_bytes,
    json_double,
    null_character,
    shown,
    unknown_enum,
)
from common.codec.decoded import NO_TRACE_ID, Decoded, Group, Rejection, gather, gather_split, guarded, missing_id
from common.codec.layout import Layout
from common.codec.protobuf_cut import BrokenWire, lay_out_request
from common.codec.protobuf_fault import fault_of, first_field
from common.errors import Rejected, RejectionCode
from common.ids import ZERO_ID
from common.limits import MIB, SpanLimits
from common.nesting import nest
from common.span import Attributes, Event, Link, Resource, Scope, Span

WHOLE_BYTES_MAX: Final = MIB
"""A record up to this size is parsed at once: at most 90 MiB of messages, and 5 % faster than span by span."""

UNKNOWN_BYTES_MAX: Final = 150
"""More unknown bytes may be 75 or more groups inside of each other."""

_NO_RESOURCE_SPANS: Final = "The record has no resource_spans: it is not an export of spans."
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
        raise Rejected(RejectionCode.UNDECODABLE, _NO_RESOURCE_SPANS)
    if len(value) <= limits.span_bytes_max:  # no span can be larger than its record
        return gather(_groups(request, bounds), partial(_span, bounds))
    return gather(_groups(request, bounds), partial(_sized_span, limits, bounds))


def lay_out(value: bytes) -> Layout:
    """Return where the spans of a record lie, to cut some of them out. Raises ``Rejected``."""
    try:
        return lay_out_request(value)
    except BrokenWire as exc:
        raise Rejected(RejectionCode.UNDECODABLE, f"The record is not an OTLP request in protobuf: {exc}.") from exc


def read_resource(raw: bytes, schema_url: str, bounds: Bounds) -> Resource:
    """Return a resource whose message came alone. Raises ``Rejected`` or ``DecodeError``, like all functions below."""
    return _resource(ResourceSpansMessage(resource=_part(ResourceMessage, raw), schema_url=schema_url), bounds)


def read_scope(raw: bytes, schema_url: str, bounds: Bounds) -> Scope:
    """Return a scope whose message came alone."""
    return _scope(ScopeSpansMessage(scope=_part(ScopeMessage, raw), schema_url=schema_url), bounds)


def read_event(raw: bytes, bounds: Bounds) -> Event:
    """Return an event whose message came alone."""
    event = _event(_part(SpanMessage.Event, raw), bounds.nesting_depth_max)
    check_paths("events.attributes", event.attributes)
    return event


def read_link(raw: bytes, bounds: Bounds) -> Link:
    """Return a link whose message came alone."""
    return _link(_part(SpanMessage.Link, raw), bounds.nesting_depth_max)


def read_array(raw: bytes, bounds: Bounds) -> Any:
    """Return an array among values whose message came alone."""
    value = AnyValue(array_value=_part(ArrayValue, raw))
    return _value(value, bounds.nesting_depth_max, "attributes", "")


def read_object(raw: bytes, bounds: Bounds) -> Any:
    """Return an object among values whose message came alone."""
    value = AnyValue(kvlist_value=_part(KeyValueList, raw))
    return _value(value, bounds.nesting_depth_max, "attributes", "")


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


def _groups(request: Any, bounds: Bounds) -> Iterator[Group]:
    for resource_spans in request.resource_spans:
        resource: Resource | Rejection | None = None
        for scope_spans in resource_spans.scope_spans:
            if not scope_spans.spans:  # a record may hold millions of these
                continue
            if resource is None:
                resource = guarded(_resource, resource_spans, bounds)
            yield Group(resource, guarded(_scope, scope_spans, bounds), scope_spans.spans)


def _sized_span(limits: SpanLimits, bounds: Bounds, message: Any, resource: Resource, scope: Scope) -> Span:
    check_span_size(message.ByteSize(), limits)
    return _span(bounds, message, resource, scope)


def _span(bounds: Bounds, message: Any, resource: Resource, scope: Scope) -> Span:
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
    depth_max = bounds.nesting_depth_max
    events = message.events
    links = message.links
    if len(events) > SMALL_PARTS_MAX:
        check_parts("events", len(events), sum([event.ByteSize() for event in events]))
    if len(links) > SMALL_PARTS_MAX:
        check_parts("links", len(links), sum([link.ByteSize() for link in links]))
    return Span(
        trace_id=trace_id,
        span_id=span_id + span_id,
        parent_id=parent_id or None,
        name=_text(message.name, "name"),
        kind=kind,
        start_ns=start_ns,
        end_ns=end_ns,
        status_code=status_code,
        status_message=_text(status.message, "status.message") or None,
        attributes=_attributes(message.attributes, depth_max, "attributes"),
        events=tuple([_event(event, depth_max) for event in events]) if events else (),
        links=tuple([_link(link, depth_max) for link in links]) if links else None,
        trace_state=_text(message.trace_state, "trace_state"),
        flags=message.flags,
        dropped_attributes_count=message.dropped_attributes_count,
        dropped_events_count=message.dropped_events_count,
        dropped_links_count=message.dropped_links_count,
        resource=resource,
        scope=scope,
    )


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


def _event(message: Any, depth_max: int) -> Event:
    return Event(
        name=_text(message.name, "The name of an event"),
        time_ns=message.time_unix_nano,
        attributes=_attributes(message.attributes, depth_max, "events.attributes"),
        dropped_attributes_count=message.dropped_attributes_count,
    )


def _link(message: Any, depth_max: int) -> Link:
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
        attributes=_attributes(message.attributes, depth_max, "links.attributes"),
        trace_state=_text(message.trace_state, "links.trace_state"),
        flags=message.flags,
        dropped_attributes_count=message.dropped_attributes_count,
    )


def _resource(message: Any, bounds: Bounds) -> Resource:
    return Resource(
        attributes=nest(_attributes(message.resource.attributes, bounds.nesting_depth_max, "resource.attributes")),
        dropped_attributes_count=message.resource.dropped_attributes_count,
        schema_url=_text(message.schema_url, "resource.schema_url"),
    )


def _scope(message: Any, bounds: Bounds) -> Scope:
    scope = message.scope
    return Scope(
        name=_text(scope.name, "scope.name"),
        version=_text(scope.version, "scope.version"),
        attributes=nest(_attributes(scope.attributes, bounds.nesting_depth_max, "scope.attributes")),
        dropped_attributes_count=scope.dropped_attributes_count,
        schema_url=_text(message.schema_url, "scope.schema_url"),
    )


def _attributes(key_values: Iterable[Any], depth_max: int, where: str) -> Attributes:
    """Return attributes as JSON-ready values.

    Text is tried before ``WhichOneof``, which costs as much as three reads: most values are text (measured with upb, 11
    text attributes: 10 µs a span against 12).
    """
    attributes = {}
    for key_value in key_values:
        key = key_value.key
        value = key_value.value
        text = value.string_value
        if text:
            if "\0" in text:
                raise null_character(at_key(where, key))
            attributes[key] = text
        else:
            attributes[key] = _value(value, depth_max, where, key)
    if "\0" in "".join(attributes):
        raise null_character(f"A key in {where}")
    return attributes


def _value(value: Any, levels_left: int, where: str, key: str) -> Any:
    """Return one value. ``levels_left`` is how many arrays and objects may still be opened; ``where`` and ``key`` name
    it.
    """
    kind = value.WhichOneof("value")
    if kind == "string_value":
        text: str = value.string_value
        if "\0" in text:
            raise null_character(at_key(where, key))
        return text
    if kind == "int_value":
        return value.int_value
    if kind == "bool_value":
        return value.bool_value
    if kind == "double_value":
        return json_double(value.double_value)
    if kind == "bytes_value":
        return json_bytes(value.bytes_value)
    if kind is None:
        return None
    if kind not in ("array_value", "kvlist_value"):
        raise Rejected(RejectionCode.INVALID_TYPE, f"{at_key(where, key)} is a {kind}, which has no meaning in a span.")
    return _container(kind, value, levels_left, where, key)


def _container(kind: str, value: Any, levels_left: int, where: str, key: str) -> list[Any] | dict[str, Any]:
    """Return an array or object; see ``_value``."""
    if levels_left == 0:
        raise Rejected(
            RejectionCode.NESTING_TOO_DEEP, f"{at_key(where, key)} is nested too deep: it exceeds the limit of levels."
        )
    if kind == "array_value":
        return [_value(element, levels_left - 1, where, key) for element in value.array_value.values]
    members = {member.key: _value(member.value, levels_left - 1, where, key) for member in value.kvlist_value.values}
    if "\0" in "".join(members):
        raise null_character(f"A key in {at_key(where, key)}")
    return members


def _text(text: str, where: str) -> str:
    if "\0" in text:
        raise null_character(where)
    return text


def _decode_split(value: bytes, limits: SpanLimits, bounds: Bounds, *, is_refused_whole: bool = False) -> Decoded:
    layout = lay_out(value)
    if not layout.spans and is_refused_whole:  # without a span to reject, the record is rejected
        raise Rejected(
            RejectionCode.UNDECODABLE,
            "The record is not an OTLP request in protobuf: its parser rejects it, and it has no spans.",
        )
    if not layout.spans and first_field(value) is None:
        raise Rejected(RejectionCode.UNDECODABLE, _NO_RESOURCE_SPANS)
    return gather_split(
        layout,
        limits,
        lambda raw, resource, scope: _span(bounds, _parsed_span(raw, bounds), resource, scope),
        lambda raw: _resource(_parsed_alone(ResourceSpansMessage, raw, bounds), bounds),
        lambda raw: _scope(_parsed_alone(ScopeSpansMessage, raw, bounds), bounds),
    )


def _parsed_span(raw: bytes, bounds: Bounds) -> Any:
    try:
        return _parsed_alone(SpanMessage, raw, bounds)
    except Rejected:
        if first_field(raw) is None:
            raise missing_id(b"", **_ID_SIZES) from None
        raise


def _parsed_alone(message_type: Any, raw: bytes, bounds: Bounds) -> Any:
    """Parse one message by itself. Raises ``Rejected`` with what is wrong with it."""
    try:
        return message_type.FromString(raw)
    except DecodeError as exc:
        descriptor = message_type.DESCRIPTOR
        raise fault_of(descriptor, raw, depth_max=bounds.nesting_depth_max) or Rejected(
            RejectionCode.UNDECODABLE, f"The bytes of the {descriptor.name} are not a message of protobuf."
        ) from exc
