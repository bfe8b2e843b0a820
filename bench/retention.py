"""Measures a run of retention: time, processor time, disk, and the latency of queries while it works.

    python -m bench.retention 3000000                       with queries
    python -m bench.retention 1000000 --without-queries     the processor time of the run alone

The spans are spread over sixty days before now, and an age of thirty days deletes half of them: a month as a whole, and
part of another. One client sends queries all the time, with a pause of 50 ms after each. The run pauses every five
seconds, so that queries with and without it are compared while the machine does the same other work.
"""

from __future__ import annotations

import asyncio
import json
import random
import tempfile
import time
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final
from uuid import UUID

from pydantic import SecretStr

from bench.client import Client, client_of
from bench.command import HELP, parser_of
from bench.harness import bench_settings, migrated_store, percentile
from bench.ingest import tables_of
from bench.records import plain_records
from clearspan.embedded.postgres import EmbeddedPostgres
from common.clickhouse.span_columns import SPANS_TABLE
from common.clickhouse.store import ColumnStore, Statement
from common.clickhouse.stored_through import STORED_THROUGH_TABLE, positions_table
from common.ids import DEFAULT_PROJECT_ID
from common.memory import tune_for_batches
from common.postgres.migrate import migrate as migrate_postgres
from common.postgres.pool import open_database
from common.settings import Settings
from common.stored_position import StoredPosition
from common.telemetry import configure_logging
from common.times import SystemClock, format_us
from jobs.retention.expire import Expiring
from jobs.retention.run import Retention
from query_api.http.app import open_api
from query_api.retention.rules import KeepRules, RetentionRecords
from query_api.retention.survey import DAY_US

COPY_SPANS: Final = 20_000
DAYS: Final = 60
BASELINE_S: Final = 15.0
MERGING_S: Final = 300
"""How long to wait for the merges of what was stored."""

PAUSE_S: Final = 0.05
WORK_S: Final = 5.0
NEVER_S: Final = 1e9

COPIED: Final = """
INSERT INTO spans ({columns})
SELECT * REPLACE (
    start_us + {shift:Int64} AS start_us,
    end_us + {shift:Int64} AS end_us,
    CAST(MD5(concat(trace_id, {copy:String})), 'FixedString(16)') AS trace_id,
    CAST(repeat(substring(MD5(concat(span_id, {copy:String})), 1, 8), 2), 'FixedString(16)') AS span_id,
    version + {offset:UInt64} * 131072 AS version
)
FROM (SELECT {columns} FROM spans WHERE version % 4611686018427387904 < {copy_offsets:UInt64} * 131072)
"""
COLUMNS: Final = """
SELECT arrayStringConcat(groupArray(name), ', ') AS names
FROM system.columns WHERE table = 'spans' AND database = currentDatabase() AND default_kind = ''
"""
SIZES: Final = """
SELECT sum(bytes_on_disk) AS disk, sumIf(rows, table = 'spans') AS spans, sumIf(bytes_on_disk, table = 'span_versions')
    AS versions
FROM system.parts WHERE active AND database = currentDatabase()
"""


class Pausing(RetentionRecords):
    """Pauses a run every few seconds, so that queries with and without it are compared on a machine with other work."""

    is_paused: bool = False
    paused_s: float = 0.0
    began_s: float = 0.0

    async def add_to_result(self, project_id: UUID, /, *, traces: int, spans: int, bytes_: int) -> None:
        """Called after each step that deletes."""
        await super().add_to_result(project_id, traces=traces, spans=spans, bytes_=bytes_)
        if time.monotonic() - self.began_s > WORK_S:
            self.is_paused = True
            await asyncio.sleep(WORK_S)
            self.is_paused = False
            self.paused_s += WORK_S
            self.began_s = time.monotonic()


@dataclass
class Queries:
    """One client that sends queries until it is stopped."""

    client: Client
    pausing: Pausing
    working_ms: list[float] = field(default_factory=list)
    paused_ms: list[float] = field(default_factory=list)

    async def send(self) -> None:
        """Send queries: the newest page before a random time, then a page by an attribute."""
        chance = random.Random(4)
        now_us = time.time_ns() // 1_000
        while True:
            newest = format_us(now_us - chance.randrange(20 * DAY_US))
            attribute = {
                "field": "attributes",
                "key": f"bench.key{chance.randrange(97)}",
                "value": f"value-{chance.randrange(1000)}",
            }
            for body in (
                {"windowing": {"newest": newest, "limit": 100}},
                {"filtering": {"conditions": [attribute]}, "windowing": {"newest": newest, "limit": 50}},
            ):
                took_ms = self.paused_ms if self.pausing.is_paused else self.working_ms
                took_ms.append((await self.client.send("/spans/query", body)).took_ms)
                await asyncio.sleep(PAUSE_S)


async def measure(data: Path, spans_count: int, *, with_queries: bool) -> dict[str, Any]:
    """Return the figures of a run over ``spans_count`` spans, which are in ``data`` or are stored there first."""
    with tempfile.TemporaryDirectory(prefix="clearspan-bench-") as directory:
        postgres = await asyncio.to_thread(EmbeddedPostgres, Path(directory) / "postgres")
        try:
            settings = bench_settings(data, bootstrap="127.0.0.1:1")
            dsn = settings.postgres.model_copy(update={"dsn": SecretStr(postgres.dsn)})
            settings = settings.model_copy(update={"postgres": dsn})
            await migrate_postgres(settings.postgres, default_project_id=DEFAULT_PROJECT_ID)
            async with migrated_store(settings) as store:
                await fill_with_copies(store, settings, spans_count)
                return {"spans": spans_count, **await _measure(store, settings, with_queries)}
        finally:
            await asyncio.to_thread(postgres.stop)


async def fill_with_copies(store: ColumnStore, settings: Settings, spans_count: int) -> None:
    """Store plain spans, spread over ``DAYS`` before now, unless there are enough; wait for their merges."""
    if (await _one(store, "SELECT count() AS spans FROM spans"))["spans"] >= spans_count:
        return
    for number, table in enumerate(tables_of(plain_records(COPY_SPANS), settings)):
        await store.insert(SPANS_TABLE, table, dedup_token=f"bench-{number}", deadline_s=60.0)
    columns = (await store.select(Statement(COLUMNS), deadline_s=10.0))["names"][0].as_py().decode()
    first_us = (await _one(store, "SELECT min(start_us) AS start_us FROM spans"))["start_us"]
    oldest_us = time.time_ns() // 1_000 - DAYS * DAY_US
    copies = spans_count // COPY_SPANS
    for copy in range(1, copies + 1):
        shift = oldest_us - first_us + copy * (DAYS * DAY_US // copies)
        values = {"shift": shift, "copy": str(copy), "offset": copy * 1_000, "copy_offsets": 1_000}
        sql = COPIED.replace("{columns}", columns)
        await store.execute(Statement(sql, values), deadline_s=120.0)
    await store.execute(Statement("ALTER TABLE spans DROP PARTITION 202605"), deadline_s=60.0)
    await store.execute(
        Statement(f"ALTER TABLE span_versions DELETE WHERE start_us < {oldest_us}", {}, {"mutations_sync": 1}),
        deadline_s=300.0,
    )
    for _ in range(MERGING_S):
        await asyncio.sleep(1.0)
        if not (await _one(store, "SELECT count() AS running FROM system.merges"))["running"]:
            break
    partition_id = (await _one(store, "SELECT any(partition_id) AS id FROM spans"))["id"].decode()
    through = StoredPosition(DEFAULT_PROJECT_ID, partition_id, (copies + 1) * 1_000, 1, 1)
    await store.insert(STORED_THROUGH_TABLE, positions_table([through]), dedup_token="bench", deadline_s=10.0)


async def _measure(store: ColumnStore, settings: Settings, with_queries: bool) -> dict[str, Any]:  # noqa: FBT001
    found: dict[str, Any] = {}
    async with (
        open_database(settings.postgres) as database,
        open_api(settings, store=store) as port,
        client_of(port) as client,
    ):
        clock = SystemClock()
        records = pausing = Pausing(database)
        retention = Retention(store, records, clock, 3_600.0)
        await records.begin_result(DEFAULT_PROJECT_ID)

        async def delete() -> Any:
            rules = KeepRules(max_age_days=DAYS / 2)
            return await Expiring(store, records, clock).expire(DEFAULT_PROJECT_ID, rules)

        phases: dict[str, Callable[[], Awaitable[Any]]] = {
            "queries alone": lambda: asyncio.sleep(BASELINE_S),
            "delete": delete,
            "free": retention.free,
            "queries after": lambda: asyncio.sleep(BASELINE_S),
        }
        found["size before"] = await _one(store, SIZES)
        for name, work in phases.items():
            if with_queries:
                found[name] = await _phase(client, work, pausing)
            elif not name.startswith("queries"):
                found[name] = await _alone(work, pausing)
        found["size after"] = await _one(store, SIZES)
    return found


async def _phase(client: Client, work: Callable[[], Awaitable[Any]], pausing: Pausing) -> dict[str, Any]:
    """Return what a phase takes while queries are sent, and how long these take: while it works and while it pauses."""
    pausing.paused_s, pausing.is_paused, pausing.began_s = 0.0, False, time.monotonic()
    queries = Queries(client, pausing)
    began_s, began_cpu_s = time.monotonic(), time.process_time()
    sending = asyncio.create_task(queries.send())
    result = await work()
    elapsed_s, cpu_s = time.monotonic() - began_s - pausing.paused_s, time.process_time() - began_cpu_s
    sending.cancel()
    await asyncio.wait({sending})
    await asyncio.sleep(1.0)
    return {
        "s": round(elapsed_s, 1),
        "paused_s": round(pausing.paused_s, 1),
        "cpu_s_with_pauses": round(cpu_s, 1),
        "result": str(result),
        **{
            f"{name}_p{percent}_ms": round(percentile(took_ms, percent), 1)
            for name, took_ms in (("working", queries.working_ms), ("paused", queries.paused_ms))
            for percent in (50, 95, 99)
            if took_ms
        },
    }


async def _alone(work: Callable[[], Awaitable[Any]], pausing: Pausing) -> dict[str, Any]:
    """Return what a phase takes without queries."""
    pausing.began_s = time.monotonic() + NEVER_S
    began_s, began_cpu_s = time.monotonic(), time.process_time()
    result = await work()
    elapsed_s, cpu_s = time.monotonic() - began_s, time.process_time() - began_cpu_s
    return {"s": round(elapsed_s, 1), "cpu_s": round(cpu_s, 1), "result": str(result)}


async def _one(store: ColumnStore, sql: str) -> dict[str, Any]:
    rows: list[dict[str, Any]] = (await store.select(Statement(sql), deadline_s=30.0)).to_pylist()
    return rows[0]


def main() -> None:
    """Measure, and print one JSON object."""
    parser = parser_of("retention", __doc__)
    parser.add_argument("spans_count", metavar="spans", type=int, help=HELP["spans_count"])
    parser.add_argument("--without-queries", action="store_true", help="send no queries meanwhile")
    parser.add_argument("--data", type=Path, help="a directory with the spans of `bench.export --kind copies`; half go")
    arguments = parser.parse_args()
    configure_logging(log_format="text", level="warning")
    tune_for_batches()
    with tempfile.TemporaryDirectory(prefix="clearspan-bench-") as directory:
        data = arguments.data or Path(directory)
        found = asyncio.run(measure(data, arguments.spans_count, with_queries=not arguments.without_queries))
    print(json.dumps(found, indent=2))


if __name__ == "__main__":
    main()
