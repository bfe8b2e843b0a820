"""Measures what queries of cold spans cost: ``python -m bench.cold [SPANS] [TIMES]``.

The engine is a process with a cold volume on a stand-in for S3, which answers each request after 20 ms and has a
process of its own. The same queries are sent while all spans are on the disk, after they have moved, after the engine
has been started again, and over the same volume with the engine's cache of files. A query has other values each time.
Requests and bytes are counted by the engine: they are the same on every machine, times are not.
"""

from __future__ import annotations

import random
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Final, NamedTuple

from bench.client import Client, client_of
from bench.engine import settle
from bench.harness import bench_settings, child_main, say
from bench.ingest import batches_of
from bench.queries import QUERIES, TRACE, Stored, stored_of
from bench.varied import plain_records
from common.clickhouse.connect import open_store
from common.clickhouse.migrate import migrate
from common.clickhouse.span_columns import SPANS_TABLE
from common.clickhouse.store import ColumnStore, Statement
from common.settings import Settings
from query_api.http.app import open_api
from tests.support.clickhouse import ClickHouseServer
from tests.support.cold_storage import COLD, STORAGE, move_spans

DELAY_MS: Final = 20
TRACE_EVERY: Final = 997
TIMES: Final = 10
BUDGET_S: Final = 120.0
NAMES: Final = ("newest page of 100", "attribute, page of 50", TRACE, "newest traces, 50", "text, page of 50")
READ: Final = """
SELECT sumIf(value, event = 'S3GetObject') AS requests, sumIf(value, event = 'ReadBufferFromS3Bytes') AS bytes
FROM system.events
"""
CACHED: Final = "<cached><type>cache</type><disk>cold</disk><path>{directory}/data/cache/cold/</path><max_size>4Gi</max_size></cached></disks>"


class Cost(NamedTuple):
    """What one query took."""

    took_ms: float
    requests: int
    read_kib: float


@contextmanager
def s3_process() -> Iterator[str]:
    """Start the stand-in in a process of its own; yield the address of its bucket."""
    command = [sys.executable, "-m", "tests.support.s3_stand_in", str(DELAY_MS)]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as process:
        assert process.stdout is not None
        yield process.stdout.readline().decode().strip()
        process.terminate()


async def measure(spans_count: int = 200_000, times: int = TIMES) -> dict[str, Any]:
    """Return for each phase and query: the first time, the median of the others, requests and bytes."""
    results: dict[str, Any] = {"spans": spans_count}
    with tempfile.TemporaryDirectory() as name, s3_process() as bucket:
        for is_cached in (False, True):
            directory = Path(name) / str(is_cached)
            storage = STORAGE.format(bucket=bucket, directory=directory)
            if is_cached:
                storage = storage.replace("</disks>", CACHED.format(directory=directory), 1)
                storage = storage.replace("<cold><disk>cold</disk>", "<cold><disk>cached</disk>")
            server = ClickHouseServer(directory, more=storage)
            server.start()
            try:
                results |= await _phases(server, directory, spans_count, times, is_cached=is_cached)
            finally:
                server.stop()
    return results


async def _phases(
    server: ClickHouseServer, directory: Path, spans_count: int, times: int, *, is_cached: bool
) -> dict[str, Any]:
    plain = bench_settings(directory, bootstrap="127.0.0.1:1")
    patient = plain.query.model_copy(update={"budget_s": BUDGET_S})
    clickhouse = server.settings(storage_policy="tiered")
    settings = plain.model_copy(update={"clickhouse": clickhouse, "query": patient})
    end_ns = time.time_ns()
    await migrate(settings.clickhouse, data_dir=directory)
    store = open_store(settings.clickhouse, data_dir=directory)
    trace_ids: list[str] = []
    for number, batch in enumerate(batches_of(plain_records(spans_count, end_ns=end_ns), settings)):
        await store.insert(SPANS_TABLE, batch, dedup_token=f"bench-{number}", deadline_s=60.0)
        trace_ids += [trace_id.hex() for trace_id in batch["trace_id"][::TRACE_EVERY].to_pylist()]
    await settle(store)
    stored = stored_of(spans_count, end_ns, trace_ids)
    results = {} if is_cached else {"hot": await _queries(settings, store, stored, times)}
    started_s = time.perf_counter()
    await move_spans(store, "cached" if is_cached else COLD)
    say(f"  moved in {time.perf_counter() - started_s:.1f} s")
    await store.close()
    server.stop()
    server.start()
    store = open_store(settings.clickhouse, data_dir=directory)
    results["cached" if is_cached else "cold"] = await _queries(settings, store, stored, times)
    await store.close()
    return results


async def _queries(settings: Settings, store: ColumnStore, stored: Stored, times: int) -> dict[str, Any]:
    results = {}
    async with open_api(settings, store=store) as port, client_of(port) as client:
        for name in NAMES:
            draw = random.Random(3)
            costs = [await _cost(store, client, name, draw, stored) for _ in range(times)]
            middle = Cost(*(statistics.median(values) for values in zip(*costs[1:], strict=True)))
            results[name] = {"first": _shown(costs[0]), "others": _shown(middle)}
            say(f"  {name}: first {_shown(costs[0])}, others {_shown(middle)}")
    return results


async def _cost(store: ColumnStore, client: Client, name: str, draw: random.Random, stored: Stored) -> Cost:
    before = await _read(store)
    page = await client.send(*QUERIES[name](draw, stored))
    after = await _read(store)
    return Cost(page.took_ms, after[0] - before[0], (after[1] - before[1]) / 1024)


async def _read(store: ColumnStore) -> tuple[int, int]:
    rows = (await store.select(Statement(READ), deadline_s=60.0)).to_pylist()
    return rows[0]["requests"], rows[0]["bytes"]


def _shown(cost: Cost) -> dict[str, float]:
    return {name: round(value, 1) for name, value in cost._asdict().items()}


if __name__ == "__main__":
    child_main(measure)
