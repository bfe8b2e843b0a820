"""Measures ``clearspan export`` beside the bare engine: spans per second, processor time, and memory over time.

The API runs in this process, the command in another one. The memory of this process is its growth after a first page,
because the engine fills its caches at first use. The engine alone writes the same columns in the same order, without
looking for latest versions, sums of traces or responses in our form.
"""

from __future__ import annotations

import asyncio
import json
import os
import sys
import tempfile
import time
from collections.abc import AsyncIterator, Iterator, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import aiohttp
import psutil
import pyarrow as pa

from bench.command import HELP, parser_of
from bench.harness import bench_settings, migrated_store
from bench.ingest import LOG, TOPIC
from bench.records import llm_records, plain_records
from bench.retention import fill_with_copies
from common.clickhouse.span_columns import OPTIONAL_MEMBERS, SPANS_TABLE, stamped
from common.clickhouse.store import ColumnStore, Statement
from common.kafka.record import Record
from common.limits import MIB
from common.memory import tune_for_batches
from common.settings import Settings
from common.telemetry import configure_logging
from ingest.batch import SpanBatch
from ingest.decoding.chunk import Chunk, decode_chunk, records_of
from ingest.policy import Policy
from query_api.http.app import open_api

FORMATS = ("jsonl", "csv", "parquet")
ENGINE_FORMATS = {"jsonl": "JSONEachRow", "csv": "CSV", "parquet": "Parquet"}
SAMPLE_S = 0.25
STEP_SPANS = 100_000
COLUMNS = (
    "stored_us", "trace_id", "span_id", "parent_id", "trace_type", "span_type", "kind", "name", "start_us", "end_us",
    "start_ns_rest", "end_ns_rest", "status_code", "attributes", *OPTIONAL_MEMBERS,
)  # fmt: skip


@dataclass
class Measured:
    """One export, and the memory in MiB whenever another ``STEP_SPANS`` spans were written."""

    seconds: float = 0.0
    server_cpu_s: float = 0.0
    client_cpu_s: float = 0.0
    server_mib: list[float] = field(default_factory=list)
    client_mib: list[float] = field(default_factory=list)


def tables_of(kind: str, spans_count: int, settings: Settings) -> Iterator[pa.Table]:
    """Yield the rows of the records in the batches that the worker makes."""
    policy, batch = Policy.of(settings), SpanBatch()
    for offset, value in enumerate((llm_records if kind == "llm" else plain_records)(spans_count)):
        record = Record(TOPIC, 0, offset, 1, None, value)
        chunk = Chunk([record], {record.source: LOG}, time.time_ns())
        for decoded in records_of(chunk, decode_chunk(chunk, policy.rules)):
            batch.add(decoded, now_s=0.0)
        if policy.flush.is_full(batch):
            yield stamped(batch.rows(), stored_us=1)
            batch = SpanBatch()
    if batch.rows_count:
        yield stamped(batch.rows(), stored_us=1)


@asynccontextmanager
async def filled(directory: Path, kind: str, spans_count: int) -> AsyncIterator[tuple[ColumnStore, Settings]]:
    """Open a store with these spans; one that has as many already is used as it is."""
    settings = bench_settings(directory, bootstrap="127.0.0.1:1")
    async with migrated_store(settings) as store:
        if kind == "copies":
            await fill_with_copies(store, settings, spans_count)
        elif await _count(store) < spans_count:
            for number, table in enumerate(tables_of(kind, spans_count, settings)):
                await store.insert(SPANS_TABLE, table, dedup_token=f"bench-{number}", deadline_s=120.0)
        yield store, settings


async def measure(directory: Path, kind: str, spans_count: int, formats: Sequence[str]) -> dict[str, Any]:
    """Return the figures of each format."""
    async with filled(directory, kind, spans_count) as (store, settings):
        count = await _count(store)
        results: dict[str, Any] = {"spans": count, "kind": kind}
        async with open_api(settings, store=store) as port:
            url = f"http://127.0.0.1:{port}"
            async with aiohttp.ClientSession() as client, client.post(f"{url}/spans/query", json={}) as response:
                await response.read()
            for name in formats:
                file = directory / f"spans.{name}"
                measured = await _export(url, file)
                results[name] = _figures(measured, count, file)
                _remove(file)
        for name in formats:
            results[name] |= await _bare(store, directory / f"bare.{name}", ENGINE_FORMATS[name], count)
    return results


async def _export(url: str, file: Path) -> Measured:
    server, measured = psutil.Process(), Measured()
    before, cpu_before = server.memory_info().rss, _cpu_s(server)
    state = file.with_name(f"{file.name}.partial.json")
    columns = (
        ["--columns", ",".join(("trace_id", "span_id", "span_name", "attributes"))] if file.suffix == ".csv" else []
    )
    process = await asyncio.create_subprocess_exec(
        sys.executable, "-m", "clearspan", "export", str(file), "--url", url, "--overwrite", *columns,
        stderr=asyncio.subprocess.DEVNULL,
    )  # fmt: skip
    client, began_s, rows = psutil.Process(process.pid), time.perf_counter(), -1
    waiting = asyncio.create_task(process.wait())
    while not (await asyncio.wait({waiting}, timeout=SAMPLE_S))[0]:
        try:
            measured.client_cpu_s = _cpu_s(client)
            client_mib = client.memory_info().rss / MIB
        except psutil.Error:
            break
        reached = json.loads(state.read_text())["rows"] // STEP_SPANS if state.exists() else 0
        for memory, value in (
            (measured.server_mib, (server.memory_info().rss - before) / MIB),
            (measured.client_mib, client_mib),
        ):
            if reached != rows or not memory:
                memory.append(round(value, 1))
            memory[-1] = max(memory[-1], round(value, 1))
        rows = reached
    measured.seconds = time.perf_counter() - began_s
    measured.server_cpu_s = _cpu_s(server) - cpu_before
    if await waiting != 0:
        raise RuntimeError(f"clearspan export {file} failed.")
    return measured


def _figures(measured: Measured, count: int, file: Path) -> dict[str, Any]:
    return {
        "spans_per_s": round(count / measured.seconds),
        "server_us_per_span": round(measured.server_cpu_s / count * 1e6, 1),
        "client_us_per_span": round(measured.client_cpu_s / count * 1e6, 1),
        "server_growth_mib": measured.server_mib,
        "client_mib": measured.client_mib,
        "mib": round(file.stat().st_size / MIB),
    }


async def _bare(store: ColumnStore, file: Path, engine_format: str, count: int) -> dict[str, Any]:
    process, began_s = psutil.Process(), time.perf_counter()
    before = _cpu_s(process)
    sql = (
        f"INSERT INTO FUNCTION file('{file}', '{engine_format}') SELECT {', '.join(COLUMNS)} FROM spans"
        " ORDER BY project_id DESC, start_us DESC, span_id DESC, trace_id DESC"
    )
    await store.execute(Statement(sql, {}, {"engine_file_truncate_on_insert": 1}), deadline_s=3_000.0)
    seconds = time.perf_counter() - began_s
    _remove(file)
    return {
        "bare_spans_per_s": round(count / seconds),
        "bare_us_per_span": round((_cpu_s(process) - before) / count * 1e6, 1),
    }


def _cpu_s(process: psutil.Process) -> float:
    times = process.cpu_times()
    return float(times.user + times.system)


def _remove(file: Path) -> None:
    for path in (file, file.with_name(f"{file.name}.sha256")):
        path.unlink(missing_ok=True)


async def _count(store: ColumnStore) -> int:
    rows = await store.select(Statement("SELECT count() AS spans FROM spans"), deadline_s=60.0)
    return int(rows["spans"][0].as_py())


def main() -> None:
    """Measure, and print one JSON object."""
    parser = parser_of("export", __doc__)
    parser.add_argument("spans_count", metavar="spans", type=int, help=HELP["spans_count"])
    parser.add_argument("--kind", choices=("llm", "plain", "copies"), default="llm", help="which spans (%(default)s)")
    parser.add_argument("--data", type=Path, help="a directory to keep the spans in, and to use again")
    parser.add_argument("--formats", nargs="+", choices=FORMATS, default=FORMATS, help="only these")
    arguments = parser.parse_args()
    configure_logging(log_format="text", level="error")
    tune_for_batches()
    os.environ.pop("CLEARSPAN_URL", None)
    with tempfile.TemporaryDirectory() as directory:
        data = arguments.data or Path(directory)
        print(
            json.dumps(asyncio.run(measure(data, arguments.kind, arguments.spans_count, arguments.formats)), indent=2)
        )


if __name__ == "__main__":
    main()
