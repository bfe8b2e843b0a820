"""The first trace that a newcomer sees: published to Kafka, found over HTTP.

The sample is one record that an OpenTelemetry Collector wrote to Kafka: an agent of Pydantic AI that rolls a die with a
tool. Only its times are shifted, to now.
"""

from __future__ import annotations

import asyncio
import time
from importlib.resources import files
from typing import Any

import aiohttp
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest

from common.kafka.producer import KafkaPublisher
from common.kafka.record import CONTENT_TYPE_HEADER, CONTENT_TYPES
from common.settings import Encoding, KafkaSettings

FOUND_TIMEOUT_S = 30.0
SAMPLE = "samples/agent_trace.otlp_proto.bin"


async def show_first_span(kafka: KafkaSettings, api: str) -> str:
    """Publish the sample, wait until ``POST /spans/query`` finds it, and return a text that describes both.

    Raises ``TimeoutError`` if it is not found within ``FOUND_TIMEOUT_S``.
    """
    request = _recent_sample(time.time_ns())
    spans = [span for resource in request.resource_spans for scope in resource.scope_spans for span in scope.spans]
    root = next(span for span in spans if not span.parent_span_id)
    publisher = KafkaPublisher(kafka)
    try:
        started_s = time.monotonic()
        coordinates = await publisher.publish(
            kafka.otlp_topic,
            request.SerializeToString(),
            key=root.trace_id,
            headers=[(CONTENT_TYPE_HEADER, CONTENT_TYPES[Encoding.OTLP_PROTO].encode())],
        )
    finally:
        await publisher.close()
    async with asyncio.timeout(FOUND_TIMEOUT_S), aiohttp.ClientSession() as session:
        found = await _find(session, api, root.trace_id.hex())
    took_s = time.monotonic() - started_s
    return "\n".join(
        [
            f"A first trace: an agent that rolls a die, {len(spans)} spans in one record.",
            f"  in    Kafka topic {coordinates.topic}, partition {coordinates.partition}, offset {coordinates.offset}",
            f"  out   POST {api}/spans/query gave {len(found)} spans {took_s:.2f} s later:",
            *(f"          {_line(span)}" for span in found),
        ]
    )


def _recent_sample(now_ns: int) -> ExportTraceServiceRequest:
    request = ExportTraceServiceRequest.FromString(files("clearspan").joinpath(SAMPLE).read_bytes())
    spans = [span for resource in request.resource_spans for scope in resource.scope_spans for span in scope.spans]
    shift_ns = now_ns - 1_000_000_000 - max(span.end_time_unix_nano for span in spans)
    for span in spans:
        span.start_time_unix_nano += shift_ns
        span.end_time_unix_nano += shift_ns
        for event in span.events:
            event.time_unix_nano += shift_ns
    return request


async def _find(session: aiohttp.ClientSession, api: str, trace_id: str) -> list[dict[str, Any]]:
    query = {
        "filtering": {"conditions": [{"field": "trace_id", "value": trace_id}]},
        "windowing": {"order": "ascending"},
    }
    while True:
        async with session.post(f"{api}/spans/query", json=query) as response:
            response.raise_for_status()
            spans: list[dict[str, Any]] = (await response.json())["spans"]
        if spans:
            return spans
        await asyncio.sleep(0.05)


def _line(span: dict[str, Any]) -> str:
    duration_ms = span["attributes"]["ag"]["metrics"]["duration"].get("cumulative", 0)
    return f"{'  ' if 'parent_id' in span else ''}{span['span_name']:<28} {span['span_id']}  {duration_ms:>9.3f} ms"
