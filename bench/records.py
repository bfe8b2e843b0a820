"""Records to measure with.

- ``plain``: the data set for which Jaeger publishes its numbers: ten spans per trace, eleven string attributes per
  span from 97 keys and 1,000 values, ten services.
- ``llm``: the spans of a sample that a Collector wrote (OpenAI client with OpenInference, 1.8 KB per span), with new
  ids.

Deterministic: the same arguments give the same bytes.
"""

from __future__ import annotations

import random
from collections.abc import Iterator
from pathlib import Path
from typing import Final

from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest
from opentelemetry.proto.trace.v1.trace_pb2 import Span

SAMPLE: Final = Path(__file__).parents[1] / "tests/data/samples/openinference-openai-01.otlp_proto.bin"
SPANS_PER_TRACE: Final = 10
START_NS: Final = 1_780_000_000_000_000_000


def plain_records(spans_count: int, *, spans_per_record: int = 500, seed: int = 1) -> Iterator[bytes]:
    """Yield OTLP protobuf records of the plain set."""
    randomness = random.Random(seed)
    trace_id, parent_id = b"", b""
    for first in range(0, spans_count, spans_per_record):
        request = ExportTraceServiceRequest()
        resource = request.resource_spans.add()
        service = resource.resource.attributes.add(key="service.name")
        service.value.string_value = f"service-{first // spans_per_record % 10}"
        scope = resource.scope_spans.add()
        scope.scope.name = "bench"
        for number in range(first, min(first + spans_per_record, spans_count)):
            if number % SPANS_PER_TRACE == 0:
                trace_id, parent_id = randomness.randbytes(16), b""
            span = scope.spans.add(trace_id=trace_id, span_id=randomness.randbytes(8), parent_span_id=parent_id)
            parent_id = parent_id or span.span_id
            span.name = f"operation-{number % SPANS_PER_TRACE}"
            span.kind = Span.SpanKind.ValueType(1 + number % 5)
            span.start_time_unix_nano = START_NS + number * 1_000_000 + randomness.randrange(1_000_000)
            span.end_time_unix_nano = span.start_time_unix_nano + randomness.randrange(1_000_000_000)
            for key in randomness.sample(range(97), 11):
                span.attributes.add(key=f"bench.key{key}").value.string_value = f"value-{randomness.randrange(1000)}"
        yield request.SerializeToString()


def llm_records(spans_count: int, *, copies_per_record: int = 10, seed: int = 2) -> Iterator[bytes]:
    """Yield OTLP protobuf records of real LLM spans; each copy of the sample has its own ids and times."""
    randomness = random.Random(seed)
    sample = ExportTraceServiceRequest.FromString(SAMPLE.read_bytes())
    sample_spans = [
        span for resource in sample.resource_spans for scope in resource.scope_spans for span in scope.spans
    ]
    earliest_ns = min(span.start_time_unix_nano for span in sample_spans)
    count = 0
    while count < spans_count:
        record = ExportTraceServiceRequest()
        for _ in range(copies_per_record):
            record.MergeFrom(_renewed(sample, START_NS + count * 1_000_000 - earliest_ns, randomness))
            count += len(sample_spans)
            if count >= spans_count:
                break
        yield record.SerializeToString()


def _renewed(sample: ExportTraceServiceRequest, shift_ns: int, randomness: random.Random) -> ExportTraceServiceRequest:
    copy = ExportTraceServiceRequest()
    copy.CopyFrom(sample)
    fresh: dict[bytes, bytes] = {b"": b""}
    for resource in copy.resource_spans:
        for scope in resource.scope_spans:
            for span in scope.spans:
                span.trace_id = fresh.setdefault(span.trace_id, randomness.randbytes(16))
                span.span_id = fresh.setdefault(span.span_id, randomness.randbytes(8))
                span.parent_span_id = fresh.setdefault(span.parent_span_id, randomness.randbytes(8))
                span.start_time_unix_nano += shift_ns
                span.end_time_unix_nano += shift_ns
    return copy
