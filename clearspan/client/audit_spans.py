"""The marked spans of ``clearspan audit``: how they are made and sent."""

from __future__ import annotations

import asyncio
import secrets
import time
from collections.abc import Iterator, Mapping, Sequence
from itertools import islice
from typing import Any, Final, NamedTuple

import orjson

from clearspan.client.connection import ApiClient
from common.kafka.producer import KafkaPublisher
from common.kafka.record import CONTENT_TYPE_HEADER, CONTENT_TYPES, PROJECT_HEADER
from common.settings import Encoding, KafkaSettings

SERVICE: Final = "clearspan-audit"
"""The `service.name` of marked spans."""

RUN_ATTRIBUTE: Final = "clearspan_audit.run"
NUMBER_ATTRIBUTE: Final = "clearspan_audit.number"
SPAN_NAME: Final = "clearspan audit"
TRACE_SPANS: Final = 4
"""Spans of a trace, which is one record: several traces reach several partitions."""

SENT_TOGETHER_SPANS: Final = 500
"""Spans of one request over HTTP."""

PUBLISHED_TOGETHER: Final = 100
"""Records that are published at the same time."""

_MS_IN_NS: Final = 1_000_000


class MarkedSpan(NamedTuple):
    """One span of a run."""

    number: int
    trace_id: str
    span_id: str
    parent_id: str | None
    start_ns: int


class MarkedRun(NamedTuple):
    """The spans of one run by their ids. ``run_id`` marks them."""

    run_id: str
    spans: Mapping[str, MarkedSpan]

    @classmethod
    def of(cls, spans_count: int) -> MarkedRun:
        """Make the spans of a run, which start now."""
        now_ns = time.time_ns()
        spans: list[MarkedSpan] = []
        trace_id, root_id = "", ""
        for number in range(spans_count):
            parent_id: str | None = root_id
            span_id = secrets.token_hex(8)
            if number % TRACE_SPANS == 0:
                trace_id, root_id, parent_id = secrets.token_hex(16), span_id, None
            spans.append(MarkedSpan(number, trace_id, span_id, parent_id, now_ns + number * _MS_IN_NS))
        return cls(secrets.token_hex(16), {span.span_id: span for span in spans})

    def parts(self, spans_count: int) -> Iterator[Sequence[MarkedSpan]]:
        """Yield the spans in their order, at most ``spans_count`` at a time."""
        spans = iter(self.spans.values())
        while part := list(islice(spans, spans_count)):
            yield part


async def send_through_kafka(kafka: KafkaSettings, run: MarkedRun, *, project_id: str | None) -> None:
    """Publish each trace as a record of the topic for OTLP. Raises ``ServiceError``."""
    headers = [(CONTENT_TYPE_HEADER, CONTENT_TYPES[Encoding.OTLP_JSON].encode())]
    if project_id is not None:
        headers.append((PROJECT_HEADER, project_id.encode()))
    publisher = KafkaPublisher(kafka)

    async def publish(trace: Sequence[MarkedSpan]) -> None:
        key, value = bytes.fromhex(trace[0].trace_id), orjson.dumps(_otlp(run, trace))
        await publisher.publish(kafka.otlp_topic, value, key=key, headers=headers)

    try:
        traces = run.parts(TRACE_SPANS)
        while some := list(islice(traces, PUBLISHED_TOGETHER)):
            await asyncio.gather(*map(publish, some))
    finally:
        await publisher.close()


async def send_through_http(api: ApiClient, run: MarkedRun) -> None:
    """Send the spans as OTLP over HTTP. Raises ``RequestFailed``."""
    for spans in run.parts(SENT_TOGETHER_SPANS):
        await api.post("/v1/traces", _otlp(run, spans))


def is_as_sent(span: Mapping[str, Any], marked: MarkedSpan, run: MarkedRun) -> bool:
    """Return whether a span of a response is the one that was marked."""
    marks = (span.get("attributes") or {}).get("clearspan_audit") or {}
    return (
        span.get("trace_id") == marked.trace_id
        and span.get("parent_id") == marked.parent_id
        and span.get("span_name") == SPAN_NAME
        and span.get("start_time_unix_nano") == str(marked.start_ns)
        and marks == {"run": run.run_id, "number": marked.number}
    )


def _otlp(run: MarkedRun, spans: Sequence[MarkedSpan]) -> dict[str, Any]:
    resource = {"attributes": [_attribute("service.name", {"stringValue": SERVICE})]}
    scope_spans = [{"scope": {"name": SERVICE}, "spans": [_otlp_span(run, span) for span in spans]}]
    return {"resourceSpans": [{"resource": resource, "scopeSpans": scope_spans}]}


def _otlp_span(run: MarkedRun, span: MarkedSpan) -> dict[str, Any]:
    return {
        "traceId": span.trace_id,
        "spanId": span.span_id,
        **({} if span.parent_id is None else {"parentSpanId": span.parent_id}),
        "name": SPAN_NAME,
        "kind": 1,
        "startTimeUnixNano": str(span.start_ns),
        "endTimeUnixNano": str(span.start_ns + _MS_IN_NS),
        "attributes": [
            _attribute(RUN_ATTRIBUTE, {"stringValue": run.run_id}),
            _attribute(NUMBER_ATTRIBUTE, {"intValue": str(span.number)}),
        ],
    }


def _attribute(key: str, value: Mapping[str, str]) -> dict[str, Any]:
    return {"key": key, "value": value}
