"""An OTLP request on the wire: find where its spans lie, and frame pieces of it again.

Source: https://protobuf.dev/programming-guides/encoding. Reads only the frame, ``ResourceSpans`` and ``ScopeSpans``;
the content of a span stays bytes. Needed if protobuf's parser rejects a whole record because of one span, and for dead
letters.
"""

from __future__ import annotations

import operator
from collections.abc import Iterator
from typing import Final

from common.codec.layout import Framing, Layout, ScopePart, SpanParts
from common.steps import Steps, finished

VARINT: Final = 0
FIXED64: Final = 1
LEN: Final = 2
START_GROUP: Final = 3
END_GROUP: Final = 4
FIXED32: Final = 5
GROUPS_MAX: Final = 100  # as many nested groups as protobuf's own parser follows

STEP_PARTS: Final = 1_000
"""Fields, or spans, that are laid out in one step: about half a millisecond."""

_RESOURCE_SPANS: Final = 1  # ExportTraceServiceRequest.resource_spans and TracesData.resource_spans
_SCOPE_SPANS: Final = 2  # ResourceSpans.scope_spans
_SPANS: Final = 2  # ScopeSpans.spans
_SPANS_TAG: Final = _SPANS << 3 | LEN


class BrokenWire(Exception):
    """The bytes are not a sequence of protobuf fields. The message says at which byte."""


def lay_out_request(value: bytes) -> Layout:
    """Return the layout of a request. Raises ``BrokenWire`` if its frame cannot be followed."""
    layout = empty_layout(value)
    finished(lay_out_steps(layout))
    return layout


def empty_layout(value: bytes) -> Layout:
    """Return the layout of a request before its first step."""
    return Layout(value, _FRAMING, resources=[], scopes=[], spans=SpanParts())


def lay_out_steps(layout: Layout) -> Steps[None]:
    """Fill an empty layout. Each resource, each scope and each ``STEP_PARTS`` of their fields is a step.

    Raises as ``lay_out_request``.
    """
    value = layout.value
    for count, (number, wire_type, _, content, after) in enumerate(fields(value, 0, len(value))):
        if number == _RESOURCE_SPANS and wire_type == LEN:
            yield from _lay_out_resource(layout, content, after)
        if number == _RESOURCE_SPANS or not count % STEP_PARTS:
            yield


def _lay_out_resource(layout: Layout, start: int, end: int) -> Steps[None]:
    others = []
    scopes_count = len(layout.scopes)
    for number, wire_type, at, content, after in fields(layout.value, start, end):
        if number == _SCOPE_SPANS and wire_type == LEN:
            yield from _lay_out_scope(layout, content, after)
            yield
        else:
            others.append(layout.value[at:after])
            if not len(others) % STEP_PARTS:
                yield
    if len(layout.scopes) > scopes_count:
        layout.resources.append(b"".join(others))


def _lay_out_scope(layout: Layout, start: int, end: int) -> Steps[None]:
    scope, spans_count = len(layout.scopes), len(layout.spans)
    others: list[bytes] = []
    at = yield from _lay_out_fields(layout, scope, others, start, end, until_span=True)
    while (last_end := _lay_out_spans(layout, scope, at, end)) > at:
        at = last_end
        yield
    yield from _lay_out_fields(layout, scope, others, at, end, until_span=False)
    if len(layout.spans) > spans_count:
        layout.scopes.append(ScopePart(len(layout.resources), b"".join(others)))


def _lay_out_fields(
    layout: Layout, scope: int, others: list[bytes], start: int, end: int, *, until_span: bool
) -> Steps[int]:
    """Add the spans to the layout and other fields to ``others``; return where it stopped."""
    for count, (number, wire_type, at, content, after) in enumerate(fields(layout.value, start, end), 1):
        if number != _SPANS or wire_type != LEN:
            others.append(layout.value[at:after])
        elif until_span:
            return at
        else:
            layout.spans.add(scope, at, content, after)
        if not count % STEP_PARTS:
            yield
    return end


def _lay_out_spans(layout: Layout, scope: int, at: int, end: int) -> int:
    """Add up to ``STEP_PARTS`` spans of which one follows another; return where the last one ends. Takes half of the
    time of ``fields``.

    Stops at a size of more than two bytes, and before the end of the bytes is reached.
    """
    value, add = layout.value, layout.spans.add
    for _ in range(STEP_PARTS):
        if at + 2 >= end or value[at] != _SPANS_TAG:
            break
        size, content = value[at + 1], at + 2
        if size > 0x7F:
            high, content = value[at + 2], at + 3
            if high > 0x7F:
                break
            size = size & 0x7F | high << 7
        if content + size > end:
            break
        add(scope, at, content, content + size)
        at = content + size
    return at


def parts(value: bytes) -> Iterator[tuple[int, int]]:
    """Yield where each resource, scope and span of a request begins and ends. Raises ``BrokenWire``."""
    for resource in delimited_fields(value, (0, len(value)), _RESOURCE_SPANS):
        yield resource
        for scope in delimited_fields(value, resource, _SCOPE_SPANS):
            yield scope
            yield from delimited_fields(value, scope, _SPANS)


def delimited_fields(value: bytes, within: tuple[int, int], wanted: int) -> Iterator[tuple[int, int]]:
    """Yield where the contents of the fields with one number and a length begin and end. Raises ``BrokenWire``."""
    for number, wire_type, _, content, after in fields(value, *within):
        if number == wanted and wire_type == LEN:
            yield content, after


def fields(value: bytes, start: int, end: int) -> Iterator[tuple[int, int, int, int, int]]:
    """Yield the fields between two bytes: number, wire type, and where its tag starts, its content starts, and it ends.

    Plain tuples, because there may be millions. Raises ``BrokenWire``.
    """
    at = start
    while at < end:
        tag, content = varint_at(value, at, end)
        number, wire_type = tag >> 3, tag & 7
        if number == 0:
            raise BrokenWire(f"byte {at} begins a field with the number 0")
        content, after = _extent(value, content, end, number=number, wire_type=wire_type)
        yield number, wire_type, at, content, after
        at = after


def _extent(value: bytes, at: int, end: int, *, number: int, wire_type: int) -> tuple[int, int]:
    """Return where the content of a field begins and ends."""
    if wire_type == VARINT:
        return at, varint_at(value, at, end)[1]
    if wire_type == LEN:
        size, at = varint_at(value, at, end)
        after = at + size
    elif wire_type == FIXED64:
        after = at + 8
    elif wire_type == FIXED32:
        after = at + 4
    elif wire_type == START_GROUP:
        after = _group_end(value, at, end, number=number)
    else:
        raise BrokenWire(f"byte {at} follows a tag of wire type {wire_type}")
    if after > end:
        raise BrokenWire(f"the field at byte {at} is cut off")
    return at, after


def _group_end(value: bytes, at: int, end: int, *, number: int) -> int:
    """Return the byte after the end tag of an unknown group; nested groups are skipped."""
    open_groups = [number]
    while open_groups:
        tag, at = varint_at(value, at, end)
        inner, wire_type = tag >> 3, tag & 7
        if wire_type == START_GROUP and len(open_groups) < GROUPS_MAX:
            open_groups.append(inner)
        elif wire_type == END_GROUP and inner == open_groups[-1]:
            open_groups.pop()
        elif wire_type in (START_GROUP, END_GROUP):
            raise BrokenWire(f"a group before byte {at} does not end")
        else:
            at = _extent(value, at, end, number=inner, wire_type=wire_type)[1]
    return at


def varint_at(value: bytes, at: int, end: int) -> tuple[int, int]:
    """Return an unsigned number of up to ten bytes, and the byte after it. Raises ``BrokenWire``."""
    if at < end and value[at] < 0x80:  # nearly all tags and most lengths
        return value[at], at + 1
    result = 0
    for shift in range(0, 70, 7):
        if at >= end:
            raise BrokenWire(f"the bytes end inside a number at byte {at}")
        byte = value[at]
        at += 1
        result |= (byte & 0x7F) << shift
        if byte < 0x80:
            return result, at
    raise BrokenWire(f"the number before byte {at} is too long")


def encode_delimited(number: int, content: bytes) -> bytes:
    """Return a field with a length."""
    return encode_varint(number << 3 | LEN) + encode_varint(len(content)) + content


def encode_varint(number: int) -> bytes:
    """Return an unsigned number on the wire."""
    encoded = bytearray()
    while number > 0x7F:
        encoded.append(number & 0x7F | 0x80)
        number >>= 7
    encoded.append(number)
    return bytes(encoded)


_FRAMING: Final = Framing(
    scope=lambda wrapper, spans: encode_delimited(_SCOPE_SPANS, wrapper + b"".join(spans)),
    resource=lambda wrapper, scopes: encode_delimited(_RESOURCE_SPANS, wrapper + b"".join(scopes)),
    request=b"".join,
    is_gap=operator.not_,
)
