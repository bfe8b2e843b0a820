"""Measures what a trace by its id costs over HTTP, by part: ``python -m bench.parts [SPANS] [TIMES]``.

The trace has ten spans and takes two statements. Each part is the tenth percentile in milliseconds, because other work
only adds to it:

- ``response``: over HTTP, as the client sees it;
- ``versions``, ``rows``: the statements as the API waits for them, with thread and Arrow; ``… planned``: their plans,
  explained, which costs more than to make them; ``select_1``: the least that any statement takes;
- ``between``: from the response of the first to the second;
- ``python``: processor time of the same call if the engine's results are at hand: the statements' texts, judging the
  versions, rendering;
- ``http``: the rest: HTTP, routing, authentication (off).
"""

from __future__ import annotations

import random
import time
from collections.abc import Sequence
from typing import Any, Final

import pyarrow as pa

from bench.client import Client
from bench.harness import child_main, percentile, say
from bench.queries import QUERIES, TRACE, stored_of
from bench.query import RecordingStore, filled
from bench.varied import plain_records
from common.clickhouse.store import Statement
from common.ids import DEFAULT_PROJECT_ID
from common.limits import MIB
from common.times import SystemClock
from query_api.pages.traces import traces_of_ids
from query_api.spans.project_spans import ProjectSpans

TIMES: Final = 100
DEADLINE_S: Final = 30.0
BYTES_MAX: Final = 16 * MIB


class ReplayingStore:
    """A store that has the results of some statements at hand, in the order in which they are asked for."""

    def __init__(self, results: Sequence[pa.Table]) -> None:
        self._results = iter(results)

    def __getattr__(self, name: str) -> Any:
        raise AssertionError(f"The call needs {name} of the store.")

    async def select(self, statement: Statement, /, *, deadline_s: float) -> pa.Table:  # noqa: ARG002
        return next(self._results)


async def measure(spans_count: int = 100_000, times: int = TIMES) -> dict[str, Any]:
    """Return the parts in milliseconds."""
    end_ns = time.time_ns()
    async with filled(plain_records(spans_count, end_ns=end_ns)) as (store, client, trace_ids):
        stored, draw = stored_of(spans_count, end_ns, trace_ids), random.Random(3)
        say(f"  {times} traces by their ids …")
        found = []
        for _ in range(times):
            path, _ = QUERIES[TRACE](draw, stored)
            found.append(await _parts(store, client, path))
    warm = found[times // 10 :]
    return {"spans": spans_count, **{part: round(percentile([each[part] for each in warm], 10), 2) for part in warm[0]}}


async def _parts(store: RecordingStore, client: Client, path: str) -> dict[str, float]:
    store.executed.clear()
    page = await client.send(path, None)
    versions, rows = sorted(store.executed, key=lambda each: each.started_s)
    statements_s = rows.ended_s - versions.started_s
    results = [await store.select(each.statement, deadline_s=DEADLINE_S) for each in (versions, rows)]
    python_ms = await _python_ms(results, bytes.fromhex(path.rpartition("/")[2]))
    between_ms = (rows.started_s - versions.ended_s) * 1000
    return {
        "response": page.took_ms,
        "versions": (versions.ended_s - versions.started_s) * 1000,
        "versions planned": await _plan_ms(store, versions.statement),
        "between": between_ms,
        "rows": (rows.ended_s - rows.started_s) * 1000,
        "rows planned": await _plan_ms(store, rows.statement),
        "select_1": await _took_ms(store, Statement("SELECT 1")),
        "python": python_ms,
        "http": page.took_ms - statements_s * 1000 + between_ms - python_ms,
    }


async def _python_ms(results: Sequence[pa.Table], trace_id: bytes) -> float:
    store: Any = ReplayingStore(results)
    spans = ProjectSpans(store, DEFAULT_PROJECT_ID, clock=SystemClock(), budget_s=DEADLINE_S)
    started_s = time.thread_time()
    [trace] = await traces_of_ids(spans, [trace_id], bytes_max=BYTES_MAX)
    assert trace.json
    return (time.thread_time() - started_s) * 1000


async def _plan_ms(store: RecordingStore, statement: Statement) -> float:
    sql = f"SELECT explain FROM (EXPLAIN PLAN {statement.sql})"
    return await _took_ms(store, Statement(sql, statement.parameters, statement.settings))


async def _took_ms(store: RecordingStore, statement: Statement) -> float:
    started_s = time.perf_counter()
    await store.select(statement, deadline_s=DEADLINE_S)
    return (time.perf_counter() - started_s) * 1000


if __name__ == "__main__":
    child_main(measure)
