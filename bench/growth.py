"""Measures what storing costs as a table grows: ``python -m bench.growth SET SPANS``.

The rows are decoded beforehand, batch by batch as the worker makes them. The engine's own logs say how much processor
time its inserts and merges took, so making the rows does not count. A line for each doubling of the spans, from
``FIRST_SPANS`` on: the processor time of inserts and merges per span that was added since the line before, rows that
merges wrote for each of them, the memory of the largest merge, and how long queries by time and by id take then. The
JSON after the lines has the sums since the first span.
"""

from __future__ import annotations

import asyncio
import json
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any, Final

from bench.command import add_set, parser_of
from bench.engine import DEADLINE_S, MERGES, logging_engine, rows_of, settle
from bench.harness import bench_settings, median, say
from bench.ingest import batches_of
from bench.varied import SETS
from common.clickhouse.span_columns import SPANS_TABLE
from common.clickhouse.store import ColumnStore, Statement
from common.memory import tune_for_batches
from common.telemetry import configure_logging

FIRST_SPANS: Final = 500_000
QUERIES: Final = 30

INSERTS: Final = """
SELECT sum(ProfileEvents['OSCPUVirtualTimeMicroseconds']) / 1e6 AS cpu_s
FROM system.query_log
WHERE type = 'QueryFinish' AND query_kind = 'Insert' AND has(tables, concat(currentDatabase(), '.spans'))
"""
BY_TIME: Final = """
SELECT span_id, trace_id FROM spans
WHERE project_id = {project:UUID} AND start_us < {start:Int64} ORDER BY start_us DESC, span_id DESC LIMIT 100
"""
BY_ID: Final = (
    "SELECT span_id, start_us FROM span_versions WHERE project_id = {project:UUID} AND trace_id = {trace:String}"
)
SAMPLE: Final = f"SELECT toString(project_id) AS project, start_us, trace_id FROM spans ORDER BY rand() LIMIT {QUERIES}"


async def measure(name: str, spans_count: int) -> list[dict[str, Any]]:
    """Return a line for each doubling, and for ``spans_count``."""
    lines: list[dict[str, Any]] = []
    with tempfile.TemporaryDirectory() as directory:
        settings = bench_settings(Path(directory), bootstrap="127.0.0.1:1")
        async with logging_engine(settings) as store:
            stored_count, next_line = 0, FIRST_SPANS
            for number, rows in enumerate(batches_of(SETS[name](spans_count), settings)):
                await store.insert(SPANS_TABLE, rows, dedup_token=f"bench-{number}", deadline_s=DEADLINE_S)
                stored_count += rows.num_rows
                if stored_count >= min(next_line, spans_count):
                    lines.append(await _line(store, stored_count))
                    say(_text(lines))
                    next_line *= 2
    return lines


async def _line(store: ColumnStore, spans_count: int) -> dict[str, Any]:
    await settle(store)
    await store.execute(Statement("SYSTEM FLUSH LOGS"), deadline_s=DEADLINE_S)
    (inserts,) = await rows_of(store, INSERTS)
    merges = await rows_of(store, MERGES)
    return {
        "spans": spans_count,
        "insert_s": inserts["cpu_s"],
        "merge_s": sum(row["cpu_s"] for row in merges),
        "merged_rows": sum(row["rows"] for row in merges if row["table"] == "spans"),
        "level": max((row["level"] for row in merges if row["table"] == "spans"), default=0),
        "merge_peak_mib": round(max((row["peak_bytes"] for row in merges), default=0) / 2**20),
        "by_time_ms": await _median_ms(store, BY_TIME),
        "by_id_ms": await _median_ms(store, BY_ID),
    }


async def _median_ms(store: ColumnStore, sql: str) -> float:
    """Return the median time of a statement that asks for another stored span each time."""
    times_ms = []
    for row in (await store.select(Statement(SAMPLE), deadline_s=DEADLINE_S)).to_pylist():
        values = {"project": row["project"].decode(), "start": row["start_us"], "trace": row["trace_id"]}
        began_s = time.perf_counter()
        await store.select(Statement(sql, values), deadline_s=DEADLINE_S)
        times_ms.append((time.perf_counter() - began_s) * 1e3)
    return round(median(times_ms), 1)


def _text(lines: Sequence[dict[str, Any]]) -> str:
    last = lines[-1]
    before = lines[-2] if len(lines) > 1 else dict.fromkeys(last, 0)
    added = last["spans"] - before["spans"]
    insert_us, merge_us = ((last[name] - before[name]) / added * 1e6 for name in ("insert_s", "merge_s"))
    rewrites = (last["merged_rows"] - before["merged_rows"]) / added
    return (
        f"  {last['spans']:>11,} spans: insert {insert_us:.1f} µs, merges {merge_us:.1f} µs,"
        f" {rewrites:.2f} rows merged a span, up to level {last['level']}, {last['merge_peak_mib']} MiB;"
        f" by time {last['by_time_ms']} ms, by id {last['by_id_ms']} ms"
    )


def main() -> None:
    """Measure a set; print a line for each doubling and one JSON array."""
    parser = parser_of("growth", __doc__)
    add_set(parser, spans=2_000_000)
    arguments = parser.parse_args()
    configure_logging(log_format="text", level="warning")
    tune_for_batches()
    print(json.dumps(asyncio.run(measure(arguments.set, arguments.spans))))


if __name__ == "__main__":
    main()
