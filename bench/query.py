"""Measures queries over HTTP, and the statements of each query in the engine alone:
``python -m bench.query [SPANS] [TIMES]``.

The API listens on a real socket, and the client is another process (``client.py``). Every query has different values,
and the engine's query condition cache is off, so no result comes from a cache. The percentiles over HTTP are of these
queries.

The cost of HTTP, rendering and Python is a difference of pairs: the same query again over HTTP, and its statements
alone, in the same order and as concurrent as they were, read into Arrow as the API reads them. Both run after the
first query, when the engine has loaded its marks and postings, and alternate in running first.
"""

from __future__ import annotations

import asyncio
import random
import tempfile
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Iterable, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import pyarrow as pa

from bench.client import Client, client_of
from bench.engine import settle
from bench.harness import Row, bench_settings, child_main, migrated_store, percentile, say
from bench.ingest import batches_of
from bench.queries import QUERIES, Body, Call, MakeCall, Stored, stored_of
from bench.varied import plain_records
from common.clickhouse.span_columns import SPANS_TABLE
from common.clickhouse.store import ColumnStore, Statement
from query_api.http.app import open_api

TIMES: Final = 60
"""How often each query runs by default. The first tenth warms up."""

PAIRS: Final = 4
"""Pairs per query. The difference is about a twentieth of either time, and a fifth of the spread of either."""

DEEP_PAGE: Final = 10_000
DEEP_LIMIT: Final = 50
TRACE_EVERY: Final = 997
BATCHES_PER_REPORT: Final = 25
STRIDE: Final = 10_000
"""Limit of the pages before the deep page."""

QUERY_PARAMETER: Final = "project_id"
"""The parameter that every statement of a query has; background statements of the API read all projects."""


@dataclass(frozen=True, slots=True)
class _ExecutedStatement:
    statement: Statement
    started_s: float
    ended_s: float


class RecordingStore:
    """A store that records the statements of queries, and when they ran."""

    def __init__(self, store: ColumnStore) -> None:
        self._store = store
        self.executed: list[_ExecutedStatement] = []

    def __getattr__(self, name: str) -> Any:
        return getattr(self._store, name)

    async def select(self, statement: Statement, /, *, deadline_s: float) -> pa.Table:
        settings = {**statement.settings, "use_query_condition_cache": 0}
        fresh = Statement(statement.sql, statement.parameters, settings)
        started_s = time.perf_counter()
        table = await self._store.select(fresh, deadline_s=deadline_s)
        if QUERY_PARAMETER in statement.parameters:
            self.executed.append(_ExecutedStatement(fresh, started_s, time.perf_counter()))
        return table

    async def replay_ms(self, executed: Sequence[_ExecutedStatement]) -> float:
        """Return how long the same statements take in the engine alone, with the same concurrency."""
        started_s = time.perf_counter()
        for group in _concurrent(executed):
            await asyncio.gather(*(self._store.select(one.statement, deadline_s=30.0) for one in group))
        return (time.perf_counter() - started_s) * 1000


def _concurrent(executed: Sequence[_ExecutedStatement]) -> list[list[_ExecutedStatement]]:
    groups: list[list[_ExecutedStatement]] = []
    for statement in sorted(executed, key=lambda statement: statement.started_s):
        if groups and statement.started_s < max(other.ended_s for other in groups[-1]):
            groups[-1].append(statement)
        else:
            groups.append([statement])
    return groups


async def measure(spans_count: int, times: int = TIMES) -> dict[str, Any]:
    """Return percentiles in milliseconds: each query over HTTP and in the engine alone, and a deep and a first page."""
    end_ns = time.time_ns()
    async with filled(plain_records(spans_count, end_ns=end_ns)) as (store, client, trace_ids):
        stored = stored_of(spans_count, end_ns, trace_ids)
        results: dict[str, Any] = {"spans": spans_count}
        for name, make_call in QUERIES.items():
            say(f"  {name} …")
            results[name] = await measure_query(store, client, make_call, stored, times=times)
        say("  pages in sequence …")
        results["depth"] = await _depth(client, spans_count, times)
    return results


@asynccontextmanager
async def filled(
    records: Iterable[bytes], *, then: Callable[[ColumnStore], Awaitable[None]] | None = None
) -> AsyncIterator[tuple[RecordingStore, Client, Sequence[str]]]:
    """Store the spans of the records, and what ``then`` stores, until they are merged; yield their store, a client of an
    API over it, and the ids of some traces.
    """
    with tempfile.TemporaryDirectory() as directory:
        settings = bench_settings(Path(directory), bootstrap="127.0.0.1:1")
        async with migrated_store(settings) as migrated:
            store = RecordingStore(migrated)
            trace_ids = await _fill(store, batches_of(records, settings))
            if then is not None:
                await then(migrated)
            await settle(migrated)
            async with open_api(settings, store=store) as port, client_of(port) as client:
                yield store, client, trace_ids


async def _fill(store: RecordingStore, batches: Iterable[pa.Table]) -> list[str]:
    trace_ids, spans_count = [], 0
    for number, batch in enumerate(batches):
        await store.insert(SPANS_TABLE, batch, dedup_token=f"bench-{number}", deadline_s=60.0)
        trace_ids += [trace_id.hex() for trace_id in batch["trace_id"][::TRACE_EVERY].to_pylist()]
        spans_count += batch.num_rows
        if number % BATCHES_PER_REPORT == BATCHES_PER_REPORT - 1:
            say(f"  {spans_count:,} spans stored …")
    return trace_ids


async def measure_query(
    store: RecordingStore, client: Client, make_call: MakeCall, stored: Stored, *, times: int = TIMES
) -> dict[str, Any]:
    """Return percentiles of a query in milliseconds: over HTTP, in the engine alone, and of the difference."""
    randomness = random.Random(3)
    warm = times // 10
    http_ms, engine_ms, over_ms, counts = [], [], [], []
    for number in range(times):
        call = make_call(randomness, stored)
        store.executed.clear()
        page = await client.send(*call)
        pairs = await _pairs(store, client, call)
        http_ms.append(page.took_ms)
        engine_ms.append(pairs[0].engine_ms)
        if number >= warm:
            over_ms += [pair.http_ms - pair.engine_ms for pair in pairs]
        counts.append(page.items_count)
    return {
        "http_p50_ms": round(percentile(http_ms[warm:], 50), 1),
        "http_p95_ms": round(percentile(http_ms[warm:], 95), 1),
        "engine_p50_ms": round(percentile(engine_ms[warm:], 50), 1),
        "engine_p95_ms": round(percentile(engine_ms[warm:], 95), 1),
        "over_p50_ms": round(percentile(over_ms, 50), 1),
        "count_p50": percentile(counts, 50),
    }


@dataclass(frozen=True, slots=True)
class _Pair:
    """The same query twice: over HTTP, and its statements in the engine alone."""

    http_ms: float
    engine_ms: float


async def _pairs(store: RecordingStore, client: Client, call: Call) -> list[_Pair]:
    """Measure both ways a query that has just run; they alternate in running first."""
    executed = list(store.executed)
    pairs = []
    for number in range(PAIRS):
        engine_ms = await store.replay_ms(executed) if number % 2 else 0.0
        http_ms = (await client.send(*call)).took_ms
        pairs.append(_Pair(http_ms, engine_ms if number % 2 else await store.replay_ms(executed)))
    return pairs


async def _depth(client: Client, spans_count: int, times: int) -> dict[str, Any]:
    """Return the p50 of the first page and of page ``DEEP_PAGE`` (or the last); they alternate."""
    deep_page = min(DEEP_PAGE, spans_count // DEEP_LIMIT - 1)
    before, cursor = (deep_page - 1) * DEEP_LIMIT, None
    while before > 0:
        limit = min(STRIDE, before)
        page = await client.send("/spans/query", _windowing(limit, cursor))
        cursor, before = page.cursor, before - page.items_count
    first_ms, deep_ms = [], []
    for _ in range(times):
        first_ms.append((await client.send("/spans/query", _windowing(DEEP_LIMIT, None))).took_ms)
        deep_ms.append((await client.send("/spans/query", _windowing(DEEP_LIMIT, cursor))).took_ms)
    first, deep = percentile(first_ms, 50), percentile(deep_ms, 50)
    return {
        "page": deep_page,
        "first_p50_ms": round(first, 1),
        "deep_p50_ms": round(deep, 1),
        "ratio": round(deep / first, 2),
    }


def _windowing(limit: int, cursor: str | None) -> Body:
    return {"windowing": {"limit": limit, "next": cursor}}


def rows(names: Iterable[str], results: dict[str, Any]) -> list[Row]:
    """Return the rows of the performance table for these queries."""
    found = []
    for name in names:
        result = results[name]
        for percent in ("p50", "p95"):
            over = f"+{result['over_p50_ms']} ms" if percent == "p50" else ""
            ours, engine = result[f"http_{percent}_ms"], result[f"engine_{percent}_ms"]
            found.append(Row(f"{name}, {percent}", f"{ours} ms", f"{engine} ms", ratio=over))
    return found


def depth_row(depth: dict[str, Any]) -> Row:
    """Return the row of the deep page."""
    return Row(
        f"page {depth['page']:,}; page 1",
        f"{depth['deep_p50_ms']} ms",
        f"{depth['first_p50_ms']} ms",
        ratio=str(depth["ratio"]),
    )


if __name__ == "__main__":
    child_main(measure)
