from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any

import pytest
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest

from common.codec import otlp_protobuf
from common.codec.layout import Layout
from common.codec.protobuf_cut import STEP_PARTS, encode_delimited
from common.errors import ServiceError, TooLarge
from common.limits import SpanLimits
from common.steps import finished
from query_api.intake.otlp import (
    LAYOUT_STEPS_MAX,
    SPANS_IN_STEPS_MAX,
    error_format,
    prepare_kept_traces,
    prepare_traces,
    split_by_destination,
)
from query_api.intake.publish import PreparedIntake
from query_api.intake.records import IntakeRecord, destinations_of, partition_of
from query_api.request.route import PrepareContext
from tests.strategies import NOW_NS

TRACE_A, TRACE_B, TRACE_C = (letter * 16 for letter in (b"a", b"d", b"e"))
PARTITIONS = 2


def _request(*resources: list[list[bytes]]) -> bytes:
    """A request: resources of scopes of trace ids, the span ids counted."""
    request = ExportTraceServiceRequest()
    number = 0
    for name, scopes in enumerate(resources):
        resource_spans = request.resource_spans.add(schema_url=f"resource {name}")
        for trace_ids in scopes:
            scope_spans = resource_spans.scope_spans.add(schema_url=f"scope {number}")
            for trace_id in trace_ids:
                number += 1
                scope_spans.spans.add(trace_id=trace_id, span_id=number.to_bytes(8, "big"))
    text: bytes = request.SerializeToString()
    return text


def _numbers(value: bytes) -> list[tuple[str, str, int]]:
    request = ExportTraceServiceRequest.FromString(value)
    return [
        (resource.schema_url, scope.schema_url, int.from_bytes(span.span_id, "big"))
        for resource in request.resource_spans
        for scope in resource.scope_spans
        for span in scope.spans
    ]


def _split(
    layout: Layout, trace_ids: list[bytes | None], *, partitions: int | None = None, bytes_max: int = 10_000
) -> list[IntakeRecord]:
    destinations = finished(destinations_of([trace_id for trace_id in trace_ids if trace_id], partitions))
    return finished(split_by_destination(layout, trace_ids, destinations, bytes_max=bytes_max))


def test_each_trace_has_its_resources_and_scopes_before_the_partitions_are_known() -> None:
    layout = otlp_protobuf.lay_out(_request([[TRACE_A, TRACE_B], [TRACE_A]], [[TRACE_B, TRACE_A]]))

    first, second = _split(layout, [TRACE_A, TRACE_B, TRACE_A, TRACE_B, TRACE_A])

    assert (first.key, second.key) == (TRACE_A, TRACE_B)
    assert (first.partition, second.partition) == (None, None)
    assert _numbers(first.value) == [
        ("resource 0", "scope 0", 1),
        ("resource 0", "scope 2", 3),
        ("resource 1", "scope 3", 5),
    ]
    assert _numbers(second.value) == [("resource 0", "scope 0", 2), ("resource 1", "scope 3", 4)]


def test_traces_of_a_partition_share_a_record() -> None:
    """Kafka's partitioner gives the first and the third trace one of two partitions, the second the other one."""
    traces = [TRACE_B, TRACE_A, TRACE_C, TRACE_A, TRACE_B]
    assert [partition_of(trace_id, PARTITIONS) for trace_id in traces] == [0, 1, 0, 1, 0]
    layout = otlp_protobuf.lay_out(_request([traces[:2]], [traces[2:]]))

    first, second = _split(layout, [*traces], partitions=PARTITIONS)

    assert [(record.key, record.partition) for record in (first, second)] == [(TRACE_B, 0), (TRACE_A, 1)]
    assert _numbers(first.value) == [
        ("resource 0", "scope 0", 1),
        ("resource 1", "scope 2", 3),
        ("resource 1", "scope 2", 5),
    ]
    assert _numbers(second.value) == [("resource 0", "scope 0", 2), ("resource 1", "scope 2", 4)]


def test_rejected_spans_are_omitted() -> None:
    layout = otlp_protobuf.lay_out(_request([[TRACE_A, TRACE_A, TRACE_A]]))

    (record,) = _split(layout, [None, TRACE_A])

    assert _numbers(record.value) == [("resource 0", "scope 0", 2)]


def test_total_size_of_the_records_is_limited() -> None:
    layout = otlp_protobuf.lay_out(_request([[TRACE_A, TRACE_B]]))
    length = sum(len(record.value) for record in _split(layout, [TRACE_A, TRACE_B]))

    assert len(_split(layout, [TRACE_A, TRACE_B], bytes_max=length)) == 2
    with pytest.raises(TooLarge, match=f"more than {length - 1} bytes"):
        _split(layout, [TRACE_A, TRACE_B], bytes_max=length - 1)


GOOD = {
    "traceId": "1" * 32,
    "spanId": "2" * 16,
    "startTimeUnixNano": str(NOW_NS),
    "endTimeUnixNano": str(NOW_NS),
}


@pytest.mark.parametrize(
    "members", [{"kind": "\ud800"}, {"attributes": [{"key": "\ud800", "value": {"a\ud800": 1}}]}, {"spanId": "\udfff"}]
)
def test_reason_with_half_a_surrogate_pair_can_be_sent(members: dict[str, Any]) -> None:
    spans = [GOOD, {**GOOD, "spanId": "3" * 16, **members}]
    body = json.dumps({"resourceSpans": [{"scopeSpans": [{"spans": spans}]}]}).encode()

    prepared = prepare_traces(body, PrepareContext({}, "application/json", SpanLimits(), NOW_NS, 1, 1))

    assert (prepared.spans_count, prepared.rejected_count) == (1, 1)
    assert json.loads(prepared.response_body)["partialSuccess"]["errorMessage"].startswith("span 1: ")


@pytest.mark.parametrize("content_type", ["application/json", "application/x-protobuf"])
def test_error_about_half_a_surrogate_pair_can_be_sent(content_type: str) -> None:
    with pytest.raises(ServiceError) as caught:
        prepare_traces(b'{"\\ud800":1}', PrepareContext({}, "application/json", SpanLimits(), NOW_NS, 1, 1))

    response = error_format(caught.value, {"Content-Type": content_type})

    assert response is not None
    assert response.status == 400


def _kept(spans: Sequence[bytes], *, scopes: int = 1) -> PreparedIntake | None:
    """Prepare a request with these spans in each scope."""
    scope_spans = b"".join(encode_delimited(2, span) for span in spans)
    body = encode_delimited(1, encode_delimited(2, scope_spans) * scopes)
    return finished(prepare_kept_traces(body, PrepareContext({}, None, SpanLimits(), NOW_NS, 1, 1)))


def _span(number: int) -> bytes:
    times = b"".join(tag + NOW_NS.to_bytes(8, "little") for tag in (b"\x39", b"\x41"))
    return encode_delimited(1, TRACE_A) + encode_delimited(2, number.to_bytes(8, "big")) + times


def test_request_whose_layout_takes_long_is_left_to_another_process() -> None:
    kept = _kept([_span(number + 1) for number in range(SPANS_IN_STEPS_MAX)])

    assert kept is not None
    assert kept.spans_count == SPANS_IN_STEPS_MAX
    assert _kept([_span(number + 1) for number in range(SPANS_IN_STEPS_MAX + STEP_PARTS)]) is None
    assert _kept([_span(1)], scopes=LAYOUT_STEPS_MAX) is None
    assert _kept([b""] * STEP_PARTS) is None
