"""Measures ingest from Kafka to durable rows, compared with the bare insert of the same rows into the same engine.

Each run has its own process and engine. The two kinds alternate, so that other load affects both.

``worker``: the real worker with the real settings, from the first poll that gives records until everything is
committed; its memory includes that of its decoders.
``bare``: the same spans, decoded into Arrow columns beforehand and inserted in the batches that the worker makes.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import tempfile
import time
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from typing import Any, Final
from uuid import UUID

import pyarrow as pa

from bench.harness import bench_settings, broker, median, migrated_store, peak_mib, publish_all, run_child
from bench.records import llm_records, plain_records
from common.clickhouse.span_columns import SPANS_TABLE, stamped
from common.clickhouse.store import Statement
from common.kafka.consumer import KafkaSource
from common.kafka.offsets import uncommitted_count
from common.kafka.record import Record
from common.memory import tune_for_batches
from common.settings import Settings
from common.telemetry import SPANS_STORED, configure_logging
from ingest.app import open_worker
from ingest.batch import SpanBatch
from ingest.decoding.chunk import Chunk, decode_chunk, records_of
from ingest.policy import Policy

SETS: Final[dict[str, Callable[[int], Iterable[bytes]]]] = {"plain": plain_records, "llm": llm_records}
TOPIC: Final = "otlp_spans"
LOG: Final = "bench/otlp_spans/0"
TRIES_MAX: Final = 2_000


async def measure(name: str, *, spans_count: int, rounds: int) -> dict[str, Any]:
    """Return medians over ``rounds`` pairs: spans per second of the worker and of the bare insert, their ratio, peak
    memory.
    """
    pairs: list[tuple[dict[str, Any], dict[str, Any]]] = []
    with tempfile.TemporaryDirectory() as directory:
        async with broker(Path(directory)) as running:
            settings = bench_settings(Path(directory), bootstrap=running.bootstrap)
            await publish_all(settings, TOPIC, SETS[name](spans_count))
            for number in range(rounds):
                arguments = (name, spans_count, running.bootstrap, f"bench-{number}")
                worker = await asyncio.to_thread(run_child, "bench.ingest", "worker", *arguments)
                bare = await asyncio.to_thread(run_child, "bench.ingest", "bare", *arguments)
                pairs.append((worker, bare))
    return {
        "set": name,
        "spans": spans_count,
        "worker_spans_per_s": round(median([worker["spans_per_s"] for worker, _ in pairs])),
        "bare_spans_per_s": round(median([bare["spans_per_s"] for _, bare in pairs])),
        "ratio": round(median([worker["spans_per_s"] / bare["spans_per_s"] for worker, bare in pairs]), 2),
        "worker_mib": round(median([worker["mib"] for worker, _ in pairs])),
        "bytes_per_span": round(median([bare["bytes_per_span"] for _, bare in pairs])),
    }


async def run_worker(settings: Settings, *, spans_count: int) -> dict[str, Any]:
    """Run the worker until everything in the topics is committed."""
    source = TimedSource(settings.kafka)
    async with (
        migrated_store(settings) as store,
        open_worker(settings, projects=AnyProject(), store=store, source=source) as worker,
    ):
        running = asyncio.create_task(worker.run(), name="worker")
        while _stored() < spans_count:
            if running.done():
                await running
            await asyncio.sleep(0.005)
        await _all_committed(settings)
        took_s = time.monotonic() - source.started_s
        mib = peak_mib()
        worker.stop()
        await running
    return {"spans_per_s": spans_count / took_s, "mib": mib}


async def _all_committed(settings: Settings) -> None:
    for _ in range(TRIES_MAX):
        if await uncommitted_count(settings.kafka, [TOPIC]) == 0:
            return
        await asyncio.sleep(0.005)
    raise TimeoutError("the worker has stored everything and commits nothing")


async def run_bare(settings: Settings, records: Iterable[bytes], *, spans_count: int) -> dict[str, Any]:
    """Insert the same rows, decoded beforehand."""
    tables = tables_of(records, settings)
    async with migrated_store(settings) as store:
        await store.select(Statement("SELECT 1"), deadline_s=60.0)
        started_s = time.monotonic()
        for number, table in enumerate(tables):
            await store.insert(SPANS_TABLE, table, dedup_token=f"bench-{number}", deadline_s=60.0)
        took_s = time.monotonic() - started_s
        mib = peak_mib()
    size = sum(path.stat().st_size for path in (settings.data_dir / "clickhouse").rglob("*") if path.is_file())
    return {"spans_per_s": spans_count / took_s, "bytes_per_span": size / spans_count, "mib": mib}


def tables_of(records: Iterable[bytes], settings: Settings) -> Sequence[pa.Table]:
    """Return the rows of the records in the batches that the worker makes: as many rows, and as many bytes."""
    policy = Policy.of(settings)
    tables, batch = [], SpanBatch()
    for offset, value in enumerate(records):
        record = Record(TOPIC, 0, offset, 1, None, value)
        chunk = Chunk([record], {record.source: LOG}, time.time_ns())
        for decoded in records_of(chunk, decode_chunk(chunk, policy.rules)):
            batch.add(decoded, now_s=0.0)
        if policy.flush.is_full(batch):
            tables.append(stamped(batch.rows(), stored_us=1))
            batch = SpanBatch()
    if batch.rows_count:
        tables.append(stamped(batch.rows(), stored_us=1))
    return tables


class TimedSource(KafkaSource):
    """The real source; it notes when it gave the first records."""

    started_s = 0.0

    async def poll(self, *, timeout_s: float, records_max: int) -> Sequence[Record]:
        records = await super().poll(timeout_s=timeout_s, records_max=records_max)
        if records and not self.started_s:
            self.started_s = time.monotonic()
        return records


class AnyProject:
    """Every project exists: a measurement of ingest needs no Postgres."""

    async def exists(self, _project_id: UUID, /) -> bool:
        return True


def _stored() -> float:
    return float(SPANS_STORED._value.get())


def main() -> None:
    """One run in this process; prints one JSON object."""
    parser = argparse.ArgumentParser()
    parser.add_argument("kind", choices=["worker", "bare"])
    parser.add_argument("set", choices=sorted(SETS))
    parser.add_argument("spans", type=int)
    parser.add_argument("bootstrap")
    parser.add_argument("group")
    arguments = parser.parse_args()
    configure_logging(log_format="text", level="warning")
    tune_for_batches()
    with tempfile.TemporaryDirectory() as directory:
        settings = bench_settings(Path(directory), bootstrap=arguments.bootstrap)
        settings = settings.model_copy(update={"kafka": settings.kafka.model_copy(update={"group": arguments.group})})
        if arguments.kind == "worker":
            result = asyncio.run(run_worker(settings, spans_count=arguments.spans))
        else:
            records = SETS[arguments.set](arguments.spans)
            result = asyncio.run(run_bare(settings, records, spans_count=arguments.spans))
    print(json.dumps(result))


if __name__ == "__main__":
    main()
