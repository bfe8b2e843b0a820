"""Measures what shards cost: ``python -m bench.shards [SPANS] [TIMES]``.

The same spans are stored, and the same queries sent, in one engine, through a ``Distributed`` table over one shard, and
over two shards. All servers are processes of this machine, so times say what is added, not what is gained; the
processor time of each server says how the work is divided.
"""

from __future__ import annotations

import random
import statistics
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any, Final

from bench.client import client_of
from bench.harness import bench_settings, child_main, say
from bench.ingest import batches_of
from bench.queries import QUERIES, TRACE, stored_of
from bench.varied import plain_records
from common.clickhouse.connect import open_store
from common.clickhouse.migrate import migrate
from common.clickhouse.span_columns import SPANS_TABLE
from common.clickhouse.store import ColumnStore, Statement
from common.settings import Settings
from query_api.http.app import open_api
from tests.support.clickhouse_cluster import clickhouse_cluster

TRACE_EVERY: Final = 997
TIMES: Final = 20
NAMES: Final = ("newest page of 100", "attribute, page of 50", TRACE, "newest traces, 50")
GROUPS: Final = "groups by name, filtered"
GROUPS_BODY: Final = {
    "group_by": ["span_name"],
    "measures": [{"of": "duration", "as": ["p95"]}],
    "filtering": {"conditions": [{"field": "span_name", "operator": "contains", "value": "e"}]},
}
CPU: Final = "SELECT sumIf(value, event = 'OSCPUVirtualTimeMicroseconds') AS us FROM system.events"


async def measure(spans_count: int = 100_000, times: int = TIMES) -> dict[str, Any]:
    """Return for each layout: microseconds of a span by insert and of processor by server, and the cost of queries."""
    results: dict[str, Any] = {"spans": spans_count}
    for name, shards_count in (("one engine", 0), ("one shard", 1), ("two shards", 2)):
        say(name)
        with (
            tempfile.TemporaryDirectory() as directory,
            clickhouse_cluster(Path(directory), shards_count=shards_count or 1) as cluster,
        ):
            clickhouse = cluster.settings() if shards_count else cluster.nodes[0].settings()
            plain = bench_settings(Path(directory), bootstrap="127.0.0.1:1")
            settings = plain.model_copy(update={"clickhouse": clickhouse})
            results[name] = await _layout(settings, Path(directory), spans_count, times)
    return results


async def _layout(settings: Settings, directory: Path, spans_count: int, times: int) -> dict[str, Any]:
    end_ns = time.time_ns()
    await migrate(settings.clickhouse, data_dir=directory)
    store = open_store(settings.clickhouse, data_dir=directory)
    batches = list(batches_of(plain_records(spans_count, end_ns=end_ns), settings))
    trace_ids = [trace_id.hex() for batch in batches for trace_id in batch["trace_id"][::TRACE_EVERY].to_pylist()]
    async with store.shards() as shards:
        stores = [shard.store for shard in shards]
        began_s, before = time.perf_counter(), await _cpu_us(stores)
        for number, batch in enumerate(batches):
            await store.insert(SPANS_TABLE, batch, dedup_token=f"bench-{number}", deadline_s=60.0)
        took_s = time.perf_counter() - began_s
        results: dict[str, Any] = {
            "insert, us a span": round(took_s * 1e6 / spans_count, 1),
            "insert, processor us a span": [round(us / spans_count, 1) for us in await _since(stores, before)],
        }
        say(f"  {results}")
        draw, stored = random.Random(3), stored_of(spans_count, end_ns, trace_ids)
        async with open_api(settings, store=store) as port, client_of(port) as client:
            for name in (*NAMES, GROUPS):
                before = await _cpu_us(stores)
                asked = [
                    ("/spans/groups/query", GROUPS_BODY) if name == GROUPS else QUERIES[name](draw, stored)
                    for _ in range(times)
                ]
                pages = [await client.send(*each) for each in asked]
                results[name] = {
                    "ms": round(statistics.median(page.took_ms for page in pages), 1),
                    "processor ms": [round(us / 1_000 / times, 1) for us in await _since(stores, before)],
                }
                say(f"  {name}: {results[name]}")
    await store.close()
    return results


async def _cpu_us(stores: Sequence[ColumnStore]) -> list[int]:
    """Return the processor time that each server has used."""
    return [(await store.select(Statement(CPU), deadline_s=60.0))["us"][0].as_py() for store in stores]


async def _since(stores: Sequence[ColumnStore], before: Sequence[int]) -> list[int]:
    return [now - then for now, then in zip(await _cpu_us(stores), before, strict=True)]


if __name__ == "__main__":
    child_main(measure)
