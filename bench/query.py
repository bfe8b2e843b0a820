"""Questions over HTTP, beside the statements that each becomes, asked of the engine directly.

The API is the real one on a real socket, and who asks is another process, as users are (``client.py``). Every question names other
values, and the engine's cache of conditions is off, so that nothing is answered from memory of the question: that is what the
percentiles over HTTP are of.

What HTTP, rendering and Python cost is a difference of pairs: the same question over HTTP again, and the statements that made its
answer bare, in the same order, side by side where they ran so, each read into Arrow as the API reads it. Both come after the first
time, when the engine has loaded its marks and postings, and take turns in coming first.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import random
import tempfile
import time
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import pyarrow as pa

from bench.client import Client, client_of
from bench.harness import bench_settings, percentile
from bench.ingest import tables_of
from bench.records import START_NS, plain_records
from common.clickhouse.connect import open_store
from common.clickhouse.migrate import migrate
from common.clickhouse.span_columns import SPANS_TABLE
from common.clickhouse.store import ColumnStore, Statement
from common.memory import tune_for_batches
from common.telemetry import configure_logging
from common.times import format_us
from query_api.http.app import open_api

TIMES: Final = 60
"""How often each question is asked, the first tenth to warm up."""

PAIRS: Final = 4
"""How often each is asked over HTTP and bare, for the difference: a twentieth of what either takes, and of either's spread a fifth."""

DEEP_PAGE: Final = 10_000
DEEP_LIMIT: Final = 50
STRIDE: Final = 10_000
"""Spans a call on the way to the deep page: the limit may change from page to page."""

OF_QUESTIONS: Final = "project_id"
"""The parameter that every statement of a question has; what the API asks for itself meanwhile is about all projects."""

Body = dict[str, Any]


@dataclass(frozen=True, slots=True)
class Question:
    """A route and a body, made anew for each time it is asked."""

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


QUESTIONS: Final[Mapping[str, Question]] = {
    "newest page of 100": Question("/spans/query", _newest),
    "attribute, page of 50": Question("/spans/query", lambda chance, _: _page(50, _attribute(chance))),
    "or of three attributes, 50": Question("/spans/query", _or),
    "not, page of 50": Question("/spans/query", _not),
    "regex, page of 50": Question("/spans/query", _regex),
    "text, page of 50": Question("/spans/query", _text),
    "traces by attribute, 50": Question("/traces/query", lambda chance, _: _page(50, _attribute(chance))),
    "newest traces, 50": Question("/traces/query", _newest_traces),
}


@dataclass(frozen=True, slots=True)
class _Ran:
    statement: Statement
    started_s: float
    ended_s: float


class RecordingStore:
    """A store that remembers which statements about spans were asked of it, and when."""

    def __init__(self, store: ColumnStore) -> None:
        self._store = store
        self.ran: list[_Ran] = []

    def __getattr__(self, name: str) -> Any:
        return getattr(self._store, name)

    async def select(self, statement: Statement, /, *, deadline_s: float) -> pa.Table:
        settings = {**statement.settings, "use_query_condition_cache": 0}
        fresh = Statement(statement.sql, statement.parameters, settings)
        started_s = time.perf_counter()
        table = await self._store.select(fresh, deadline_s=deadline_s)
        if OF_QUESTIONS in statement.parameters:
            self.ran.append(_Ran(fresh, started_s, time.perf_counter()))
        return table

    async def replay_ms(self, ran: Sequence[_Ran]) -> float:
        """How long the same statements take bare: those that ran side by side do so again."""
        started_s = time.perf_counter()
        for together in _side_by_side(ran):
            await asyncio.gather(*(self._store.select(each.statement, deadline_s=30.0) for each in together))
        return (time.perf_counter() - started_s) * 1000


def _side_by_side(ran: Sequence[_Ran]) -> list[list[_Ran]]:
    groups: list[list[_Ran]] = []
    for each in sorted(ran, key=lambda one: one.started_s):
        if groups and each.started_s < max(other.ended_s for other in groups[-1]):
            groups[-1].append(each)
        else:
            groups.append([each])
    return groups


async def measure(spans_count: int) -> dict[str, Any]:
    """Percentiles in milliseconds: each question over HTTP and bare, and a deep page beside the first one."""
    async with _filled(spans_count) as (store, client):
        results: dict[str, Any] = {"spans": spans_count}
        for name, question in QUESTIONS.items():
            results[name] = await _ask(store, client, question, spans_count)
        results["depth"] = await _depth(client, spans_count)
    return results


@asynccontextmanager
async def _filled(spans_count: int) -> AsyncIterator[tuple[RecordingStore, Client]]:
    with tempfile.TemporaryDirectory() as directory:
        settings = bench_settings(Path(directory), bootstrap="127.0.0.1:1")
        await migrate(settings.clickhouse, data_dir=settings.data_dir)
        store = RecordingStore(open_store(settings.clickhouse, data_dir=settings.data_dir))
        for number, table in enumerate(tables_of(plain_records(spans_count), settings)):
            await store.insert(SPANS_TABLE, table, dedup_token=f"bench-{number}", deadline_s=60.0)
        async with open_api(settings, store=store) as port, client_of(port) as client:
            yield store, client
        await store.close()


async def _ask(store: RecordingStore, client: Client, question: Question, spans_count: int) -> dict[str, Any]:
    randomness = random.Random(3)
    warm = TIMES // 10
    http_ms, engine_ms, over_ms, counts = [], [], [], []
    for number in range(TIMES):
        body = question.body(randomness, spans_count)
        store.ran.clear()
        answered = await client.post(question.path, body)
        pairs = await _pairs(store, client, question.path, body)
        http_ms.append(answered.took_ms)
        engine_ms.append(pairs[0].bare_ms)
        if number >= warm:
            over_ms += [pair.http_ms - pair.bare_ms for pair in pairs]
        counts.append(answered.items_count)
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
    """The same question twice: over HTTP, and as its statements alone."""

    http_ms: float
    bare_ms: float


async def _pairs(store: RecordingStore, client: Client, path: str, body: Body) -> list[_Pair]:
    """How long a question takes that was just asked, both ways, which take turns in coming first."""
    ran = list(store.ran)
    pairs = []
    for number in range(PAIRS):
        bare_ms = await store.replay_ms(ran) if number % 2 else 0.0
        http_ms = (await client.post(path, body)).took_ms
        pairs.append(_Pair(http_ms, bare_ms if number % 2 else await store.replay_ms(ran)))
    return pairs


async def _depth(client: Client, spans_count: int) -> dict[str, Any]:
    """p50 of the first page of a walk and of page ``DEEP_PAGE``, or of the last one that so many spans have, in turn."""
    deep_page = min(DEEP_PAGE, spans_count // DEEP_LIMIT - 1)
    before, cursor = (deep_page - 1) * DEEP_LIMIT, None
    while before > 0:
        limit = min(STRIDE, before)
        answered = await client.post("/spans/query", _walk(limit, cursor))
        cursor, before = answered.cursor, before - answered.items_count
    first_ms, deep_ms = [], []
    for _ in range(TIMES):
        first_ms.append((await client.post("/spans/query", _walk(DEEP_LIMIT, None))).took_ms)
        deep_ms.append((await client.post("/spans/query", _walk(DEEP_LIMIT, cursor))).took_ms)
    first, deep = percentile(first_ms, 50), percentile(deep_ms, 50)
    return {
        "page": deep_page,
        "first_p50_ms": round(first, 1),
        "deep_p50_ms": round(deep, 1),
        "ratio": round(deep / first, 2),
    }


def _walk(limit: int, cursor: str | None) -> Body:
    return {"windowing": {"limit": limit, "next": cursor}}


def main() -> None:
    """Print one JSON object."""
    parser = argparse.ArgumentParser()
    parser.add_argument("spans", type=int)
    configure_logging(log_format="text", level="warning")
    tune_for_batches()
    print(json.dumps(asyncio.run(measure(parser.parse_args().spans))))


if __name__ == "__main__":
    main()
