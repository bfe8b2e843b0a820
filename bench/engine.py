"""What the engine says about itself: the processor time of inserts and merges, and bytes by column and index.

chDB keeps no logs of statements and parts by default. ``logging_engine`` turns them on with a configuration file, which
the engine reads when it is opened; that costs less than a hundredth of an insert.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any, Final
from unittest import mock

from bench.harness import migrated_store, us_per
from common.clickhouse.embedded import ENGINE_OPTIONS
from common.clickhouse.store import ColumnStore, Statement
from common.settings import Settings

DEADLINE_S: Final = 60.0
QUIET_S: Final = 3.0
"""How long no merge runs before merges count as ended: the engine looks for the next one every second or so."""

SETTLE_S_MAX: Final = 900.0
LOGS: Final = "".join(
    f"<{name}><database>system</database><table>{name}</table></{name}>" for name in ("part_log", "query_log")
)

INSERTS: Final = """
SELECT count() AS inserts, sum(ProfileEvents['OSCPUVirtualTimeMicroseconds']) / 1e6 AS cpu_s
FROM system.query_log
WHERE type = 'QueryFinish' AND query_kind = 'Insert' AND has(tables, concat(currentDatabase(), '.spans'))
"""
MERGES: Final = """
SELECT table, toUInt32(splitByChar('_', part_name)[-1]) AS level, count() AS merges, sum(rows) AS rows,
    sum(ProfileEvents['OSCPUVirtualTimeMicroseconds']) / 1e6 AS cpu_s, sum(duration_ms) / 1e3 AS duration_s,
    max(peak_memory_usage) AS peak_bytes
FROM system.part_log
WHERE event_type = 'MergeParts' AND database = currentDatabase()
GROUP BY table, level ORDER BY table, level
"""
MERGING: Final = "SELECT count() AS merges FROM system.merges WHERE database = currentDatabase()"
INSERTED: Final = """
SELECT sum(size_in_bytes) AS bytes FROM system.part_log
WHERE event_type = 'NewPart' AND database = currentDatabase()
"""
TABLES: Final = """
SELECT table, count() AS parts, sum(rows) AS rows, sum(bytes_on_disk) AS bytes
FROM system.parts WHERE active AND database = currentDatabase() GROUP BY table ORDER BY bytes DESC
"""
COLUMNS: Final = """
SELECT table, column AS name, sum(column_bytes_on_disk) AS bytes
FROM system.parts_columns WHERE active AND database = currentDatabase() GROUP BY table, column ORDER BY bytes DESC
"""
INDEXES: Final = """
SELECT table, name, sum(data_compressed_bytes + marks_bytes) AS bytes
FROM system.data_skipping_indices WHERE database = currentDatabase() GROUP BY table, name ORDER BY bytes DESC
"""


@asynccontextmanager
async def logging_engine(settings: Settings) -> AsyncIterator[ColumnStore]:
    """Open a migrated store whose engine logs inserts and merges. The first engine of the process must be this one."""
    settings.data_dir.mkdir(parents=True, exist_ok=True)
    configuration = settings.data_dir / "logs.xml"
    configuration.write_text(f"<clickhouse>{LOGS}</clickhouse>")
    with mock.patch.dict(ENGINE_OPTIONS, {"config-file": str(configuration)}):
        async with migrated_store(settings) as store:
            yield store


async def rows_of(store: ColumnStore, sql: str) -> list[dict[str, Any]]:
    """Return the rows of a statement; bytes as text."""
    found = (await store.select(Statement(sql), deadline_s=DEADLINE_S)).to_pylist()
    return [
        {name: value.decode() if isinstance(value, bytes) else value for name, value in row.items()} for row in found
    ]


async def settle(store: ColumnStore) -> None:
    """Return when no merge has run for ``QUIET_S`` seconds. Raises ``TimeoutError``."""
    quiet_since_s = time.monotonic()
    async with asyncio.timeout(SETTLE_S_MAX):
        while time.monotonic() - quiet_since_s < QUIET_S:
            if (await rows_of(store, MERGING))[0]["merges"]:
                quiet_since_s = time.monotonic()
            await asyncio.sleep(0.25)


async def sizes(store: ColumnStore, spans_count: int) -> dict[str, Any]:
    """Return the bytes per span of each table, column and index, the largest first."""
    tables, columns, indexes = [await rows_of(store, sql) for sql in (TABLES, COLUMNS, INDEXES)]
    return {
        "bytes_per_span": round(sum(row["bytes"] for row in tables) / spans_count, 1),
        "parts": sum(row["parts"] for row in tables),
        "tables": {row["table"]: round(row["bytes"] / spans_count, 1) for row in tables},
        "columns": _by_name(columns, spans_count),
        "indexes": _by_name(indexes, spans_count),
    }


def _by_name(rows: list[dict[str, Any]], spans_count: int) -> dict[str, float]:
    sizes = {f"{row['table']}.{row['name']}": round(row["bytes"] / spans_count, 2) for row in rows}
    return {name: size for name, size in sizes.items() if size}


async def work(store: ColumnStore, spans_count: int) -> dict[str, Any]:
    """Return the processor time and bytes per span of inserts, and the processor time of merges by table and level."""
    await store.execute(Statement("SYSTEM FLUSH LOGS"), deadline_s=DEADLINE_S)
    (inserts,) = await rows_of(store, INSERTS)
    (inserted,) = await rows_of(store, INSERTED)
    merges = await rows_of(store, MERGES)
    return {
        "inserts": inserts["inserts"],
        "inserted_bytes_per_span": round(inserted["bytes"] / spans_count, 1),
        "insert_us": us_per(spans_count, inserts["cpu_s"]),
        "merge_us": us_per(spans_count, sum(row["cpu_s"] for row in merges)),
        "merge_us_by_level": {
            f"{row['table']}, level {row['level']}": us_per(spans_count, row["cpu_s"]) for row in merges
        },
        "merged_rows_per_span": round(sum(row["rows"] for row in merges if row["table"] == "spans") / spans_count, 2),
        "merge_peak_mib": round(max((row["peak_bytes"] for row in merges), default=0) / 2**20),
    }
