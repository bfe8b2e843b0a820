"""OTLP protobuf: values of every kind, and the reasons of rejections."""

from __future__ import annotations

import pytest
from opentelemetry.proto.collector.logs.v1.logs_service_pb2 import ExportLogsServiceRequest
from opentelemetry.proto.collector.metrics.v1.metrics_service_pb2 import ExportMetricsServiceRequest
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest
from opentelemetry.proto.common.v1.common_pb2 import AnyValue, KeyValue

from common.codec import otlp_protobuf
from common.codec.decoded import Decoded, Rejections
from common.codec.otlp_protobuf import decode, lay_out
from common.codec.protobuf_cut import encode_delimited
from common.codec.protobuf_lenient import FIELDS_MAX
from common.errors import Rejected, RejectionCode
from common.limits import SpanLimits
from common.span import NO_RESOURCE, NO_SCOPE
from tests.strategies import NOW_NS

LIMITS = SpanLimits()


def a_request(**members):
    request = ExportTraceServiceRequest()
    span = (
        request.resource_spans.add()
        .scope_spans.add()
        .spans.add(
            trace_id=b"\x01" * 16, span_id=b"\x02" * 8, start_time_unix_nano=NOW_NS, end_time_unix_nano=NOW_NS + 1
        )
    )
    for name, value in members.items():
        setattr(span, name, value)
    return request


def the_span(request):
    (span,) = decode(request.SerializeToString(), limits=LIMITS, now_ns=NOW_NS).spans
    return span


@pytest.mark.parametrize(
    ("value", "expected"),
    [
        (AnyValue(string_value=""), ""),
        (AnyValue(string_value="5"), "5"),
        (AnyValue(bool_value=False), False),
        (AnyValue(int_value=-(2**63)), -(2**63)),
        (AnyValue(int_value=2**63 - 1), 2**63 - 1),
        (AnyValue(double_value=5.0), 5),
        (AnyValue(double_value=-0.0), 0),
        (AnyValue(double_value=0.1), 0.1),
        (AnyValue(double_value=2.0**64), 2.0**64),
        (AnyValue(double_value=2.0**63), 2**63),
        (AnyValue(double_value=float("nan")), "NaN"),
        (AnyValue(double_value=float("inf")), "Infinity"),
        (AnyValue(double_value=float("-inf")), "-Infinity"),
        (AnyValue(bytes_value=b"\x00\xfb\xff"), "APv/"),
        (AnyValue(bytes_value=b""), ""),
        (AnyValue(), None),
    ],
)
def test_value_of_each_kind_is_json_ready(value, expected):
    request = a_request()
    request.resource_spans[0].scope_spans[0].spans[0].attributes.add(key="k").value.CopyFrom(value)

    assert repr(the_span(request).attributes) == repr({"k": expected})


def test_nested_values_keep_their_shape_and_order():
    request = a_request()
    members = request.resource_spans[0].scope_spans[0].spans[0].attributes.add(key="k").value.kvlist_value.values
    members.add(key="z").value.array_value.values.add()
    members.add(key="a.b").value.array_value.SetInParent()

    assert repr(the_span(request).attributes) == repr({"k": {"z": [None], "a.b": []}})


def test_minimal_span_has_no_parent_no_links_and_empty_wrappers():
    span = the_span(a_request())

    assert span.span_id == b"\x02" * 16
    assert (span.parent_id, span.links, span.events, span.status_message) == (None, None, (), None)
    assert (span.resource, span.scope) == (NO_RESOURCE, NO_SCOPE)


def test_any_event_time_is_kept():
    request = a_request()
    events = request.resource_spans[0].scope_spans[0].spans[0].events
    events.add(time_unix_nano=0)
    events.add(time_unix_nano=2**64 - 1)

    assert [event.time_ns for event in the_span(request).events] == [0, 2**64 - 1]


def test_resource_and_scope_attributes_are_nested():
    request = a_request()
    request.resource_spans[0].resource.attributes.add(key="a.b").value.int_value = 1
    request.resource_spans[0].scope_spans[0].scope.attributes.add(key="c.0").value.int_value = 2

    span = the_span(request)

    assert span.resource.attributes == {"a": {"b": 1}}
    assert span.scope.attributes == {"c": [2]}


@pytest.mark.parametrize("part", ["resource", "scope"])
@pytest.mark.parametrize("text", ["a\0b", "@@"])
def test_place_in_a_resource_or_scope_is_named_by_its_own_spans_alone(part, text):
    request = a_request()
    request.resource_spans.add().CopyFrom(request.resource_spans[0])
    request.resource_spans[1].scope_spans[0].spans[0].span_id = b"\x03" * 8
    bad = request.resource_spans[0]
    owner = bad.resource if part == "resource" else bad.scope_spans[0].scope
    owner.attributes.add(key="k").value.string_value = text
    value = request.SerializeToString().replace(b"@@", b"\xff\xfe")

    decoded = decode(value, limits=LIMITS, now_ns=NOW_NS)

    assert [span.repaired for span in decoded.spans] == [(f"{part}.attributes.k",), ()]
    assert getattr(decoded.spans[0], part).attributes["k"] == text.replace("\0", "\ufffd").replace("@", "\ufffd")


def test_cut_out_bytes_keep_unknown_fields():
    unknown = b"\xba\x3e\x03new"  # field 999 with the text “new”
    span = a_request().resource_spans[0].scope_spans[0].spans[0].SerializeToString() + unknown
    scope = b"\x12" + bytes([len(span)]) + span + unknown
    resource = b"\x12" + bytes([len(scope)]) + scope + unknown
    value = b"\x0a" + bytes([len(resource)]) + resource

    assert lay_out(value).cut([0]).count(unknown) == 3
    assert len(decode(lay_out(value).cut([0]), limits=LIMITS, now_ns=NOW_NS).spans) == 1


@pytest.mark.parametrize("value", [b"\x0a", b"\x0a\x05abc", b"not a request", b"\xff" * 11, b"\x0a\x02\x12\x7f"])
def test_broken_frame_rejects_the_record(value):
    for read in (lambda: decode(value, limits=LIMITS, now_ns=NOW_NS), lambda: lay_out(value).cut([0])):
        with pytest.raises(Rejected, match="not an OTLP request") as rejected:
            read()
        assert rejected.value.rejection is RejectionCode.UNDECODABLE


def test_empty_requests_have_no_spans():
    for value in (b"", a_request().resource_spans[0].SerializeToString()[:0], b"\x0a\x00", b"\x0a\x02\x12\x00"):
        assert decode(value, limits=LIMITS, now_ns=NOW_NS) == Decoded([], [], Rejections())


ZIPKIN_ROOT = b"\x0a\x26\x0a\x10" + b"\xff" * 16 + b"\x1a\x08" + b"\xee" * 8 + b"\x2a\x08" + b"an agent"


@pytest.mark.parametrize("value", [ZIPKIN_ROOT, b"a12345678"], ids=["refused by the parser", "unknown fields alone"])
def test_other_message_without_spans_is_rejected_not_read_as_empty(value):
    with pytest.raises(Rejected, match=r"no spans|not an export of spans") as rejected:
        decode(value, limits=LIMITS, now_ns=NOW_NS)

    assert rejected.value.rejection is RejectionCode.UNDECODABLE


def test_export_of_logs_is_named_in_the_reason():
    logs = ExportLogsServiceRequest()
    for body in ("first", "second"):
        record = logs.resource_logs.add().scope_logs.add().log_records.add(time_unix_nano=NOW_NS, trace_id=b"\x07" * 16)
        record.body.string_value = body

    rejections = decode(logs.SerializeToString(), limits=LIMITS, now_ns=NOW_NS).rejections.in_full

    assert [rejection.code for rejection in rejections] == [RejectionCode.INVALID_TRACE_ID] * 2
    assert all("export of logs or metrics" in rejection.reason for rejection in rejections)


def test_export_of_metrics_is_named_in_the_reason():
    metrics = ExportMetricsServiceRequest()
    metrics.resource_metrics.add().scope_metrics.add().metrics.add(name="http.server.duration", unit="ms")

    (rejection,) = decode(metrics.SerializeToString(), limits=LIMITS, now_ns=NOW_NS).rejections.in_full

    assert "“http.server.duration”" in rejection.reason
    assert "export of logs or metrics" in rejection.reason


def test_span_without_an_id_among_good_ones_gets_no_hint():
    request = a_request()
    request.resource_spans[0].scope_spans[0].spans.add(span_id=b"\x01" * 8)

    (rejection,) = decode(request.SerializeToString(), limits=LIMITS, now_ns=NOW_NS).rejections.in_full

    assert rejection.reason == "The span has no trace id: it must be 16 bytes."


def test_every_place_that_is_repaired_is_named_once():
    request = a_request(name="@@", trace_state="@@")
    span = request.resource_spans[0].scope_spans[0].spans[0]
    span.status.message = "@@"
    span.attributes.add(key="gen_ai.prompt").value.array_value.values.add().string_value = "@@"
    inner = span.attributes.add(key="a.b").value.kvlist_value.values.add(key="c").value.array_value
    for _ in range(2):
        inner.values.add().kvlist_value.values.add(key="d").value.string_value = "@@"
    for _ in range(2):
        span.events.add(name="@@").attributes.add(key="k").value.string_value = "@@"
        span.links.add(trace_state="@@").attributes.add(key="k").value.string_value = "@@"
    scope_spans = request.resource_spans[0].scope_spans[0]
    scope_spans.schema_url = scope_spans.scope.name = scope_spans.scope.version = "@@"
    request.resource_spans[0].schema_url = "@@"
    record = request.SerializeToString().replace(b"@@", b"\xff\xfe")

    (span,) = decode(record, limits=LIMITS, now_ns=NOW_NS).spans

    assert span.repaired == (
        *("span_name", "status_message", "trace_state", "attributes.gen_ai.prompt", "attributes.a.b.c.d"),
        *("events.name", "events.attributes.k", "links.attributes.k", "links.trace_state", "resource.schema_url"),
        *("scope.name", "scope.version", "scope.schema_url"),
    )
    assert "\udfff" not in repr(span)


def test_places_are_at_most_20_and_cut_if_they_are_long():
    request = a_request()
    span = request.resource_spans[0].scope_spans[0].spans[0]
    for number in range(30):
        span.attributes.add(key=f"{number}" + "k" * 1_000).value.string_value = "\0"

    repaired = the_span(request).repaired

    assert len(repaired) == 20
    assert {len(place) for place in repaired} == {200}
    assert {place[-1] for place in repaired} == {"…"}
    assert set(the_span(request).attributes.values()) == {"\ufffd"}


def test_parts_of_a_message_that_is_read_leniently_are_merged():
    """As protobuf's own parser does: a message that is sent twice is one, the last of scalars and of kinds counts."""
    request = a_request(name="@@")
    span = request.resource_spans[0].scope_spans[0].spans[0].SerializeToString()
    status = b"\x7a\x03\x12\x01a" + b"\x7a\x02\x18\x02"
    value = b"\x4a\x09\x0a\x01k\x12\x04\x0a\x00\x18\x05" + b"\x4a\x0b\x0a\x01l\x12\x02\x18\x05\x12\x02\x2a\x00"
    content = span + status + value + b"\x30\x04\x30\x05" + b"\x85\x01\x07\x00\x00\x00"
    record = encode_delimited(1, encode_delimited(2, encode_delimited(2, content)))
    (whole,) = decode(record, limits=LIMITS, now_ns=NOW_NS).spans

    (repaired,) = decode(record.replace(b"@@", b"\xff\xff"), limits=LIMITS, now_ns=NOW_NS).spans

    assert whole.attributes == {"k": 5, "l": []}
    assert repaired == whole._replace(name="\ufffd\ufffd", repaired=("span_name",))


def test_span_of_many_fields_is_not_repaired():
    """Each takes ten times as long as the parser needs for it."""
    good, bad = a_request(name="ok"), a_request(name="@@")
    bad.resource_spans[0].scope_spans[0].spans[0].attributes.extend([KeyValue()] * (FIELDS_MAX + 1))
    good.resource_spans.extend(bad.resource_spans)
    record = good.SerializeToString().replace(b"@@", b"\xff\xff")

    decoded = decode(record, limits=LIMITS, now_ns=NOW_NS)

    assert [span.name for span in decoded.spans] == ["ok"]
    assert [rejection.code for rejection in decoded.rejections.in_full] == [RejectionCode.SPAN_TOO_LARGE]


def test_span_whose_parts_end_too_early_is_rejected():
    record = a_request(name="@@").SerializeToString().replace(b"@@", b"\x12\xff").replace(b"\x2a\x02", b"\x4a\x02")

    (rejection,) = decode(record, limits=LIMITS, now_ns=NOW_NS).rejections.in_full

    assert rejection.code is RejectionCode.UNDECODABLE
    assert rejection.reason.startswith("The bytes of the Span are not a message of protobuf: ")


def test_valid_record_is_parsed_as_a_whole(monkeypatch):
    """A record that parses as a whole is never split."""
    monkeypatch.setattr(otlp_protobuf, "lay_out", lambda value: pytest.fail("the record was split"))

    assert the_span(a_request())
