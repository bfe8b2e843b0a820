"""Check that every span of a request in protobuf can be kept, without building the spans.

Protobuf parses the spans, and what a span needs to be kept is read from its messages. Texts are bytes here: the worker
repairs one that is not UTF-8 or holds U+0000. Arrays and objects, whose paths may be too long, are unknown here: a span
with them has more bytes on the wire than in known fields, and is decoded. So is one span of each scope, because its
resource and scope may be rejected. Whatever is not certain is left to ``otlp_protobuf.decode``, which knows the
reasons.

A step takes less than a millisecond, and a few for a request that is made to be slow: that is what the limits are for.
"""

from __future__ import annotations

from functools import cache
from typing import Any, Final

from google.protobuf.descriptor_pool import DescriptorPool
from google.protobuf.message import DecodeError
from google.protobuf.message_factory import GetMessageClass

from common.codec import otlp_protobuf
from common.codec.checks import PART_BYTES_MIN, SMALL_PARTS_MAX, Bounds, bounds_of
from common.codec.layout import Layout, SpanPart
from common.codec.otlp_schema import CHECKED, schema_file
from common.errors import Rejected
from common.ids import ZERO_ID
from common.limits import KIB, SpanLimits
from common.steps import Steps

CHUNK_BYTES_MAX: Final = 32 * KIB
"""Spans that are checked in one step, unless one is larger."""

SPAN_BYTES_MAX: Final = 128 * KIB
"""A larger span is left to decoding: parsing one of empty attributes takes long."""

CONTAINER_BYTES_MAX: Final = 16 * KIB
MEMBERS_MAX: Final = 2_000
WRAPPER_BYTES_MAX: Final = 16 * KIB
"""Of the spans that are decoded in one step: the bytes of their arrays and objects; their attributes, events and links;
the bytes of a resource or scope."""

_PACKAGE: Final = "clearspan.otlp_check"
_ZERO_SPAN_ID: Final = ZERO_ID[:8]


def kept_trace_ids(layout: Layout, *, limits: SpanLimits, now_ns: int) -> Steps[list[bytes] | None]:
    """Return the trace id of each span of a request, in wire order.

    ``None`` if ``otlp_protobuf.decode`` must say whether every span can be kept, or if two spans have the same ids.
    """
    if not layout.spans or len(layout.value) > limits.record_bytes_max:
        return None
    if any(
        len(wrapper) > WRAPPER_BYTES_MAX for wrapper in (*layout.resources, *(one.wrapper for one in layout.scopes))
    ):
        return None
    bounds, bytes_max = bounds_of(limits, now_ns=now_ns), min(SPAN_BYTES_MAX, limits.span_bytes_max)
    trace_ids: list[bytes] = []
    known: set[bytes] = set()
    scope = -1
    for first, last in layout.spans.runs(bytes_max=min(CHUNK_BYTES_MAX, bytes_max)):
        begin, end = layout.spans[first], layout.spans[last]
        spans = _parsed(layout.value[begin.start : end.end]) if end.end - begin.content <= bytes_max else None
        ids = None if spans is None else _ids(spans, bounds)
        if spans is None or ids is None:
            return None
        doubtful = _spans_to_decode(layout, spans, first, begins_scope=begin.scope != scope)
        if not _are_kept(layout, doubtful, limits, now_ns=now_ns):
            return None
        scope = begin.scope
        known.update(ids)
        trace_ids += [both[:16] for both in ids]
        if len(known) < len(trace_ids):
            return None
        yield
    return trace_ids


def _parsed(raw: bytes) -> Any:
    """Return the messages of spans that follow one another on the wire; ``None`` if the parser refuses one."""
    try:
        return _spans_class().FromString(raw)
    except DecodeError:
        return None


@cache
def _spans_class() -> Any:
    pool = DescriptorPool()
    pool.Add(schema_file(_PACKAGE, CHECKED))
    return GetMessageClass(pool.FindMessageTypeByName(f"{_PACKAGE}.ScopeSpans"))


def _ids(spans: Any, bounds: Bounds) -> list[bytes] | None:
    """Return the trace id and the span id of each span, joined; ``None`` if one may have to be rejected."""
    earliest_ns, latest_ns, _ = bounds
    ids = []
    for span in spans.spans:
        trace_id, span_id = span.trace_id, span.span_id
        if len(trace_id) != 16 or len(span_id) != 8 or trace_id == ZERO_ID or span_id == _ZERO_SPAN_ID:
            return None
        if len(span.parent_span_id) not in (0, 8):
            return None
        if not earliest_ns <= span.start_time_unix_nano <= latest_ns:
            return None
        if not earliest_ns <= span.end_time_unix_nano <= latest_ns:
            return None
        if not (0 <= span.kind <= 5 and 0 <= span.status.code <= 2):
            return None
        events, links = span.events, span.links
        if (events and _are_small(events)) or (links and (_are_small(links) or not all(map(_has_ids, links)))):
            return None
        ids.append(trace_id + span_id)
    return ids


def _are_small(parts: Any) -> bool:
    """Return whether many events or links have less than the least number of bytes on average."""
    return len(parts) > SMALL_PARTS_MAX and sum(part.ByteSize() for part in parts) < len(parts) * PART_BYTES_MIN


def _has_ids(link: Any) -> bool:
    return len(link.trace_id) in (0, 16) and len(link.span_id) in (0, 8)


def _spans_to_decode(layout: Layout, spans: Any, first: int, *, begins_scope: bool) -> dict[int, Any]:
    """Return the messages by their indexes, ``first`` being that of the first. Discards what they do not know."""
    spans.DiscardUnknownFields()
    messages, wire = spans.spans, layout.spans
    if spans.ByteSize() == wire[first + len(messages) - 1].end - wire[first].start:
        return {first: messages[0]} if begins_scope else {}
    return {
        index: message
        for index, message in enumerate(messages, first)
        if message.ByteSize() != _size(wire[index]) or (begins_scope and index == first)
    }


def _are_kept(layout: Layout, messages: dict[int, Any], limits: SpanLimits, *, now_ns: int) -> bool:
    """Return whether decoding keeps these spans; false also if it may take long."""
    if not messages:
        return True
    unknown_bytes = sum(_size(layout.spans[index]) - message.ByteSize() for index, message in messages.items())
    if unknown_bytes > CONTAINER_BYTES_MAX or sum(map(_members_count, messages.values())) > MEMBERS_MAX:
        return False
    try:
        decoded = otlp_protobuf.decode(layout.cut(list(messages)), limits=limits, now_ns=now_ns)
    except Rejected:
        return False
    return not decoded.rejections


def _size(part: SpanPart) -> int:
    return part.end - part.content


def _members_count(span: Any) -> int:
    return sum(1 + len(part.attributes) for part in (span, *span.events, *span.links))
