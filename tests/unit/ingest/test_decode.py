"""The codec and the project of a record."""

from __future__ import annotations

import json
from uuid import UUID

import pytest
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest

from common.codec.decoded import Decoded, Rejections
from common.errors import Rejected, RejectionCode
from common.ids import DEFAULT_PROJECT_ID
from common.kafka.record import ENCODINGS, Record
from common.limits import SpanLimits
from common.settings import Encoding, TopicSettings
from ingest.codecs import decode, encoding_of, lay_out
from ingest.decode import Rules, decode_record, without_projects
from tests.strategies import NOW_NS
from tests.support.otlp import START_NS, request

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


OF_TOPIC, OF_HEADER, OF_RESOURCE = UUID(int=1), UUID(int=2), UUID(int=3)
RULES = Rules(
    {
        "t": TopicSettings(encoding=Encoding.OTLP_PROTO),
        "owned": TopicSettings(encoding=Encoding.OTLP_PROTO, project_id=OF_TOPIC),
    },
    SpanLimits(),
    DEFAULT_PROJECT_ID,
)


def decoded(value: bytes | None, *, topic: str = "t", project: str | None = None):
    headers = () if project is None else (("project-id", project.encode()),)
    return decode_record(Record(topic, 0, 0, 0, None, value, headers), RULES, now_ns=START_NS)


def test_header_wins_over_resource_over_topic_over_default() -> None:
    with_resource = request(["a"], project=str(OF_RESOURCE))

    assert decoded(with_resource, topic="owned", project=str(OF_HEADER)).projects == OF_HEADER
    assert decoded(with_resource, topic="owned").projects == [OF_RESOURCE]
    assert decoded(request(["a"]), topic="owned").projects == OF_TOPIC
    assert decoded(request(["a"])).projects == DEFAULT_PROJECT_ID


def test_resource_names_its_project_next_to_an_attribute_project() -> None:
    message = ExportTraceServiceRequest.FromString(request(["a"], project=str(OF_RESOURCE)))
    message.resource_spans[0].resource.attributes.add(key="project").value.string_value = "shop"

    assert decoded(message.SerializeToString()).projects == [OF_RESOURCE]


@pytest.mark.parametrize("value", [None, b""])
def test_record_without_a_value_is_not_rejected(value: bytes | None) -> None:
    found = decoded(value)

    assert (found.spans, len(found.rejections)) == ([], 0)


def test_header_that_is_not_a_project_id_rejects_the_record() -> None:
    found = decoded(request(["a", "b"]), project="acme")

    assert found.spans == []
    assert [(rejection.span_index, rejection.code) for rejection in found.rejections.in_full] == [
        (None, RejectionCode.UNKNOWN_PROJECT)
    ]
    assert "acme" in found.rejections.in_full[0].reason


def test_resource_with_a_malformed_project_id_rejects_its_spans() -> None:
    found = decoded(request(["a", "b"], project="acme"))

    assert found.spans == []
    assert [rejection.span_index for rejection in found.rejections.in_full] == [0, 1]


def test_spans_of_existing_projects_are_kept() -> None:
    found = decoded(request(["a"], project=str(OF_RESOURCE)))

    assert found.claimed == {OF_RESOURCE}
    assert without_projects(found, frozenset({OF_TOPIC})) == found


def test_unknown_project_of_a_topic_rejects_the_record() -> None:
    found = without_projects(decoded(request(["a", "b"]), topic="owned"), frozenset({OF_TOPIC}))

    assert found.spans == []
    assert [rejection.span_index for rejection in found.rejections.in_full] == [None]


def test_rejected_span_keeps_its_index_if_the_project_is_unknown_too() -> None:
    found = decoded(request(["bad", "a"], project=str(OF_RESOURCE), absurd=["bad"]))

    rejected = without_projects(found, frozenset({OF_RESOURCE})).rejections.in_full

    assert [(rejection.span_index, rejection.code) for rejection in rejected] == [
        (0, RejectionCode.ABSURD_TIME),
        (1, RejectionCode.UNKNOWN_PROJECT),
    ]


def test_two_projects_may_hold_the_same_span_in_one_record() -> None:
    both = request(["a"], project=str(OF_RESOURCE)) + request(["a"], project=str(OF_TOPIC)) + request(["a", "a"])

    found = decoded(both)

    assert found.projects == [OF_RESOURCE, OF_TOPIC, DEFAULT_PROJECT_ID]
    assert found.span_indexes == [0, 1, 3]
    assert decoded(both, project=str(OF_HEADER)).span_indexes == [3]
