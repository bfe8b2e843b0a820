"""Records whose values repeat, for measurements that do not depend on it; the others use ``bench/varied.py``.

- ``plain``: the data set for which Jaeger publishes its numbers: ten spans per trace, eleven string attributes per
  span from 97 keys and 1,000 values, ten services.
- ``calls``: ten spans per trace, spread over a day; four are model calls with a model, tokens and costs. In every second
  trace the root repeats what they used.
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
from opentelemetry.proto.trace.v1.trace_pb2 import ScopeSpans, Span

SAMPLE: Final = Path(__file__).parents[1] / "tests/data/samples/openinference-openai-01.otlp_proto.bin"
SPANS_PER_TRACE: Final = 10
START_NS: Final = 1_780_000_000_000_000_000
DAY_NS: Final = 24 * 3600 * 10**9
MODELS: Final = ("gpt-4o", "gpt-4o-mini", "claude-3-5-sonnet", "gemini-1.5-pro", "llama-3-70b")
CALLS_PER_TRACE: Final = 4


def plain_records(spans_count: int, *, spans_per_record: int = 500, seed: int = 1) -> Iterator[bytes]:
    """Yield OTLP protobuf records of the plain set."""
    randomness = random.Random(seed)
    trace_id, parent_id = b"", b""
    for first in range(0, spans_count, spans_per_record):
        request, scope = _request_of(f"service-{first // spans_per_record % 10}")
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


def calls_records(spans_count: int, *, traces_per_record: int = 50, seed: int = 4) -> Iterator[bytes]:
    """Yield OTLP protobuf records of traces with model calls."""
    randomness = random.Random(seed)
    traces_count = spans_count // SPANS_PER_TRACE
    for first in range(0, traces_count, traces_per_record):
        request, scope = _request_of(f"service-{first // traces_per_record % 10}")
        for number in range(first, min(first + traces_per_record, traces_count)):
            start_ns = START_NS + number * (DAY_NS // traces_count)
            scope.spans.extend(_trace_with_calls(start_ns, randomness, root_repeats=number % 2 == 0))
        yield request.SerializeToString()


def scored_records(spans_count: int, *, seed: int = 5) -> Iterator[bytes]:
    """Yield the records of ``calls_records``, in which the last span of each trace, so one of ten, has two scores."""
    randomness = random.Random(seed)
    for record in calls_records(spans_count):
        request = ExportTraceServiceRequest.FromString(record)
        for number, span in enumerate(spans_of(request)):
            if number % SPANS_PER_TRACE == SPANS_PER_TRACE - 1:
                relevance = randomness.random()
                _add_score(span, "Relevance", relevance, "good" if relevance > 0.5 else "bad")
                _add_score(span, "Fluency", randomness.randrange(6), None)
        yield request.SerializeToString()


def _add_score(span: Span, name: str, value: float, label: str | None) -> None:
    event = span.events.add(name="gen_ai.evaluation.result", time_unix_nano=span.end_time_unix_nano)
    event.attributes.add(key="gen_ai.evaluation.name").value.string_value = name
    event.attributes.add(key="gen_ai.evaluation.score.value").value.double_value = value
    if label is not None:
        event.attributes.add(key="gen_ai.evaluation.score.label").value.string_value = label


def _request_of(service: str) -> tuple[ExportTraceServiceRequest, ScopeSpans]:
    """Return a request without spans, and the scope to add them to."""
    request = ExportTraceServiceRequest()
    resource = request.resource_spans.add()
    resource.resource.attributes.add(key="service.name").value.string_value = service
    scope = resource.scope_spans.add()
    scope.scope.name = "bench"
    return request, scope


def _trace_with_calls(start_ns: int, randomness: random.Random, *, root_repeats: bool) -> list[Span]:
    trace_id = randomness.randbytes(16)
    spans: list[Span] = []
    used_tokens, used_cost = 0, 0.0
    for number in range(SPANS_PER_TRACE):
        span = Span(trace_id=trace_id, span_id=randomness.randbytes(8), name=f"step-{number}")
        span.start_time_unix_nano = start_ns + number * 1_000_000 + randomness.randrange(1_000_000)
        span.end_time_unix_nano = span.start_time_unix_nano + randomness.randrange(1_000_000_000)
        if spans:
            span.parent_span_id = spans[0].span_id
        span.attributes.add(key="bench.key").value.string_value = f"value-{randomness.randrange(1000)}"
        if number >= SPANS_PER_TRACE - CALLS_PER_TRACE:
            tokens, cost = randomness.randrange(100, 3_000), randomness.randrange(1, 100_000) / 1e6
            span.attributes.add(key="llm.model_name").value.string_value = randomness.choice(MODELS)
            _set_usage(span, "LLM", tokens, cost)
            used_tokens, used_cost = used_tokens + tokens, used_cost + cost
        spans.append(span)
    if root_repeats:
        _set_usage(spans[0], "AGENT", used_tokens, used_cost)
    return spans


def _set_usage(span: Span, kind: str, tokens: int, cost: float) -> None:
    span.attributes.add(key="openinference.span.kind").value.string_value = kind
    span.attributes.add(key="llm.token_count.total").value.int_value = tokens
    span.attributes.add(key="llm.cost.total").value.double_value = cost


def llm_records(spans_count: int, *, copies_per_record: int = 10, seed: int = 2) -> Iterator[bytes]:
    """Yield OTLP protobuf records of real LLM spans; each copy of the sample has its own ids and times."""
    randomness = random.Random(seed)
    sample = ExportTraceServiceRequest.FromString(SAMPLE.read_bytes())
    sample_spans = list(spans_of(sample))
    earliest_ns = min(span.start_time_unix_nano for span in sample_spans)
    count = 0
    while count < spans_count:
        record = ExportTraceServiceRequest()
        for _ in range(copies_per_record):
            record.MergeFrom(renewed(sample, START_NS + count * 1_000_000 - earliest_ns, randomness))
            count += len(sample_spans)
            if count >= spans_count:
                break
        yield record.SerializeToString()


def renewed(sample: ExportTraceServiceRequest, shift_ns: int, randomness: random.Random) -> ExportTraceServiceRequest:
    """Return a copy of a request with new ids, and with all times moved by ``shift_ns``."""
    copy = ExportTraceServiceRequest()
    copy.CopyFrom(sample)
    fresh: dict[bytes, bytes] = {b"": b""}
    for span in spans_of(copy):
        span.trace_id = fresh.setdefault(span.trace_id, randomness.randbytes(16))
        span.span_id = fresh.setdefault(span.span_id, randomness.randbytes(8))
        span.parent_span_id = fresh.setdefault(span.parent_span_id, randomness.randbytes(8))
        span.start_time_unix_nano += shift_ns
        span.end_time_unix_nano += shift_ns
    return copy


def spans_of(request: ExportTraceServiceRequest) -> Iterator[Span]:
    """Yield the spans of a request."""
    for resource in request.resource_spans:
        for scope in resource.scope_spans:
            yield from scope.spans
