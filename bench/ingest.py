"""Measures ingest from Kafka to durable and merged rows: ``python -m bench.ingest [SET] [SPANS] [ROUNDS]``.

Compared with the bare insert of the same rows, at most 400,000 of them, into the same engine. Each run has its own
process and engine. The two kinds alternate, so that other load affects both.

``worker``: the real worker with the real settings, from the first poll that gives records until everything is
committed; its memory and processor time include those of its decoders. Then until the last merge has ended.
``bare``: the same spans, decoded into Arrow columns beforehand and inserted in the batches that the worker makes.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import sys
import tempfile
import time
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any, Final
from uuid import UUID

import pyarrow as pa

from bench.command import add_set, parser_of
from bench.engine import logging_engine, settle, sizes, work
from bench.harness import (
    Row,
    bench_settings,
    broker,
    cpu_s,
    median,
    peak_mib,
    publish_all,
    run_child,
    say,
    table,
    us_per,
)
from bench.varied import SETS
from common.clickhouse.span_columns import SPANS_TABLE, stamped
from common.clickhouse.store import ColumnStore, Statement
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

KINDS: Final = ("worker", "bare")
BARE_SPANS_MAX: Final = 400_000
"""The bare insert keeps the rows of all spans in memory."""

RUN_S_MAX: Final = 3_600.0
TOPIC: Final = "otlp_spans"
LOG: Final = "bench/otlp_spans/0"
TRIES_MAX: Final = 2_000
MODULE: Final = "bench.ingest"
LARGEST: Final = 8
"""How many columns and indexes the table shows; the JSON has all of them."""


async def measure(name: str, *, spans_count: int, rounds: int) -> dict[str, Any]:
    """Return the run of the median total of processor time, of the worker and of the bare insert."""
    runs: dict[str, list[dict[str, Any]]] = {kind: [] for kind in KINDS}
    bare_count = min(spans_count, BARE_SPANS_MAX)
    with tempfile.TemporaryDirectory() as directory:
        async with broker(Path(directory)) as running:
            settings = bench_settings(Path(directory), bootstrap=running.bootstrap)
            await publish_all(settings, TOPIC, SETS[name](spans_count))
            for number in range(rounds):
                for kind in KINDS:
                    say(f"  {name}, {spans_count:,} spans, round {number + 1} of {rounds}: {kind} …")
                    arguments = (
                        kind,
                        name,
                        spans_count if kind == "worker" else bare_count,
                        running.bootstrap,
                        f"bench-{number}",
                    )
                    runs[kind].append(await asyncio.to_thread(run_child, MODULE, *arguments, timeout_s=RUN_S_MAX))
    worker, bare = (_middle(runs[kind]) for kind in KINDS)
    ratios = [ours["spans_per_s"] / engine["spans_per_s"] for ours, engine in zip(*runs.values(), strict=True)]
    bare["spans"] = bare_count
    return {"set": name, "spans": spans_count, "worker": worker, "bare": bare, "ratio": round(median(ratios), 2)}


def _middle(runs: Sequence[dict[str, Any]]) -> dict[str, Any]:
    return sorted(runs, key=lambda run: run["merged_us"])[len(runs) // 2]


async def run_worker(settings: Settings, *, spans_count: int) -> dict[str, Any]:
    """Run the worker until everything in the topics is committed, and then until the engine has merged it."""
    source = TimedSource(settings.kafka)
    async with (
        logging_engine(settings) as store,
        open_worker(settings, projects=AnyProject(), store=store, source=source) as worker,
    ):
        running = asyncio.create_task(worker.run(), name="worker")
        while _stored() < spans_count:
            if running.done():
                await running
            await asyncio.sleep(0.005)
        await _all_committed(settings)
        took_s, durable_s, mib = time.monotonic() - source.started_s, cpu_s() - source.started_cpu_s, peak_mib()
        own_s = time.process_time() - source.started_own_s
        worker.stop()
        await running
        engine = await _engine_figures(store, spans_count)
        merged_s = cpu_s() - source.started_cpu_s
    in_engine_us = engine["insert_us"] + engine["merge_us"]
    return {
        "spans_per_s": round(spans_count / took_s),
        "durable_us": us_per(spans_count, durable_s),
        "merged_us": us_per(spans_count, merged_s),
        "decoders_us": us_per(spans_count, durable_s - own_s),
        "other_us": round(us_per(spans_count, merged_s - durable_s + own_s) - in_engine_us, 1),
        "mib": round(mib),
        **engine,
    }


async def _engine_figures(store: ColumnStore, spans_count: int) -> dict[str, Any]:
    await settle(store)
    return {"settled": await sizes(store, spans_count), **await work(store, spans_count)}


async def _all_committed(settings: Settings) -> None:
    for _ in range(TRIES_MAX):
        if await uncommitted_count(settings.kafka, [TOPIC]) == 0:
            return
        await asyncio.sleep(0.005)
    raise TimeoutError("the worker has stored everything and commits nothing")


async def run_bare(settings: Settings, records: Iterable[bytes], *, spans_count: int) -> dict[str, Any]:
    """Insert the same rows, decoded beforehand, and wait until the engine has merged them."""
    tables = tables_of(records, settings)
    async with logging_engine(settings) as store:
        await store.select(Statement("SELECT 1"), deadline_s=60.0)
        started_s, started_cpu_s = time.monotonic(), time.process_time()
        for number, rows in enumerate(tables):
            await store.insert(SPANS_TABLE, rows, dedup_token=f"bench-{number}", deadline_s=60.0)
        took_s, durable_s, mib = time.monotonic() - started_s, time.process_time() - started_cpu_s, peak_mib()
        engine = await _engine_figures(store, spans_count)
        merged_s = time.process_time() - started_cpu_s
    return {
        "spans_per_s": round(spans_count / took_s),
        "durable_us": us_per(spans_count, durable_s),
        "merged_us": us_per(spans_count, merged_s),
        "mib": round(mib),
        **engine,
    }


def tables_of(records: Iterable[bytes], settings: Settings) -> Sequence[pa.Table]:
    """Return the rows of the records in the batches that the worker makes: as many rows, and as many bytes."""
    return list(batches_of(records, settings))


def batches_of(records: Iterable[bytes], settings: Settings) -> Iterator[pa.Table]:
    """Yield what ``tables_of`` returns, one batch after the other."""
    policy = Policy.of(settings)
    batch = SpanBatch()
    for offset, value in enumerate(records):
        record = Record(TOPIC, 0, offset, 1, None, value)
        chunk = Chunk([record], {record.source: LOG}, time.time_ns())
        for decoded in records_of(chunk, decode_chunk(chunk, policy.rules)):
            batch.add(decoded, now_s=0.0)
        if policy.flush.is_full(batch):
            yield stamped(batch.rows(), stored_us=1)
            batch = SpanBatch()
    if batch.rows_count:
        yield stamped(batch.rows(), stored_us=1)


class TimedSource(KafkaSource):
    """The real source; it notes when it gave the first records, and how much the processes had used until then."""

    started_s = 0.0
    started_cpu_s = 0.0
    started_own_s = 0.0

    async def poll(self, *, timeout_s: float, records_max: int) -> Sequence[Record]:
        records = await super().poll(timeout_s=timeout_s, records_max=records_max)
        if records and not self.started_s:
            self.started_s, self.started_cpu_s, self.started_own_s = time.monotonic(), cpu_s(), time.process_time()
        return records


class AnyProject:
    """Every project exists: a measurement of ingest needs no Postgres."""

    async def exists(self, _project_id: UUID, /) -> bool:
        return True


def _stored() -> float:
    return float(SPANS_STORED._value.get())


def rows(result: dict[str, Any]) -> list[Row]:
    """Return the rows of the performance table."""
    worker, bare, name = result["worker"], result["bare"], result["set"]
    stages = {
        "Kafka → durable and merged, processor time": ("merged_us", "µs"),
        "  until durable": ("durable_us", "µs"),
        "  decoders": ("decoders_us", "µs"),
        "  insert": ("insert_us", "µs"),
        "  merges": ("merge_us", "µs"),
        "  Python and the rest of the worker": ("other_us", "µs"),
        "rows that merges wrote, per span": ("merged_rows_per_span", ""),
    }
    found = [Row(f"{name}: Kafka → durable", _rate(worker), _rate(bare), ratio=f"{result['ratio']:.2f}")]
    for what, (figure, unit) in stages.items():
        found.append(Row(f"{name}: {what}", _with_unit(worker, figure, unit), _with_unit(bare, figure, unit)))
    for level, spent_us in worker["merge_us_by_level"].items():
        engine_us = bare["merge_us_by_level"].get(level)
        found.append(Row(f"{name}:     {level}", f"{spent_us} µs", "" if engine_us is None else f"{engine_us} µs"))
    found.append(Row(f"{name}: memory, peak", f"{worker['mib']:,} MiB", f"{bare['mib']:,} MiB"))
    found.append(Row(f"{name}: on disk, as inserted", f"{worker['inserted_bytes_per_span']:,} B/span"))
    found.append(Row(f"{name}: on disk, settled", f"{worker['settled']['bytes_per_span']:,} B/span"))
    for kind in ("tables", "columns", "indexes"):
        largest = list(worker["settled"][kind].items())[:LARGEST]
        found += [Row(f"{name}:   {kind}: {part}", f"{size} B/span") for part, size in largest]
    return found


def _rate(run: dict[str, Any]) -> str:
    return f"{run['spans_per_s']:,} spans/s"


def _with_unit(run: dict[str, Any], figure: str, unit: str) -> str:
    return f"{run[figure]} {unit}".rstrip() if figure in run else ""


def run_kind(arguments: argparse.Namespace) -> dict[str, Any]:
    """Measure one run in this process."""
    tune_for_batches()
    with tempfile.TemporaryDirectory() as directory:
        settings = bench_settings(Path(directory), bootstrap=arguments.bootstrap)
        settings = settings.model_copy(update={"kafka": settings.kafka.model_copy(update={"group": arguments.group})})
        if arguments.kind == "worker":
            return asyncio.run(run_worker(settings, spans_count=arguments.spans))
        return asyncio.run(run_bare(settings, SETS[arguments.set](arguments.spans), spans_count=arguments.spans))


def main() -> None:
    """Measure a set, or one run in this process; print the table and one JSON object."""
    parser = parser_of("ingest", __doc__)
    if sys.argv[1:2] and sys.argv[1] in KINDS:
        parser.add_argument("kind", choices=KINDS)
        parser.add_argument("set", choices=sorted(SETS))
        parser.add_argument("spans", type=int)
        parser.add_argument("bootstrap")
        parser.add_argument("group")
        arguments = parser.parse_args()
        configure_logging(log_format="text", level="warning")
        result = run_kind(arguments)
    else:
        add_set(parser, spans=100_000, rounds=1)
        arguments = parser.parse_args()
        configure_logging(log_format="text", level="warning")
        result = asyncio.run(measure(arguments.set, spans_count=arguments.spans, rounds=arguments.rounds))
        print(table(rows(result)))
    print(json.dumps(result))


if __name__ == "__main__":
    main()
