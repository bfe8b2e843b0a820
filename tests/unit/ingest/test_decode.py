"""Which codec reads a record: its header, else its topic."""

from __future__ import annotations

import json

import pytest

from common.codec.decoded import Decoded, Rejections
from common.errors import Rejected, RejectionCode
from common.kafka.record import ENCODINGS, Record
from common.limits import SpanLimits
from common.settings import Encoding
from ingest.decode import decode, encoding_of, lay_out
from tests.strategies import NOW_NS

SPAN = json.dumps({"trace_id": "a" * 32, "span_id": "b" * 16}).encode()


def a_record(value, content_type=None):
    headers = () if content_type is None else (("content-type", content_type),)
    return Record("topic", 0, 0, 0, None, value, headers)


def read(record, encoding):
    return decode(record, encoding=encoding, limits=SpanLimits(), now_ns=NOW_NS)


@pytest.mark.parametrize("encoding", Encoding)
def test_topic_decides_the_encoding_without_a_header(encoding):
    assert encoding_of(a_record(SPAN), encoding) is encoding


@pytest.mark.parametrize(("content_type", "encoding"), ENCODINGS.items())
@pytest.mark.parametrize("spelling", ["{}", "{};charset=utf-8", " {} ; charset=UTF-8"])
def test_content_type_header_wins_in_any_case_with_any_parameters(content_type, encoding, spelling):
    header = spelling.format(content_type)

    for spelled in (header, header.upper()):
        assert encoding_of(a_record(SPAN, spelled.encode()), Encoding.OTLP_PROTO) is encoding


def test_span_object_is_read_on_a_topic_of_another_encoding():
    record = a_record(SPAN, b"application/vnd.clearspan.span+json")

    assert len(read(record, Encoding.OTLP_PROTO).spans) == 1
    assert lay_out(record, Encoding.OTLP_PROTO).cut([0]) == SPAN


def test_span_without_times_has_the_same_time_when_read_again():
    record = a_record(SPAN)._replace(timestamp_ms=NOW_NS // 1_000_000 - 5)

    [first], [again] = (
        decode(record, encoding=Encoding.SPAN_JSON, limits=SpanLimits(), now_ns=now_ns).spans
        for now_ns in (NOW_NS, NOW_NS + 10**9)
    )

    assert first.start_ns == first.end_ns == record.timestamp_ms * 1_000_000
    assert again == first


@pytest.mark.parametrize("timestamp_ms", [-1, 0, 2**62])
def test_span_without_times_in_a_record_of_absurd_time_has_the_current_time(timestamp_ms):
    [span] = read(a_record(SPAN)._replace(timestamp_ms=timestamp_ms), Encoding.SPAN_JSON).spans

    assert span.start_ns == NOW_NS


@pytest.mark.parametrize("content_type", [b"text/plain", b"", b"application/jsonx", b"\xff"])
def test_unsupported_content_type_rejects_the_record(content_type):
    with pytest.raises(Rejected, match="application/x-protobuf, application/json") as rejected:
        read(a_record(SPAN, content_type), Encoding.SPAN_JSON)

    assert rejected.value.rejection is RejectionCode.UNSUPPORTED_CONTENT_TYPE


@pytest.mark.parametrize("value", [None, b""])
@pytest.mark.parametrize("encoding", Encoding)
def test_tombstone_and_empty_value_have_no_spans(value, encoding):
    assert read(a_record(value), encoding) == Decoded([], [], Rejections())


@pytest.mark.parametrize("value", [None, b""])
def test_tombstone_of_an_unknown_content_type_is_not_rejected(value):
    assert read(a_record(value, b"text/plain"), Encoding.SPAN_JSON) == Decoded([], [], Rejections())
