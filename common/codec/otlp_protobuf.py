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
    Bounds,
    bounds_of,
    check_record_size,
    check_span_size,
    check_times,
    json_bytes,
    json_double,
    nesting_too_deep,
    null_character,
    shown,
    unknown_enum,
)
from common.codec.decoded import NO_TRACE_ID, Decoded, Group, gather, gather_split, guarded, missing_id
from common.codec.layout import Layout
from common.codec.protobuf_cut import LEN, BrokenWire, delimited_fields, fields, is_utf8, lay_out_request
from common.errors import Rejected, RejectionCode
from common.ids import ZERO_ID
from common.limits import MIB, SpanLimits
from common.nesting import nest
from common.span import Attributes, Event, Link, Resource, Scope, Span

WHOLE_BYTES_MAX: Final = MIB
"""A record up to this size is parsed at once: at most 90 MiB of messages, and 5 % faster than span by span."""

_MESSAGES_DEPTH_MAX: Final = 100  # protobuf's own limit on messages inside messages
_VALUE_WRAPPERS: Final = frozenset({"AnyValue", "ArrayValue", "KeyValueList"})
_KEY_SHOWN_MAX: Final = 80
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
    return _resource(ResourceSpansMessage(resource=ResourceMessage.FromString(raw), schema_url=schema_url), bounds)


def read_scope(raw: bytes, schema_url: str, bounds: Bounds) -> Scope:
    """Return a scope whose message came alone."""
    return _scope(ScopeSpansMessage(scope=ScopeMessage.FromString(raw), schema_url=schema_url), bounds)


def read_event(raw: bytes, bounds: Bounds) -> Event:
    """Return an event whose message came alone."""
    return _event(SpanMessage.Event.FromString(raw), bounds.nesting_depth_max)


def read_link(raw: bytes, bounds: Bounds) -> Link:
    """Return a link whose message came alone."""
    return _link(SpanMessage.Link.FromString(raw), bounds.nesting_depth_max)


def read_array(raw: bytes, bounds: Bounds) -> Any:
    """Return an array among values whose message came alone."""
    value = AnyValue(array_value=ArrayValue.FromString(raw))
    return _value(value, bounds.nesting_depth_max, "attributes", "")


def read_object(raw: bytes, bounds: Bounds) -> Any:
    """Return an object among values whose message came alone."""
    value = AnyValue(kvlist_value=KeyValueList.FromString(raw))
    return _value(value, bounds.nesting_depth_max, "attributes", "")


def _groups(request: Any, bounds: Bounds) -> Iterator[Group]:
    for resource_spans in request.resource_spans:
        resource: Resource | Rejected | None = None
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
                raise null_character(f"{where}.{key}")
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
        return _text(value.string_value, f"{where}.{key}")
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
        raise Rejected(RejectionCode.INVALID_TYPE, f"{where}.{key} is a {kind}, which has no meaning in a span.")
    if levels_left == 0:
        raise Rejected(
            RejectionCode.NESTING_TOO_DEEP, f"{where}.{key} is nested too deep: it exceeds the limit of levels."
        )
    if kind == "array_value":
        return [_value(element, levels_left - 1, where, key) for element in value.array_value.values]
    return {
        _text(member.key, f"A key in {where}.{key}"): _value(member.value, levels_left - 1, where, key)
        for member in value.kvlist_value.values
    }


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
    if not layout.spans and _first_field(value) is None:
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
        if _first_field(raw) is None:
            raise missing_id(b"", **_ID_SIZES) from None
        raise


def _parsed_alone(message_type: Any, raw: bytes, bounds: Bounds) -> Any:
    """Parse one message by itself. Raises ``Rejected`` with what is wrong with it."""
    try:
        return message_type.FromString(raw)
    except DecodeError as exc:
        descriptor = message_type.DESCRIPTOR
        raise _fault(descriptor, raw, "", _MESSAGES_DEPTH_MAX, bounds) or Rejected(
            RejectionCode.UNDECODABLE, f"The bytes of the {descriptor.name} are not a message of protobuf."
        ) from exc


def _fault(descriptor: Any, raw: bytes, where: str, levels_left: int, bounds: Bounds) -> Rejected | None:
    """Return why the parser rejects a message: the first text that is not UTF-8, nesting, or a part that ends too
    early.
    """
    if levels_left == 0:
        return nesting_too_deep(where, bounds.nesting_depth_max)
    try:
        for number, wire_type, _, start, end in fields(raw, 0, len(raw)):
            known = descriptor.fields_by_number.get(number)
            if known is None or wire_type != LEN:
                continue
            content = raw[start:end]
            place = _place(descriptor, known, content, where)
            fault = None
            if known.message_type is not None:
                fault = _fault(known.message_type, content, place, levels_left - 1, bounds)
            elif known.type == known.TYPE_STRING and not is_utf8(content):
                fault = Rejected(RejectionCode.INVALID_UTF8, f"{place} is not UTF-8; text must be UTF-8.")
            if fault is not None:
                return fault
    except BrokenWire as exc:
        return Rejected(RejectionCode.UNDECODABLE, f"{where or descriptor.name} is not a message of protobuf: {exc}.")
    return None


def _place(descriptor: Any, known: Any, content: bytes, where: str) -> str:
    """Return how an error names a field: members by name, attributes by key, the wrappers of a value not at all."""
    if descriptor.name in _VALUE_WRAPPERS:
        return where
    if descriptor.name == "KeyValue":
        return where if known.message_type is not None else f"A key in {where.rpartition('.')[0]}"
    place = f"{where}.{known.name}" if where else str(known.name)
    if known.message_type is None or known.message_type.name != "KeyValue":
        return place
    key = _first_field(content) or b""
    return f"{place}.{key[:_KEY_SHOWN_MAX].decode(errors='replace')}"


def _first_field(raw: bytes) -> bytes | None:
    """Return the first field 1 of a message that may be broken: of a span its trace id, of an attribute its key."""
    try:
        return next((raw[start:end] for start, end in delimited_fields(raw, (0, len(raw)), 1)), None)
    except BrokenWire:
        return None
