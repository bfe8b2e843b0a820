"""Measures the time from producing a record until ``/spans/query`` returns its span, at a steady rate."""

from __future__ import annotations

import asyncio
import tempfile
import time
from pathlib import Path
from typing import Any, Final

import aiohttp
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest

from bench.harness import bench_settings, broker, child_main, migrated_store, percentile
from bench.ingest import TOPIC, AnyProject
from bench.varied import plain_records
from common.kafka.cluster import ensure_topics
from common.kafka.producer import KafkaPublisher
from ingest.app import open_worker
from query_api.http.app import open_api

RATE_SPANS_PER_S: Final = 1_000
SPANS_PER_RECORD: Final = 20
PROBE_EVERY: Final = 25
POLL_S: Final = 0.02
"""With a probe for every tenth record that asks every 10 ms, three probes at a time kept more than a core busy."""

WARM_UP_S: Final = 2


async def measure(seconds: int) -> dict[str, Any]:
    """Return percentiles in seconds; every 25th record is probed."""
    with tempfile.TemporaryDirectory() as directory:
        async with broker(Path(directory)) as running:
            settings = bench_settings(Path(directory), bootstrap=running.bootstrap)
            await ensure_topics(settings.kafka)
            async with (
                migrated_store(settings) as store,
                open_api(settings, store=store) as port,
                open_worker(settings, projects=AnyProject(), store=store) as worker,
            ):
                working = asyncio.create_task(worker.run(), name="worker")
                api = f"http://127.0.0.1:{port}"
                await _produce_and_find(settings.kafka, api, WARM_UP_S)  # by then the worker has joined its group
                found_s = await _produce_and_find(settings.kafka, api, seconds)
                worker.stop()
                await working
    return {
        "rate_spans_per_s": RATE_SPANS_PER_S,
        "probes": len(found_s),
        "p50_s": round(percentile(found_s, 50), 2),
        "p99_s": round(percentile(found_s, 99), 2),
    }


async def _produce_and_find(kafka: Any, api: str, seconds: int) -> list[float]:
    publisher = KafkaPublisher(kafka)
    probes: list[asyncio.Task[float]] = []
    records = plain_records(seconds * RATE_SPANS_PER_S, spans_per_record=SPANS_PER_RECORD, seed=seconds)
    async with aiohttp.ClientSession() as session:
        begun_s = time.monotonic()
        for number, record in enumerate(records):
            await asyncio.sleep(max(0.0, begun_s + number * SPANS_PER_RECORD / RATE_SPANS_PER_S - time.monotonic()))
            produced_s = time.monotonic()
            await publisher.publish(TOPIC, record)
            if number % PROBE_EVERY == 0:
                probes.append(asyncio.create_task(_found_after(session, api, record, produced_s), name="probe"))
        found_s = await asyncio.gather(*probes)
    await publisher.close()
    return list(found_s)


async def _found_after(session: aiohttp.ClientSession, api: str, record: bytes, produced_s: float) -> float:
    span = ExportTraceServiceRequest.FromString(record).resource_spans[0].scope_spans[0].spans[0]
    query = {
        "filtering": {
            "conditions": [
                {"field": "trace_id", "value": span.trace_id.hex()},
                {"field": "span_id", "value": span.span_id.hex()},
            ]
        }
    }
    while True:
        async with session.post(f"{api}/spans/query", json=query) as response:
            response.raise_for_status()
            if (await response.json())["count"]:
                return time.monotonic() - produced_s
        await asyncio.sleep(POLL_S)


if __name__ == "__main__":
    child_main(measure)
