"""Measures queries over HTTP, and the statements of each query in the engine alone.

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
from collections.abc import AsyncIterator, Callable, Iterable, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import pyarrow as pa

from bench.client import Client, client_of
from bench.harness import bench_settings, child_main, migrated_store, percentile
from bench.ingest import tables_of
from bench.records import START_NS, plain_records
from common.clickhouse.span_columns import SPANS_TABLE
from common.clickhouse.store import ColumnStore, Statement
from common.times import format_us
from query_api.http.app import open_api

TIMES: Final = 60
"""How often each query runs. The first tenth warms up."""

PAIRS: Final = 4
"""Pairs per query. The difference is about a twentieth of either time, and a fifth of the spread of either."""

DEEP_PAGE: Final = 10_000
DEEP_LIMIT: Final = 50
STRIDE: Final = 10_000
"""Limit of the pages before the deep page."""

QUERY_PARAMETER: Final = "project_id"
"""The parameter that every statement of a query has; background statements of the API read all projects."""

Body = dict[str, Any]


@dataclass(frozen=True, slots=True)
class Query:
    """A route, and a function that returns a new body for each request."""

    path: str
    body: Callable[[random.Random, int], Body]


def _attribute(randomness: random.Random) -> Body:
    value = f"value-{randomness.randrange(1000)}"
    return {"field": "attributes", "key": f"bench.key{randomness.randrange(97)}", "value": value}


def _page(limit: int, *conditions: Body, operator: str = "and") -> Body:
    return {"filtering": {"operator": operator, "conditions": list(conditions)}, "windowing": {"limit": limit}}


def _newest(randomness: random.Random, spans_count: int) -> Body:
    newest_us = START_NS // 1000 + randomness.randrange(spans_count * 1000)
    return {"windowing": {"newest": format_us(newest_us), "limit": 100}}


def _newest_traces(randomness: random.Random, spans_count: int) -> Body:
    return {"windowing": {**_newest(randomness, spans_count)["windowing"], "limit": 50}}


def _or(randomness: random.Random, _spans_count: int) -> Body:
    return _page(50, *(_attribute(randomness) for _ in range(3)), operator="or")


def _not(randomness: random.Random, _spans_count: int) -> Body:
    return _page(50, _attribute(randomness), operator="not")


def _regex(randomness: random.Random, _spans_count: int) -> Body:
    pattern = rf"^value-\d*{randomness.randrange(10, 100)}$"
    return _page(50, {**_attribute(randomness), "operator": "matches", "value": pattern})


def _text(randomness: random.Random, _spans_count: int) -> Body:
    words = f"value {randomness.randrange(1000)} {randomness.randrange(1000)}"
    return _page(50, {"field": "content", "operator": "contains", "value": words})


def _facets(randomness: random.Random, spans_count: int) -> Body:
    return {"windowing": {"newest": _newest(randomness, spans_count)["windowing"]["newest"]}}


def _facet_values(randomness: random.Random, spans_count: int) -> Body:
    return {**_facets(randomness, spans_count), "keys": [f"bench.key{randomness.randrange(97)}"]}


QUERIES: Final[Mapping[str, Query]] = {
    "newest page of 100": Query("/spans/query", _newest),
    "attribute, page of 50": Query("/spans/query", lambda chance, _: _page(50, _attribute(chance))),
    "or of three attributes, 50": Query("/spans/query", _or),
    "not, page of 50": Query("/spans/query", _not),
    "regex, page of 50": Query("/spans/query", _regex),
    "text, page of 50": Query("/spans/query", _text),
    "traces by attribute, 50": Query("/traces/query", lambda chance, _: _page(50, _attribute(chance))),
    "newest traces, 50": Query("/traces/query", _newest_traces),
    "facets: attribute paths": Query("/spans/facets/query", _facets),
    "facets: values of a key": Query("/spans/facets/query", _facet_values),
}


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


async def measure(spans_count: int) -> dict[str, Any]:
    """Return percentiles in milliseconds: each query over HTTP and in the engine alone, and a deep and a first page."""
    async with filled(plain_records(spans_count)) as (store, client):
        results: dict[str, Any] = {"spans": spans_count}
        for name, query in QUERIES.items():
            results[name] = await measure_query(store, client, query, spans_count)
        results["depth"] = await _depth(client, spans_count)
    return results


@asynccontextmanager
async def filled(records: Iterable[bytes]) -> AsyncIterator[tuple[RecordingStore, Client]]:
    """Store the spans of the records; yield their store, and a client of an API over it."""
    with tempfile.TemporaryDirectory() as directory:
        settings = bench_settings(Path(directory), bootstrap="127.0.0.1:1")
        async with migrated_store(settings) as migrated:
            store = RecordingStore(migrated)
            for number, table in enumerate(tables_of(records, settings)):
                await store.insert(SPANS_TABLE, table, dedup_token=f"bench-{number}", deadline_s=60.0)
            async with open_api(settings, store=store) as port, client_of(port) as client:
                yield store, client


async def measure_query(store: RecordingStore, client: Client, query: Query, spans_count: int) -> dict[str, Any]:
    """Return percentiles of a query in milliseconds: over HTTP, in the engine alone, and of the difference."""
    randomness = random.Random(3)
    warm = TIMES // 10
    http_ms, engine_ms, over_ms, counts = [], [], [], []
    for number in range(TIMES):
        body = query.body(randomness, spans_count)
        store.executed.clear()
        page = await client.post(query.path, body)
        pairs = await _pairs(store, client, query.path, body)
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


async def _pairs(store: RecordingStore, client: Client, path: str, body: Body) -> list[_Pair]:
    """Measure both ways a query that has just run; they alternate in running first."""
    executed = list(store.executed)
    pairs = []
    for number in range(PAIRS):
        engine_ms = await store.replay_ms(executed) if number % 2 else 0.0
        http_ms = (await client.post(path, body)).took_ms
        pairs.append(_Pair(http_ms, engine_ms if number % 2 else await store.replay_ms(executed)))
    return pairs


async def _depth(client: Client, spans_count: int) -> dict[str, Any]:
    """Return the p50 of the first page and of page ``DEEP_PAGE`` (or the last); they alternate."""
    deep_page = min(DEEP_PAGE, spans_count // DEEP_LIMIT - 1)
    before, cursor = (deep_page - 1) * DEEP_LIMIT, None
    while before > 0:
        limit = min(STRIDE, before)
        page = await client.post("/spans/query", _windowing(limit, cursor))
        cursor, before = page.cursor, before - page.items_count
    first_ms, deep_ms = [], []
    for _ in range(TIMES):
        first_ms.append((await client.post("/spans/query", _windowing(DEEP_LIMIT, None))).took_ms)
        deep_ms.append((await client.post("/spans/query", _windowing(DEEP_LIMIT, cursor))).took_ms)
    first, deep = percentile(first_ms, 50), percentile(deep_ms, 50)
    return {
        "page": deep_page,
        "first_p50_ms": round(first, 1),
        "deep_p50_ms": round(deep, 1),
        "ratio": round(deep / first, 2),
    }


def _windowing(limit: int, cursor: str | None) -> Body:
    return {"windowing": {"limit": limit, "next": cursor}}


if __name__ == "__main__":
    child_main(measure)
