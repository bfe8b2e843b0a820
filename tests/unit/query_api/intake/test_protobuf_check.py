"""Checking a request accepts only what decoding accepts, with the same traces; and it accepts nearly all of that."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest
from opentelemetry.proto.common.v1.common_pb2 import AnyValue
from opentelemetry.proto.trace.v1.trace_pb2 import Span as SpanMessage

from common.codec import otlp_protobuf
from common.codec.protobuf_cut import BrokenWire, encode_delimited, lay_out_request
from common.errors import Rejected
from common.limits import KIB, MIB, SpanLimits
from common.steps import finished
from query_api.intake.protobuf_check import kept_trace_ids
from tests.strategies import NOW_NS, otlp_requests

SAMPLES = sorted((Path(__file__).parents[3] / "data" / "samples").glob("*.otlp_proto.bin"))
LIMITS = SpanLimits()


def _checked(body: bytes, limits: SpanLimits = LIMITS) -> list[bytes] | None:
    try:
        layout = lay_out_request(body)
    except BrokenWire:
        return None
    return finished(kept_trace_ids(layout, limits=limits, now_ns=NOW_NS))


def _decoded(body: bytes, limits: SpanLimits = LIMITS) -> list[bytes] | None:
    """Return the trace of each span if decoding keeps all of them."""
    try:
        decoded = otlp_protobuf.decode(body, limits=limits, now_ns=NOW_NS)
    except Rejected:
        return None
    if decoded.rejections or decoded.without_repeats() is not decoded or not decoded.spans:
        return None
    return [span.trace_id for span in decoded.spans]


def _request(**members: Any) -> ExportTraceServiceRequest:
    """A request with two spans of one scope, the second of which has these members."""
    request = ExportTraceServiceRequest()
    scope_spans = request.resource_spans.add().scope_spans.add()
    for number in (1, 2):
        span = scope_spans.spans.add(trace_id=b"t" * 16, span_id=bytes([number] * 8), name="n")
        span.start_time_unix_nano = span.end_time_unix_nano = NOW_NS - 0x0101
    for name, value in members.items():
        setattr(scope_spans.spans[1], name, value)
    return request


def _last(request: ExportTraceServiceRequest) -> Any:
    return request.resource_spans[0].scope_spans[0].spans[1]


def _with_value(value: AnyValue) -> bytes:
    request = _request()
    _last(request).attributes.add(key="k").value.CopyFrom(value)
    return bytes(request.SerializeToString())


def _nested(levels: int) -> bytes:
    """A request whose second span has a value that is nested so deep, by turns in arrays and objects."""
    value = AnyValue(string_value="x").SerializeToString()
    for level in range(levels):
        member = encode_delimited(1, b"k") + encode_delimited(2, value)
        value = (
            encode_delimited(5, encode_delimited(1, value))
            if level % 2
            else (encode_delimited(6, encode_delimited(1, member)))
        )
    return _with_raw(encode_delimited(9, encode_delimited(1, b"k") + encode_delimited(2, value)))


def _with_raw(fields: bytes, *, parent: bytes = b"") -> bytes:
    """A request whose second span has further bytes on the wire, ``parent`` after its ids."""
    span = _last(_request()).SerializeToString()
    span = span[:28] + parent + span[28:] + fields
    first = _request().resource_spans[0].scope_spans[0].spans[0].SerializeToString()
    return encode_delimited(1, encode_delimited(2, encode_delimited(2, first) + encode_delimited(2, span)))


@pytest.mark.parametrize("sample", SAMPLES, ids=lambda path: path.name)
def test_samples_are_accepted_as_decoding_accepts_them(sample: Path) -> None:
    body = sample.read_bytes()

    assert _checked(body) == _decoded(body)


@given(otlp_requests())
def test_requests_of_any_content_are_accepted_as_decoding_accepts_them(request: ExportTraceServiceRequest) -> None:
    body = request.SerializeToString()

    assert _checked(body) == _decoded(body)


@given(st.data())
def test_damaged_request_is_accepted_only_as_decoding_accepts_it(data: st.DataObject) -> None:
    body = bytearray(data.draw(otlp_requests()).SerializeToString())
    for _ in range(data.draw(st.integers(1, 3))):
        at = data.draw(st.integers(0, len(body)))
        size = data.draw(st.integers(0, 2))
        body[at : at + size] = data.draw(
            st.sampled_from([b"\0", b"\x18\0", b"\x40\x01", b"2\0", b"\xff"]) | st.binary()
        )

    trace_ids = _checked(bytes(body))

    assert trace_ids is None or trace_ids == _decoded(bytes(body))


PLAIN: dict[str, Callable[[], bytes]] = {
    "zeros in its ids": lambda: _request(trace_id=b"\0" * 15 + b"1", span_id=b"\0" * 7 + b"1").SerializeToString(),
    "a parent": lambda: _request(parent_span_id=b"\0" * 7 + b"1").SerializeToString(),
    "a time with a zero": lambda: _request(start_time_unix_nano=NOW_NS & ~0xFF).SerializeToString(),
    "flags": lambda: _request(flags=0x100).SerializeToString(),
    "an empty status": lambda: _with_raw(b"\x7a\0"),
    "an empty parent id": lambda: _with_raw(b"\x22\0"),
    "an empty parent id where the Collector writes it": lambda: _with_raw(b"", parent=b"\x22\0"),
    "a zero": lambda: _with_value(AnyValue(int_value=0)),
    "a number with zeros": lambda: _with_value(AnyValue(double_value=0.5)),
    "a zero before its key": lambda: _with_raw(b"\x4a\x07\x12\x02\x18\0\x0a\x01k"),
    "an empty text": lambda: _with_value(AnyValue(string_value="")),
    "a zero after a long text": lambda: _with_raw(
        encode_delimited(3, b"x" * 20_000) + b"\x4a\x07\x0a\x01k\x12\x02\x18\0"
    ),
    "false": lambda: _with_value(AnyValue(bool_value=False)),
    "bytes with a zero": lambda: _with_value(AnyValue(bytes_value=b"\0")),
    "no value": lambda: _with_value(AnyValue()),
    "a deep value": lambda: _nested(LIMITS.nesting_depth_max),
}


@pytest.mark.parametrize("name", PLAIN)
def test_span_that_is_allowed_is_accepted(name: str) -> None:
    body = PLAIN[name]()

    assert _checked(body) == _decoded(body) == [span_trace(body, 0), span_trace(body, 1)]


def span_trace(body: bytes, index: int) -> bytes:
    request = ExportTraceServiceRequest.FromString(body)
    return bytes(request.resource_spans[0].scope_spans[0].spans[index].trace_id)


def _of_resource() -> bytes:
    request = _request()
    request.resource_spans[0].resource.attributes.add(key="a\0b")
    return bytes(request.SerializeToString())


def _of_scope() -> bytes:
    request = _request()
    request.resource_spans[0].scope_spans[0].scope.name = "a\0b"
    return bytes(request.SerializeToString())


def _of_second_scope() -> bytes:
    request = _request()
    request.resource_spans[0].scope_spans.append(request.resource_spans[0].scope_spans[0])
    for number, span in enumerate(request.resource_spans[0].scope_spans[1].spans):
        span.span_id = bytes([number + 3] * 8)
    request.resource_spans[0].scope_spans[1].scope.version = "\0"
    return bytes(request.SerializeToString())


def _with_link(trace_id: bytes) -> bytes:
    request = _request()
    _last(request).links.add(trace_id=trace_id, span_id=b"12345678")
    return bytes(request.SerializeToString())


def _with_event(text: str) -> bytes:
    request = _request()
    _last(request).events.add(name=text, time_unix_nano=1)
    return bytes(request.SerializeToString())


def _hidden_null() -> bytes:
    """A text with U+0000, and an id with as many zeros less: the sum is that of a span without the text."""
    return bytes(_request(trace_id=b"\0" + b"t" * 15, name="n\0").SerializeToString())


def _with_resource(fields: bytes) -> bytes:
    scope_spans = _request().resource_spans[0].scope_spans[0].SerializeToString()
    return encode_delimited(1, encode_delimited(1, fields) + encode_delimited(2, scope_spans))


def _last_text(text: bytes) -> bytes:
    """A request whose second span ends with a text."""
    return _with_raw(encode_delimited(5, text))


REPAIRED: dict[str, Callable[[], bytes]] = {
    "U+0000 in its name": lambda: _request(name="\0").SerializeToString(),
    "U+0000 beside zeros in its id": _hidden_null,
    "U+0000 at its end that looks like an empty parent id": lambda: _last_text(
        b"\x22\0\x12\x08" + b"\2" * 8 + b"\x0a\x10" + b"t" * 16
    ),
    "U+0000 at its end that looks like an empty status": lambda: _last_text(b"z\0"),
    "U+0000 in the key of a zero": lambda: _with_raw(b"\x4a\x07\x0a\x01\0\x12\x02\x18\0"),
    "U+0000 in a key without a value": lambda: _with_raw(b"\x4a\x06\x0a\x04\x12\x02\x18\0"),
    "U+0000 after a zero": lambda: _with_raw(b"\x4a\x07\x0a\x01k\x12\x02\x18\0" + b"\x2a\x01\0"),
    "U+0000 in a long text": lambda: _with_value(AnyValue(string_value="x" * 20_000 + "\0")),
    "U+0000 in its trace state": lambda: _request(trace_state="a\0").SerializeToString(),
    "U+0000 in a value": lambda: _with_value(AnyValue(string_value="\0")),
    "U+0000 that looks like a zero": lambda: _with_value(AnyValue(string_value="\x12\x02\x18\0")),
    "U+0000 in an event": lambda: _with_event("\0"),
    "U+0000 in its resource": _of_resource,
    "U+0000 in its scope": _of_scope,
    "U+0000 in the second scope": _of_second_scope,
    "a text that is not UTF-8": lambda: _with_raw(b"\x2a\x01\xff"),
}


@pytest.mark.parametrize("name", REPAIRED)
def test_span_whose_texts_are_repaired_is_accepted(name: str) -> None:
    body = REPAIRED[name]()

    trace_ids = _decoded(body)

    assert trace_ids is not None
    assert _checked(body) == trace_ids


TOO_DEEP: dict[str, Callable[[], bytes]] = {
    "a value too deep": lambda: _nested(LIMITS.nesting_depth_max + 1),
    "a value past the parser's depth": lambda: _nested(45),
}


@pytest.mark.parametrize("name", TOO_DEEP)
def test_span_with_values_that_are_too_deep_is_accepted(name: str) -> None:
    body = TOO_DEEP[name]()

    trace_ids = _decoded(body)

    assert trace_ids is not None
    assert _checked(body) == trace_ids


BAD: dict[str, Callable[[], bytes]] = {
    "no trace id": lambda: _request(trace_id=b"").SerializeToString(),
    "a short trace id": lambda: _request(trace_id=b"t" * 15).SerializeToString(),
    "a trace id of zeros": lambda: _request(trace_id=bytes(16)).SerializeToString(),
    "a long span id": lambda: _request(span_id=b"s" * 9).SerializeToString(),
    "a span id of zeros": lambda: _request(span_id=bytes(8)).SerializeToString(),
    "a short parent id": lambda: _request(parent_span_id=b"p").SerializeToString(),
    "no start": lambda: _request(start_time_unix_nano=0).SerializeToString(),
    "an end in the far future": lambda: _request(end_time_unix_nano=2**63).SerializeToString(),
    "an unknown kind": lambda: _request(kind=6).SerializeToString(),
    "a negative kind": lambda: _request(kind=-1).SerializeToString(),
    "a negative kind in five bytes": lambda: _with_raw(b"\x30\xff\xff\xff\xff\x0f"),
    "an unknown status": lambda: _with_raw(b"\x7a\x02\x18\x03"),
    "a value of a kind without meaning": lambda: _with_value(AnyValue(string_value_strindex=1)),
    "a link with a short id": lambda: _with_link(b"short"),
}


@pytest.mark.parametrize("name", BAD)
def test_span_that_is_not_allowed_is_left_to_decoding(name: str) -> None:
    body = BAD[name]()

    assert _decoded(body) is None
    assert _checked(body) is None


@pytest.mark.parametrize("body", [b"", b"\x0a\0", b"\x12\x01a", b"\x0a\x05\x12", b"not protobuf"])
def test_request_without_spans_is_left_to_decoding(body: bytes) -> None:
    assert _checked(body) is None


def test_repeated_span_is_left_to_decoding() -> None:
    assert _checked(_request(span_id=b"\1" * 8).SerializeToString()) is None
    assert _checked(_request(span_id=b"\1" * 8, trace_id=b"u" * 16).SerializeToString()) == [b"t" * 16, b"u" * 16]


def test_sizes_are_limited_as_in_decoding() -> None:
    body = bytes(_request(name="n" * 100).SerializeToString())
    size = max(part.end - part.content for part in lay_out_request(body).spans)

    deep = _nested(3)
    for depth_max in (2, 3):
        limits = replace(LIMITS, nesting_depth_max=depth_max)
        assert _checked(deep, limits) == _decoded(deep, limits)
    for limits in (
        replace(LIMITS, record_bytes_max=len(body)),
        replace(LIMITS, record_bytes_max=len(body) - 1),
        replace(LIMITS, span_bytes_max=size),
        replace(LIMITS, span_bytes_max=size - 1),
    ):
        assert _checked(body, limits) == _decoded(body, limits)


@pytest.mark.parametrize("bad", [None, 0, 17_000, 29_999])
def test_large_request_is_checked(bad: int | None) -> None:
    request = ExportTraceServiceRequest()
    for first in range(0, 30_000, 10_000):
        scope_spans = request.resource_spans.add(schema_url=f"r{first}").scope_spans.add()
        for number in range(first, first + 10_000):
            span = scope_spans.spans.add(trace_id=b"t" * 16, span_id=(number + 1).to_bytes(8, "big"), name="n" * 30)
            span.start_time_unix_nano = span.end_time_unix_nano = NOW_NS
            span.kind = SpanMessage.SPAN_KIND_CLIENT
            if number == bad:
                span.span_id = b"short"
    body = bytes(request.SerializeToString())
    assert len(body) > 2 * MIB

    assert _checked(body) == (None if bad is not None else [b"t" * 16] * 30_000)


def _large_array(bytes_count: int) -> bytes:
    return encode_delimited(9, encode_delimited(2, encode_delimited(5, b"\x0a\0" * (bytes_count // 2))))


SLOW: dict[str, Callable[[], bytes]] = {
    "a large span": lambda: _with_raw(encode_delimited(5, b"n" * (128 * KIB))),
    "a large array": lambda: _with_raw(_large_array(17 * KIB)),
    "many attributes beside an array": lambda: _with_raw(b"\x4a\0" * 2_000 + _large_array(2)),
    "many attributes of an event beside an array": lambda: _with_raw(
        encode_delimited(11, b"\x1a\0" * 2_000) + _large_array(2)
    ),
    "a large resource": lambda: _with_resource(b"\x0a\0" * 9 * KIB),
}


@pytest.mark.parametrize("name", SLOW)
def test_request_that_takes_long_to_check_is_left_to_decoding(name: str) -> None:
    assert _checked(SLOW[name]()) is None


@pytest.mark.parametrize(
    "fields",
    [encode_delimited(5, b"n" * 100 * KIB), b"\x4a\0" * 60_000, encode_delimited(11, b"") * 16, _large_array(2)],
)
def test_span_that_is_quickly_checked_is_accepted(fields: bytes) -> None:
    body = _with_raw(fields)

    assert _checked(body) == _decoded(body) == [b"t" * 16] * 2
