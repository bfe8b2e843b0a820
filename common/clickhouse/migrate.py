"""Apply the numbered files of ``ddl/``, each once, and record them in the table ``migrations``.

Two processes may do this at the same time: every statement is ``IF NOT EXISTS``, so both may apply a file, and their records
collapse to one row for each file.
"""

from __future__ import annotations

from pathlib import Path
from typing import Final

from common.clickhouse.connect import open_store
from common.clickhouse.sql_files import render, statements
from common.clickhouse.store import ColumnStore, Statement
from common.errors import NotMigrated
from common.migrations import Migration, is_behind, load_migrations, pending
from common.settings import ClickHouseSettings

DDL: Final = Path(__file__).parent / "ddl"
DEADLINE_S: Final = 300.0
"""For one statement; a cluster waits for its slowest replica."""

CHECK_DEADLINE_S: Final = 5.0

CREATE_RECORD: Final = """
CREATE TABLE IF NOT EXISTS migrations{on_cluster}
(
    number     UInt32,
    name       String,
    sha256     FixedString(64),
    applied_at DateTime64(3, 'UTC') DEFAULT now64(3)
)
ENGINE = {replicated}ReplacingMergeTree({replica_arguments}applied_at)
ORDER BY number
"""
APPLIED: Final = "SELECT number, any(sha256) AS sha256 FROM migrations GROUP BY number"
RECORD: Final = "INSERT INTO migrations (number, name, sha256) SELECT {number:UInt32}, {name:String}, {sha256:String}"


async def migrate(settings: ClickHouseSettings, /, *, data_dir: Path, folder: Path = DDL) -> list[str]:
    """Apply what is missing and return the names of the files applied, in order; empty if there was nothing to do.

    Creates the database if it is missing. Raises ``IllegalMigration`` if an applied file has changed, and the errors of
    ``ColumnStore``.
    """
    await _create_database(settings, data_dir=data_dir)
    store = open_store(settings, data_dir=data_dir)
    try:
        await _execute(store, render(CREATE_RECORD, cluster=settings.cluster))
        migrations = pending(
            load_migrations(folder), await _applied(store, deadline_s=DEADLINE_S), database="ClickHouse"
        )
        for migration in migrations:
            await _apply(store, migration, cluster=settings.cluster)
    finally:
        await store.close()
    return [f"{migration.number:04}_{migration.name}" for migration in migrations]


async def require_tables(store: ColumnStore, /, *, folder: Path = DDL) -> None:
    """Check that the engine has every migration of ``folder``. Raises ``NotMigrated``, and the errors of ``ColumnStore``."""
    if is_behind(folder, await _applied(store, deadline_s=CHECK_DEADLINE_S)):
        raise NotMigrated("ClickHouse")


async def _create_database(settings: ClickHouseSettings, *, data_dir: Path) -> None:
    store = open_store(settings.model_copy(update={"database": "default"}), data_dir=data_dir)
    try:
        await _execute(
            store, render(f"CREATE DATABASE IF NOT EXISTS {settings.database}{{on_cluster}}", cluster=settings.cluster)
        )
    finally:
        await store.close()


async def _applied(store: ColumnStore, *, deadline_s: float) -> dict[int, str]:
    """Return the checksum of each applied file by its number."""
    rows = await store.select(Statement(APPLIED), deadline_s=deadline_s)
    return {row["number"]: row["sha256"].decode() for row in rows.to_pylist()}


async def _apply(store: ColumnStore, migration: Migration, *, cluster: str) -> None:
    for sql in statements(render(migration.text, cluster=cluster)):
        await _execute(store, sql)
    record = {"number": migration.number, "name": migration.name, "sha256": migration.sha256}
    await store.execute(Statement(RECORD, record), deadline_s=DEADLINE_S)


async def _execute(store: ColumnStore, sql: str) -> None:
    await store.execute(Statement(sql), deadline_s=DEADLINE_S)
