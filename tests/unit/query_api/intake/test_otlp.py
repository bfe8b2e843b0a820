from __future__ import annotations

import pytest
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest

from common.codec import otlp_protobuf
from common.errors import TooLarge
from query_api.intake.otlp import split_by_trace

TRACE_A, TRACE_B = b"a" * 16, b"b" * 16


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


def test_each_trace_has_its_resources_and_scopes() -> None:
    layout = otlp_protobuf.lay_out(_request([[TRACE_A, TRACE_B], [TRACE_A]], [[TRACE_B, TRACE_A]]))
    trace_ids = {0: TRACE_A, 1: TRACE_B, 2: TRACE_A, 3: TRACE_B, 4: TRACE_A}

    first, second = split_by_trace(layout, trace_ids, bytes_max=10_000)

    assert (first.trace_id, second.trace_id) == (TRACE_A, TRACE_B)
    assert _numbers(first.value) == [
        ("resource 0", "scope 0", 1),
        ("resource 0", "scope 2", 3),
        ("resource 1", "scope 3", 5),
    ]
    assert _numbers(second.value) == [("resource 0", "scope 0", 2), ("resource 1", "scope 3", 4)]


def test_rejected_spans_are_omitted() -> None:
    layout = otlp_protobuf.lay_out(_request([[TRACE_A, TRACE_A]]))

    (record,) = split_by_trace(layout, {1: TRACE_A}, bytes_max=10_000)

    assert _numbers(record.value) == [("resource 0", "scope 0", 2)]


def test_total_size_of_the_records_is_limited() -> None:
    layout = otlp_protobuf.lay_out(_request([[TRACE_A, TRACE_B]]))
    trace_ids = {0: TRACE_A, 1: TRACE_B}
    length = sum(len(record.value) for record in split_by_trace(layout, trace_ids, bytes_max=10_000))

    assert len(split_by_trace(layout, trace_ids, bytes_max=length)) == 2
    with pytest.raises(TooLarge, match=f"more than {length - 1} bytes"):
        split_by_trace(layout, trace_ids, bytes_max=length - 1)
