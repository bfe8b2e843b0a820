"""What both codecs of log records promise: equal log records from equal requests, a bad one is rejected alone."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest

from common.codec import logs_json, logs_protobuf
from common.errors import Rejected, RejectionCode
from common.limits import SpanLimits
from tests.strategies import NOW_NS, otlp_log_requests
from tests.support.agent_logs import TIME_NS, logs_message, logs_request
from tests.support.otlp import request
from tests.support.otlp_json import logs_json as written_as_json
from tests.support.otlp_json import request_json

LIMITS = SpanLimits()
CODECS = {"otlp_proto": logs_protobuf, "otlp_json": logs_json}
EACH_CODEC = pytest.mark.parametrize("codec", CODECS.values(), ids=CODECS)


def decode(codec: Any, value: bytes, limits: SpanLimits = LIMITS) -> Any:
    return codec.decode(value, limits=limits, now_ns=NOW_NS)


def record_of(codec: Any, *logs: dict[str, Any]) -> bytes:
    return logs_request(*logs) if codec is logs_protobuf else written_as_json(logs_message(*logs))


@given(otlp_log_requests())
def test_protobuf_and_json_give_equal_log_records(request):
    from_protobuf = decode(logs_protobuf, request.SerializeToString())
    from_json = decode(logs_json, written_as_json(request))

    assert repr(from_json) == repr(from_protobuf)  # repr: 1 is not True, and 1 is not 1.0
    assert not from_json.rejections


@given(otlp_log_requests())
def test_log_records_read_alone_equal_those_read_as_a_whole(request):
    for codec, value in ((logs_protobuf, request.SerializeToString()), (logs_json, written_as_json(request))):
        whole = decode(codec, value)
        alone = [decode(codec, codec.lay_out(value).cut([index])) for index in whole.indexes]

        assert [repr(one.logs[0]) for one in alone] == [repr(log) for log in whole.logs]
        assert all(len(one.logs) == 1 for one in alone)


BODIES = {
    "text": ("hi", "hi"),
    "boolean": (True, True),
    "integer": (2**63 - 1, 2**63 - 1),
    "double": (0.5, 0.5),
    "not finite": (float("nan"), "NaN"),
    "bytes": (b"\xff", "/w=="),
    "array": ([1, ["a"]], [1, ["a"]]),
    "object": ({"a": {"b": [1, {"c": None}]}}, {"a": {"b": [1, {"c": None}]}}),
    "empty object": ({}, {}),
    "none": (None, None),
}


@EACH_CODEC
@pytest.mark.parametrize("kind", BODIES)
def test_body_of_every_kind_is_kept(codec, kind):
    sent, kept = BODIES[kind]

    [log] = decode(codec, record_of(codec, {"body": sent})).logs

    assert repr(log.body) == repr(kept)


@EACH_CODEC
def test_body_below_the_deepest_level_becomes_its_json_text(codec):
    body: Any = "x"
    for _ in range(40):
        body = {"a": body}

    [log] = decode(codec, record_of(codec, {"body": body})).logs

    value = log.body
    for _ in range(LIMITS.nesting_depth_max):
        value = value["a"]
    assert json.loads(value) == json.loads('{"a":' * 16 + '"x"' + "}" * 16)
    assert log.repaired == ("body" + ".a" * 24,)


BAD: dict[str, tuple[dict[str, Any], RejectionCode]] = {
    "trace id too short": ({"trace_id": b"\x01" * 15}, RejectionCode.INVALID_TRACE_ID),
    "span id too long": ({"span_id": b"\x01" * 9}, RejectionCode.INVALID_SPAN_ID),
    "no time": ({"time_unix_nano": 0}, RejectionCode.ABSURD_TIME),
    "time of long ago": ({"time_unix_nano": LIMITS.past_ns_min - 1}, RejectionCode.ABSURD_TIME),
    "time far ahead": ({"time_unix_nano": NOW_NS + LIMITS.ahead_ns_max + 1}, RejectionCode.ABSURD_TIME),
    "severity unknown": ({"severity_number": 25}, RejectionCode.UNKNOWN_ENUM),
}


@EACH_CODEC
@pytest.mark.parametrize("bad", BAD)
def test_bad_log_record_is_rejected_alone_and_cut_out_whole(codec, bad):
    members, code = BAD[bad]
    value = record_of(codec, {}, members, {"body": "after"})

    decoded = decode(codec, value)

    assert decoded.indexes == [0, 2]
    assert [(rejection.span_index, rejection.code) for rejection in decoded.rejections.in_full] == [(1, code)]
    buried = codec.lay_out(value).cut([1])
    assert [rejection.code for rejection in decode(codec, buried).rejections.in_full] == [code]
    assert codec.lay_out(buried).cut([0]) == buried


@EACH_CODEC
def test_ten_thousand_log_records_are_read_in_order(codec):
    logs = [{"event_name": f"n{number}", "time_unix_nano": number % 2 * TIME_NS} for number in range(10_000)]

    decoded = decode(codec, record_of(codec, *logs))

    assert [log.name for log in decoded.logs] == [f"n{number}" for number in range(1, 10_000, 2)]
    assert len(decoded.rejections) == 5_000
    assert len(decoded.rejections.in_full) == 100


@EACH_CODEC
def test_log_record_above_its_size_limit_is_rejected_alone(codec):
    value = record_of(codec, {}, {"body": "x" * 10_000}, {})

    decoded = decode(codec, value, SpanLimits(span_bytes_max=5_000))

    assert decoded.indexes == [0, 2]
    [rejection] = decoded.rejections.in_full
    assert rejection.code is RejectionCode.SPAN_TOO_LARGE
    assert rejection.reason.startswith("The log record has 10")


@EACH_CODEC
def test_ids_that_are_absent_or_zero_are_none(codec):
    ids = {"trace_id": b"\x01" * 16, "span_id": b"\x02" * 8}
    zeros = {"trace_id": bytes(16), "span_id": bytes(8)}

    with_ids, with_zeros, without = decode(codec, record_of(codec, ids, zeros, {})).logs

    assert (with_ids.trace_id, with_ids.span_id) == (b"\x01" * 16, b"\x02" * 16)
    assert (with_zeros.trace_id, with_zeros.span_id) == (without.trace_id, without.span_id) == (None, None)
    assert [log.names_span for log in (with_ids, with_zeros, without)] == [True, False, False]


@EACH_CODEC
def test_name_is_that_of_the_event_else_of_the_attribute(codec):
    named = {"attributes": {"event.name": "of attribute"}}

    logs = decode(codec, record_of(codec, {**named, "event_name": "of event"}, named, {})).logs

    assert [log.name for log in logs] == ["of event", "of attribute", "log"]


@EACH_CODEC
def test_time_is_the_one_of_the_event_else_when_it_was_observed(codec):
    both, observed = {"observed_time_unix_nano": TIME_NS + 5}, {"observed_time_unix_nano": TIME_NS + 5}

    logs = decode(codec, record_of(codec, both, {"time_unix_nano": 0, **observed})).logs

    assert [log.time_ns for log in logs] == [TIME_NS, TIME_NS + 5]


@EACH_CODEC
def test_texts_that_cannot_be_stored_are_repaired(codec):
    faulty = {"body": {"a": "x\0"}, "attributes": {"k": "y\0"}, "severity_text": "z\0", "event_name": "n\0"}

    [log] = decode(codec, record_of(codec, faulty)).logs

    assert (log.body, log.attributes) == ({"a": "x\ufffd"}, {"k": "y\ufffd"})
    assert set(log.repaired) == {"body.a", "attributes.k", "severity_text", "name"}


def test_text_that_is_not_utf_8_costs_no_log_record():
    value = record_of(logs_protobuf, {"body": "@@"}, {"body": "good"}).replace(b"@@", b"\xff\xfe")

    bad, good = decode(logs_protobuf, value).logs

    assert (bad.body, bad.repaired, good.body) == ("\ufffd\ufffd", ("body",), "good")


@EACH_CODEC
def test_resource_and_scope_are_shared(codec):
    first, second = decode(codec, record_of(codec, {}, {})).logs

    assert first.resource is second.resource
    assert first.scope is second.scope


@EACH_CODEC
def test_empty_request_has_nothing(codec):
    value = b"" if codec is logs_protobuf else b"{}"

    assert decode(codec, value) == decode(codec, value)._replace(logs=[], indexes=[])


@pytest.mark.parametrize("value", [b"\xff", b"\x0a\x05", b"plain text", b"\x12\x00"])
def test_bytes_that_are_no_request_are_rejected_as_a_whole(value):
    for codec in CODECS.values():
        with pytest.raises(Rejected) as rejected:
            decode(codec, value)
        assert rejected.value.rejection is RejectionCode.UNDECODABLE


def test_export_of_spans_is_named_in_the_reasons():
    spans = request(["a", "b"], attributes={"k": "v"})

    decoded = decode(logs_protobuf, spans)

    assert not decoded.logs
    assert len(decoded.rejections) == 2
    assert all("an export of spans" in rejection.reason for rejection in decoded.rejections.in_full)
    with pytest.raises(Rejected, match="no resourceLogs but “resourceSpans”: it is not an export of log records"):
        decode(logs_json, request_json(ExportTraceServiceRequest.FromString(spans)))


def test_spellings_of_json_are_those_of_spans():
    log = {
        "time_unix_nano": TIME_NS,
        "severity_number": "SEVERITY_NUMBER_ERROR2",
        "trace_id": "AQEBAQEBAQEBAQEBAQEBAQ==",
        "span_id": "0202020202020202",
        "event_name": "e",
    }
    value = json.dumps({"resource_logs": [{"scope_logs": [{"log_records": [log]}]}]}).encode()

    decoded = decode(logs_json, value)

    [read] = decoded.logs
    assert (read.severity_number, read.name, read.trace_id, read.span_id) == (18, "e", b"\x01" * 16, b"\x02" * 16)
    assert decoded.base64_ids_count == 1
    assert decode(logs_json, logs_json.lay_out(value).cut([0])).logs == decoded.logs


def test_large_record_read_one_by_one_gives_the_same_result(monkeypatch):
    value = record_of(logs_protobuf, {"body": {"a": 1}}, {"trace_id": b"1"}, {"body": "b"})
    whole = decode(logs_protobuf, value)

    monkeypatch.setattr(logs_protobuf, "WHOLE_BYTES_MAX", 0)

    split = decode(logs_protobuf, value)
    assert split.layout is not None
    assert split._replace(layout=None) == whole
