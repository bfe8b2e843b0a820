"""A newest page of 100 over HTTP, beside the same page asked of the engine itself.

The API is the real one on a real socket; every question names another time, and the engine's cache of conditions is off, so
that nothing is answered from memory of the question.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import random
import tempfile
import time
from pathlib import Path
from typing import Any, Final

import aiohttp

from bench.harness import bench_settings, percentile
from bench.ingest import tables_of
from bench.records import START_NS, plain_records
from common.clickhouse.connect import open_store
from common.clickhouse.migrate import migrate
from common.clickhouse.span_columns import SPANS_TABLE
from common.clickhouse.store import ColumnStore, Statement
from common.project import DEFAULT_PROJECT_ID
from common.telemetry import configure_logging
from common.times import format_us
from query_api.app import open_api

QUESTIONS: Final = 200
PAGE: Final = 100

ENGINE_PAGE: Final = """
SELECT * EXCEPT (leaves) FROM spans
WHERE project_id = {project:UUID} AND start_us < {newest:Int64}
ORDER BY start_us DESC, span_id DESC, trace_id DESC
LIMIT 100
"""


async def measure(spans_count: int) -> dict[str, Any]:
    """p50 and p95 in milliseconds of the page over HTTP and of the engine alone."""
    with tempfile.TemporaryDirectory() as directory:
        settings = bench_settings(Path(directory), bootstrap="127.0.0.1:1")
        await migrate(settings.clickhouse, data_dir=settings.data_dir)
        store = open_store(settings.clickhouse, data_dir=settings.data_dir)
        for number, table in enumerate(tables_of(plain_records(spans_count), settings)):
            await store.insert(SPANS_TABLE, table, dedup_token=f"bench-{number}", deadline_s=60.0)
        randomness = random.Random(3)
        times_us = [START_NS // 1000 + randomness.randrange(spans_count * 1000) for _ in range(2 * QUESTIONS)]
        async with open_api(settings, store=store) as port:
            http_ms, engine_ms = await _ask_both(store, f"http://127.0.0.1:{port}", times_us)
        await store.close()
    return {
        "spans": spans_count,
        "http_p50_ms": round(percentile(http_ms, 50), 1),
        "http_p95_ms": round(percentile(http_ms, 95), 1),
        "engine_p50_ms": round(percentile(engine_ms, 50), 1),
        "engine_p95_ms": round(percentile(engine_ms, 95), 1),
    }


async def _ask_both(store: ColumnStore, api: str, times_us: list[int]) -> tuple[list[float], list[float]]:
    """The two in turn, so that they share what the machine does meanwhile; the first tenth warms up."""
    http_ms, engine_ms = [], []
    async with aiohttp.ClientSession() as session:
        for newest_us, other_us in zip(times_us[::2], times_us[1::2], strict=True):
            started_s = time.perf_counter()
            windowing = {"newest": format_us(newest_us), "limit": PAGE}
            async with session.post(f"{api}/spans/query", json={"windowing": windowing}) as answer:
                answer.raise_for_status()
                await answer.read()
            http_ms.append((time.perf_counter() - started_s) * 1000)
            started_s = time.perf_counter()
            parameters = {"project": str(DEFAULT_PROJECT_ID), "newest": other_us}
            await store.select(Statement(ENGINE_PAGE, parameters, {"use_query_condition_cache": 0}), deadline_s=30.0)
            engine_ms.append((time.perf_counter() - started_s) * 1000)
    warm = len(http_ms) // 10
    return http_ms[warm:], engine_ms[warm:]


def main() -> None:
    """Print one JSON object."""
    parser = argparse.ArgumentParser()
    parser.add_argument("spans", type=int)
    configure_logging(log_format="text", level="warning")
    print(json.dumps(asyncio.run(measure(parser.parse_args().spans))))


if __name__ == "__main__":
    main()
