"""Find out that every span of a request in protobuf can be kept, without building the spans.

It takes a quarter of the time of ``otlp_protobuf.decode``. Protobuf's parser checks texts and the frame, with messages
that are those of OTLP except for values: a value knows its level, and those on the last level hold no values. So what
is nested too deep, and every unknown kind of value, are unknown fields. Whether there are any shows in the size of the
request when it is encoded again without them.

U+0000 is searched as a byte, and each zero is looked up: ids, times and numbers hold zeros too. A span with zeros
elsewhere is decoded, and so are spans with links, and the first of each scope, for the sake of its resource and scope.
Anything that is not certain is left to the decoder, which knows the reasons.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import lru_cache
from itertools import chain
from struct import Struct
from typing import Any, Final

from google.protobuf.descriptor_pb2 import DescriptorProto, FieldDescriptorProto, FileDescriptorProto
from google.protobuf.descriptor_pool import DescriptorPool
from google.protobuf.message import DecodeError
from google.protobuf.message_factory import GetMessageClass
from opentelemetry.proto.collector.trace.v1 import trace_service_pb2
from opentelemetry.proto.common.v1 import common_pb2
from opentelemetry.proto.resource.v1 import resource_pb2
from opentelemetry.proto.trace.v1 import trace_pb2

from common.codec.checks import Bounds, bounds_of
from common.codec.layout import Layout, SpanPart
from common.codec.otlp_protobuf import WHOLE_BYTES_MAX, decode
from common.codec.protobuf_cut import FIXED64, LEN
from common.errors import Rejected
from common.ids import ZERO_ID
from common.limits import SpanLimits

SPANS_MIN: Final = 16
"""Spans of a scope, on average, from which checking takes less time than decoding: one of each scope is decoded."""

LEVELS_MAX: Final = 12
"""Values that are nested deeper are decoded: protobuf finds unknown fields down to the 64th message only."""

_PACKAGE: Final = "clearspan.check"
_VALUES: Final = ("AnyValue", "ArrayValue", "KeyValueList", "KeyValue")
_OPENING: Final = frozenset({"array_value", "kvlist_value"})
_LEVELED: Final = {f".{common_pb2.DESCRIPTOR.package}.{name}": name for name in _VALUES}
_ZERO_SPAN_ID: Final = bytes(8)
_TIMES: Final = Struct("<QQ")
_FLAGS: Final = Struct("<I")
_ID_TAGS: Final = frozenset(b"\x0a\x12\x22")  # the ids of the trace, the span and its parent
_ATTRIBUTE_TAG: Final = 0x4A
_FLAGS_TAG: Final = b"\x85\x01"
_VALUE_TAG: Final = 0x12
_DOUBLE: Final = b"\x12\x09\x21"
_ZERO_VALUES: Final = frozenset({b"\x12\x00", b"\x12\x02\x0a\x00", b"\x12\x02\x10\x00", b"\x12\x02\x18\x00"})
"""No value, an empty text, false and 0, each with the field of an attribute that holds it."""


def plain_trace_ids(layout: Layout, *, limits: SpanLimits, now_ns: int) -> Sequence[bytes] | None:
    """Return the trace id of each span of a request, in wire order.

    ``None`` if ``otlp_protobuf.decode`` must say whether every span can be kept, if two spans have the same ids, or if
    scopes have so few spans that decoding takes less time.
    """
    spans = layout.spans
    if len(spans) < SPANS_MIN * len(layout.scopes) or not spans or len(layout.value) > limits.record_bytes_max:
        return None
    bounds = bounds_of(limits, now_ns=now_ns)
    trace_ids: list[bytes] = []
    span_ids: list[bytes] = []
    suspects: list[int] = []
    last_scope = -1
    messages = chain.from_iterable(_messages(chunk, bounds) for chunk in _chunks(layout))
    try:
        for index, (part, message) in enumerate(zip(spans, messages, strict=True)):
            scope, _, content, end = part
            trace_id, span_id = message.trace_id, message.span_id
            if end - content > limits.span_bytes_max or not _is_plain(message, trace_id, span_id, bounds):
                return None
            zeros_count = layout.value.count(0, content, end)
            if (
                scope != last_scope
                or message.links
                or (
                    zeros_count
                    and zeros_count != _known_zeros(message, (trace_id, span_id), layout.value, content)
                    and _has_null(layout.value, content, end)
                )
            ):
                suspects.append(index)
                last_scope = scope
            trace_ids.append(trace_id)
            span_ids.append(span_id)
        suspected = decode(layout.cut(suspects), limits=limits, now_ns=now_ns)
    except (_NotPlain, Rejected):
        return None
    if suspected.rejections or len(set(zip(trace_ids, span_ids, strict=True))) != len(spans):
        return None
    return trace_ids


class _NotPlain(Exception):
    """The parser refuses a request, or finds something in it that it does not know."""


def _is_plain(message: Any, trace_id: bytes, span_id: bytes, bounds: Bounds) -> bool:
    """Return whether ids, times and enums are allowed."""
    return (
        len(trace_id) == 16
        and len(span_id) == 8
        and trace_id != ZERO_ID
        and span_id != _ZERO_SPAN_ID
        and len(message.parent_span_id) in (0, 8)
        and bounds.earliest_ns <= message.start_time_unix_nano <= bounds.latest_ns
        and bounds.earliest_ns <= message.end_time_unix_nano <= bounds.latest_ns
        and 0 <= message.kind <= 5
        and 0 <= message.status.code <= 2
    )


def _known_zeros(message: Any, ids: tuple[bytes, bytes], request: bytes, at: int) -> int:
    """Return how many bytes of a span are zeros for sure: in ids, times and flags, and the sizes of empty members.

    ``at``: where the span begins. The Collector writes an empty id of the parent after the others, and an empty status.
    """
    times = _TIMES.pack(message.start_time_unix_nano, message.end_time_unix_nano)
    flags = _FLAGS.pack(message.flags) if message.flags else b""
    zeros_count = b"".join((*ids, message.parent_span_id, times, flags)).count(0)
    if request.startswith(b"\x0a\x10%b\x12\x08%b\x22\x00" % ids, at):
        zeros_count += 1
    if message.HasField("status") and not message.status.ByteSize():
        zeros_count += 1
    return zeros_count


def _has_null(request: bytes, at: int, end: int) -> bool:
    """Return whether a text of a span may contain U+0000: whether one of its bytes is zero and not plainly a number's.

    The span lies between two bytes. Only the fields up to its last zero are read.
    """
    zero = request.find(0, at, end)
    while zero >= 0:
        tag, content = request[at], at + 1
        wire_type = tag & 7
        if tag == _FLAGS_TAG[0] and request.startswith(_FLAGS_TAG, at):
            after = at + len(_FLAGS_TAG) + 4
        elif tag > 0x7F:
            return True
        elif wire_type == LEN:
            size, content = _size(request, content)
            after = content + size
        elif wire_type == FIXED64:
            after = content + 8
        else:
            after = _after_varint(request, content)
        if zero < after:
            is_text = wire_type == LEN and content < after and tag not in _ID_TAGS
            if is_text and not (tag == _ATTRIBUTE_TAG and _is_number(request[content:after])):
                return True
            zero = request.find(0, after, end)
        at = after
    return False


def _size(request: bytes, at: int) -> tuple[int, int]:
    """Return a size, and the byte after it."""
    size = request[at]
    if size < 0x80:
        return size, at + 1
    after = _after_varint(request, at)
    return sum((byte & 0x7F) << 7 * place for place, byte in enumerate(request[at:after])), after


def _after_varint(request: bytes, at: int) -> int:
    while request[at] > 0x7F:
        at += 1
    return at + 1


def _is_number(attribute: bytes) -> bool:
    """Return whether an attribute has a key without zeros, and a value that is not a text with content."""
    if attribute[1] > 0x7F:
        return False
    second_at = 2 + attribute[1]
    first, second = attribute[:second_at], attribute[second_at:]
    key, value = (second, first) if attribute[0] == _VALUE_TAG else (first, second)
    is_double = value.startswith(_DOUBLE) and len(value) == len(_DOUBLE) + 8
    return (is_double or value in _ZERO_VALUES) and 0 not in key


def _chunks(layout: Layout) -> Iterator[bytes]:
    """Yield requests with all spans of a request, in order, that are small enough to be parsed at once.

    Messages take up to ninety times the bytes of the request.
    """
    if len(layout.value) <= WHOLE_BYTES_MAX:
        yield layout.value
        return
    chunk: list[SpanPart] = []
    bytes_count = 0
    for part in layout.spans:
        size = part.end - part.start
        if chunk and bytes_count + size > WHOLE_BYTES_MAX:
            yield layout.request_of(chunk)
            chunk, bytes_count = [], 0
        chunk.append(part)
        bytes_count += size
    yield layout.request_of(chunk)


def _messages(request: bytes, bounds: Bounds) -> Iterator[Any]:
    """Yield the messages of all spans. Raises ``_NotPlain``."""
    if len(request) > 2 * WHOLE_BYTES_MAX:  # a huge span, resource or scope
        raise _NotPlain
    try:
        message = _without_unknown_fields(_request_class(min(bounds.nesting_depth_max, LEVELS_MAX)), request)
    except DecodeError as exc:
        raise _NotPlain from exc
    for resource_spans in message.resource_spans:
        for scope_spans in resource_spans.scope_spans:
            yield from scope_spans.spans


def _without_unknown_fields(kind: Any, request: bytes) -> Any:
    """Parse a request. Raises ``_NotPlain`` if anything in it is unknown, ``DecodeError``."""
    message = kind.FromString(request)
    message.DiscardUnknownFields()
    size = message.ByteSize()
    # Requests that are not in the shortest form, like those of the Collector, are compared with their shortest form.
    if size != len(request) and size != kind.FromString(request).ByteSize():
        raise _NotPlain
    return message


@lru_cache(maxsize=4)
def _request_class(depth_max: int) -> Any:
    """Return a class like ``ExportTraceServiceRequest`` whose values open at most ``depth_max`` arrays and objects."""
    file = FileDescriptorProto(name="check.proto", package=_PACKAGE, syntax="proto3")
    for module in (common_pb2, resource_pb2, trace_pb2, trace_service_pb2):
        source = FileDescriptorProto()
        module.DESCRIPTOR.CopyToProto(source)
        for message in source.message_type:
            levels_count = depth_max + 1 if message.name in _VALUES else 1
            file.message_type.extend(
                _at_level(message, level, is_last=level == depth_max) for level in range(levels_count)
            )
    pool = DescriptorPool()
    pool.Add(file)
    name = trace_service_pb2.ExportTraceServiceRequest.DESCRIPTOR.name
    return GetMessageClass(pool.FindMessageTypeByName(f"{_PACKAGE}.{name}"))


def _at_level(message: DescriptorProto, level: int, *, is_last: bool) -> DescriptorProto:
    """Return a message for one level of values; a message that is not part of a value is on level 0."""
    leveled = DescriptorProto()
    leveled.CopyFrom(message)
    if message.name in _VALUES:
        leveled.name = f"{message.name}{level}"
        del leveled.field[:]
        leveled.field.extend(
            field
            for field in message.field
            if not field.name.endswith("_strindex") and not (is_last and field.name in _OPENING)
        )
    for each in (leveled, *leveled.nested_type):
        for field in each.field:
            if field.type_name:  # a message or an enum
                field.type_name = _type_at(field, level + 1 if field.name in _OPENING else level)
    return leveled


def _type_at(field: FieldDescriptorProto, level: int) -> str:
    if field.type_name in _LEVELED:
        return f".{_PACKAGE}.{_LEVELED[field.type_name]}{level}"
    return f".{_PACKAGE}.{field.type_name.partition('.v1.')[2]}"
