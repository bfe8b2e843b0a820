"""Exports of log records: what is published, and what the response says of the rest."""

from __future__ import annotations

import json
import pickle
from typing import Any

import pytest
from opentelemetry.proto.collector.logs.v1.logs_service_pb2 import ExportLogsServiceRequest, ExportLogsServiceResponse

from common.errors import Rejected, TooLarge
from common.limits import SpanLimits
from query_api.intake.otlp import JSON, PROTOBUF, SPANS_MAX
from query_api.intake.otlp_logs import MESSAGE, prepare_logs
from query_api.intake.publish import PreparedIntake
from query_api.intake.records import partition_of
from query_api.request.route import PrepareContext
from tests.support.agent_logs import NAMES, NOW_NS, agent_record, in_json, in_protobuf, logs_request, spans_of
from tests.support.otlp_json import logs_json

IDS: dict[str, Any] = {"trace_id": b"1" * 16, "span_id": b"2" * 8}


def prepared(body: bytes, content_type: str = PROTOBUF, **members: Any) -> PreparedIntake:
    given = {"logs_partitions": 4, **members}
    return prepare_logs(body, PrepareContext({}, content_type, SpanLimits(), NOW_NS, **given))


def partial_success(intake: PreparedIntake) -> Any:
    return ExportLogsServiceResponse.FromString(intake.response_body).partial_success


def logs_in(intake: PreparedIntake) -> list[Any]:
    return [
        log
        for record in intake.records
        for of_resource in ExportLogsServiceRequest.FromString(record.value).resource_logs
        for of_scope in of_resource.scope_logs
        for log in of_scope.log_records
    ]


@pytest.mark.parametrize("name", NAMES)
def test_agents_are_published_by_trace(name: str) -> None:
    for body, content_type in ((in_protobuf(name), PROTOBUF), (in_json(name), JSON)):
        intake = prepared(body, content_type)

        partitions = {partition_of(span.trace_id, 4) for span in spans_of(name)}
        assert {record.partition for record in intake.records} == partitions
        assert intake.spans_count == len(spans_of(name))


def test_request_of_one_partition_is_published_unchanged() -> None:
    body = logs_request(agent_record(), agent_record(event__sequence=2))

    [record] = prepared(body).records

    assert record.value == body
    assert prepared(body).response_body == b""


def test_what_is_refused_is_cut_out_and_reported_by_reason() -> None:
    body = logs_request({}, agent_record(), IDS, {}, {"trace_id": b"short"}, {"time_unix_nano": 1})

    intake = prepared(body)

    step, event = logs_in(intake)
    assert step.body.string_value == "claude_code.api_request"
    assert (event.trace_id, event.span_id) == (IDS["trace_id"], IDS["span_id"])
    assert (intake.spans_count, intake.rejected_count) == (2, 4)
    reported = partial_success(intake)
    assert reported.rejected_log_records == 4
    for sentence in (
        "log record 4: The trace id has 5 bytes; it must have 16 bytes, or none.",
        "log record 5: The time is 1970-01-01T00:00:00Z; allowed:",
        "2 log records (0, 3): It names no span (trace id and span id), is no evaluation of a response",
    ):
        assert sentence in reported.error_message


def test_report_of_many_is_short() -> None:
    intake = prepared(logs_request(*[{}] * 10_000))

    assert not list(intake.records)
    reported = partial_success(intake)
    assert reported.rejected_log_records == 10_000
    assert len(reported.error_message) < 300
    assert "10000 log records (0, 1, 2, 3, 4, 5, 6, 7, 8, 9, …): " in reported.error_message


def test_report_in_json() -> None:
    intake = prepared(logs_json(ExportLogsServiceRequest.FromString(logs_request({}))), JSON)

    assert json.loads(intake.response_body)["partialSuccess"]["rejectedLogRecords"] == "1"


@pytest.mark.parametrize(("body", "content_type"), [(b"", PROTOBUF), (b"", JSON), (b"{}", JSON)])
def test_empty_request_is_a_full_success(body: bytes, content_type: str) -> None:
    intake = prepared(body, content_type)

    assert (list(intake.records), intake.spans_count, intake.rejected_count) == ([], 0, 0)
    assert intake.response_body in (b"", b'{"partialSuccess":{}}')


@pytest.mark.parametrize("body", [b"\xff\xff{", b"\x12\x00", b'{"resourceSpans":[]}'])
@pytest.mark.parametrize("content_type", [PROTOBUF, JSON])
def test_broken_request_is_rejected(body: bytes, content_type: str) -> None:
    with pytest.raises(Rejected):
        prepared(body, content_type)


@pytest.mark.parametrize("content_type", [PROTOBUF, JSON])
def test_broken_request_is_rejected_if_logs_are_off(content_type: str) -> None:
    with pytest.raises(Rejected):
        prepared(b"\xff\xff{", content_type, takes_logs=False)


def test_all_are_refused_if_logs_are_off() -> None:
    intake = prepared(logs_request(agent_record(), {}), takes_logs=False)

    assert not list(intake.records)
    assert (partial_success(intake).rejected_log_records, partial_success(intake).error_message) == (2, MESSAGE)


def test_request_of_too_many_is_refused_unread() -> None:
    body = logs_request()
    empty = b"\x12\x00" * (SPANS_MAX + 1)

    with pytest.raises(TooLarge, match="250000 log records"):
        prepared(b"\x0a" + _size(len(empty) + 5) + b"\x12" + _size(len(empty)) + empty + body)


def _size(length: int) -> bytes:
    encoded = bytearray()
    while length > 0x7F:
        encoded.append(length & 0x7F | 0x80)
        length >>= 7
    return bytes([*encoded, length])


def test_result_can_be_sent_to_another_process() -> None:
    intake = prepared(in_protobuf("claude-code"))

    assert [record.value for record in pickle.loads(pickle.dumps(intake, protocol=5)).records] == [
        record.value for record in intake.records
    ]
