"""Apply the numbered files of ``ddl/``, each once, and record them in the table ``migrations``.

Two processes may do this at the same time: every statement is ``IF NOT EXISTS``, so both may apply a file, and their
records collapse to one row for each file.
"""

from __future__ import annotations

import re
from pathlib import Path
from typing import Final

from common.clickhouse.connect import open_store
from common.clickhouse.engines import SQL
from common.clickhouse.store import ColumnStore, Statement
from common.errors import NotMigrated
from common.migrations import is_behind, load_migrations, pending
from common.settings import ClickHouseSettings

DDL: Final = Path(__file__).parent / "ddl"
DEADLINE_S: Final = 300.0
"""For one statement; a cluster waits for its slowest replica."""

CHECK_DEADLINE_S: Final = 5.0

REPLICATED: Final = {
    "{replicated}": "Replicated",
    "{replica_arguments}": "'/clickhouse/tables/{shard}/{database}/{table}', '{replica}', ",
    "{dedup_window_setting}": "replicated_deduplication_window",
}
ONE_SERVER: Final = {
    "{on_cluster}": "",
    "{replicated}": "",
    "{replica_arguments}": "",
    "{dedup_window_setting}": "non_replicated_deduplication_window",
}
"""The placeholders of DDL files."""


async def migrate(settings: ClickHouseSettings, /, *, data_dir: Path, folder: Path = DDL) -> list[str]:
    """Apply what is missing and return the names of the files applied, in order; empty if there was nothing to do.

    Creates the database if it is missing. Raises ``InvalidMigration`` if an applied file has changed, and the errors of
    ``ColumnStore``.
    """
    await _create_database(settings, data_dir=data_dir)
    store = open_store(settings, data_dir=data_dir)
    try:
        await _execute(store, render(SQL["create_migrations"], cluster=settings.cluster))
        migrations = pending(
            load_migrations(folder), await _applied(store, deadline_s=DEADLINE_S), database="ClickHouse"
        )
        for migration in migrations:
            for sql in statements(render(migration.text, cluster=settings.cluster)):
                await _execute(store, sql)
            record = {"number": migration.number, "name": migration.name, "sha256": migration.sha256}
            await store.execute(Statement(SQL["record_migration"], record), deadline_s=DEADLINE_S)
    finally:
        await store.close()
    return [f"{migration.number:04}_{migration.name}" for migration in migrations]


async def require_tables(store: ColumnStore, /, *, folder: Path = DDL) -> None:
    """Check that the engine has every migration of ``folder``. Raises ``NotMigrated``, and the errors of
    ``ColumnStore``.
    """
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
    rows = await store.select(Statement(SQL["applied_migrations"]), deadline_s=deadline_s)
    return {row["number"]: row["sha256"].decode() for row in rows.to_pylist()}


async def _execute(store: ColumnStore, sql: str) -> None:
    await store.execute(Statement(sql), deadline_s=DEADLINE_S)


def render(text: str, /, *, cluster: str) -> str:
    """Fill the placeholders of a DDL file for one server, or for the cluster of that name.

    Not ``str.format``: the braces of ``{shard}`` and ``{replica}`` are macros of the server.
    """
    placeholders = REPLICATED | {"{on_cluster}": f" ON CLUSTER `{cluster}`"} if cluster else ONE_SERVER
    return re.sub("|".join(map(re.escape, placeholders)), lambda match: placeholders[match[0]], text)


def statements(text: str, /) -> list[str]:
    """Return the statements of a file; a statement ends with a semicolon at the end of its line."""
    return [part.strip() for part in re.split(r";[ \t]*$", text, flags=re.MULTILINE) if part.strip()]
