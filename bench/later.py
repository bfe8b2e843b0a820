"""Measures pages of spans with joined log events, and pages without: ``python -m bench.later [SPANS] [TIMES]``.

Half of the model calls get two events of log records each. Pages of 100 of each half, at places that differ each time,
are read in turn over HTTP.
"""

from __future__ import annotations

import asyncio
import json
import random
import time
from collections.abc import Iterator, Sequence
from typing import Any, Final
from uuid import UUID

import pyarrow as pa

from bench.command import numbers
from bench.harness import median, say
from bench.query import filled
from bench.records import START_NS, llm_records
from common.clickhouse.event_columns import LateEvent, event_rows, rows_of_events
from common.clickhouse.span_columns import SPANS_TABLE
from common.clickhouse.store import ColumnStore, Statement
from common.ids import DEFAULT_PROJECT_ID
from common.limits import SpanLimits
from common.span import Event, LogMembers
from common.times import SystemClock, format_us
from ingest.batch import NO_SPANS
from ingest.decode import Rules
from ingest.decoding.decoder import ThreadDecoder
from ingest.joiner import Joiner
from ingest.masking.dead_letters import NO_MASKING

LOGS: Final = "c/otlp_logs/0"
SPANS_PER_BATCH: Final = 2_000
PAGE: Final = 100
KINDS: Final = ("without", "with")


async def measure(spans_count: int = 20_000, times: int = 60) -> dict[str, Any]:
    """Return the medians of both kinds of pages in milliseconds, and what joining took, in microseconds a span."""
    middle_ns = START_NS + spans_count // 2 * 1_000_000
    joined: list[tuple[int, float]] = []

    async def join(store: ColumnStore) -> None:
        joined.append(await _join(store, middle_ns))

    async with filled(llm_records(spans_count), then=join) as (_, client, _):
        bounds = {"without": (START_NS, middle_ns), "with": (middle_ns, START_NS + spans_count * 1_000_000)}
        took_ms: dict[str, list[float]] = {kind: [] for kind in KINDS}
        draw = random.Random(1)
        for number in range(times):
            share = draw.uniform(0.2, 1.0)
            for kind in KINDS if number % 2 else reversed(KINDS):
                oldest_ns, newest_ns = bounds[kind]
                newest = format_us(int(oldest_ns + share * (newest_ns - oldest_ns)) // 1_000)
                window = {"oldest": format_us(oldest_ns // 1_000), "newest": newest, "limit": PAGE}
                page = await client.send("/spans/query", {"windowing": window})
                assert page.items_count == PAGE, page.items_count
                took_ms[kind].append(page.took_ms)
    medians = {f"{kind}_ms": round(median(values), 2) for kind, values in took_ms.items()}
    [(joined_count, seconds)] = joined
    ratio = round(medians["with_ms"] / medians["without_ms"], 2)
    return {"spans": spans_count, **medians, "ratio": ratio, "joining_us": round(seconds / joined_count * 1e6)}


async def _join(store: ColumnStore, middle_ns: int) -> tuple[int, float]:
    """Add events to the spans of the second half; return how many spans there are, and how long it took."""
    joiner = Joiner(
        store, ThreadDecoder(Rules({}, SpanLimits(), DEFAULT_PROJECT_ID)), clock=SystemClock(), timeout_s=60
    )
    names = await _names(store, middle_ns)
    started_s = time.perf_counter()
    for number, first in enumerate(range(0, len(names), SPANS_PER_BATCH)):
        late = list(_events(names[first : first + SPANS_PER_BATCH]))
        rows = event_rows(list(rows_of_events(late, partition_id=LOGS, record_offset=number, record_ms=1)))
        await joiner.store(rows, dedup_token=f"bench-events-{number}")
        await joiner.join(NO_SPANS, rows, NO_MASKING)
    return len(names), time.perf_counter() - started_s


async def _names(store: ColumnStore, middle_ns: int) -> Sequence[tuple[UUID, bytes, bytes]]:
    sql = f"SELECT trace_id, span_id FROM {SPANS_TABLE} WHERE start_us >= {{middle:Int64}} ORDER BY start_us"
    rows: pa.Table = await store.select(Statement(sql, {"middle": middle_ns // 1_000}), deadline_s=60.0)
    ids = zip(rows.column("trace_id").to_pylist(), rows.column("span_id").to_pylist(), strict=True)
    return [(DEFAULT_PROJECT_ID, trace_id, span_id) for trace_id, span_id in ids]


def _events(names: Sequence[tuple[UUID, bytes, bytes]]) -> Iterator[LateEvent]:
    for number, name in enumerate(names):
        asked = Event("gen_ai.user.message", START_NS + 1, {"content": f"How many apples are {number}? " * 5}, 0, _LOG)
        answered = Event("gen_ai.choice", START_NS + 2, {"message": f"There are {number} apples. " * 5}, 0, _LOG)
        for index, event in enumerate((asked, answered)):
            yield LateEvent(*name, event, 2 * number + index)


_LOG: Final = LogMembers("a body", "INFO", 9)


if __name__ == "__main__":
    say(json.dumps(asyncio.run(measure(*numbers(measure)))))
