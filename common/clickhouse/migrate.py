"""Apply the numbered files of ``ddl/``, each once, and record them in the table ``migrations``.

Two processes may do this at the same time: every statement is ``IF NOT EXISTS``, so both may apply a file, and their
records collapse to one row for each file. Statements are sent to each server of a cluster, not ``ON CLUSTER``: a shard
or a replica that is added later gets what it lacks by the next run (ADR 0037).
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from contextlib import AsyncExitStack
from pathlib import Path
from typing import Final

from common.clickhouse.cluster import (
    SHARDING_KEYS,
    Node,
    at_hosts,
    divided_table,
    epochs_of,
    nodes_of,
)
from common.clickhouse.connect import open_store
from common.clickhouse.engines import SQL
from common.clickhouse.select import LOCAL_SUFFIX
from common.clickhouse.storage import policy_of, storage_changes
from common.clickhouse.store import ColumnStore, Statement
from common.errors import NotMigrated
from common.migrations import InvalidMigration, Migration, is_behind, load_migrations, pending
from common.settings import ClickHouseSettings
from common.store_settings import ShardEpoch

DDL: Final = Path(__file__).parent / "ddl"
DEADLINE_S: Final = 300.0
"""For one statement; a cluster waits for its slowest replica."""

CHECK_DEADLINE_S: Final = 5.0

_REPLICA_NAMES: Final = "'/clickhouse/tables/{shard}/{database}/{table}', '{replica}'"
REPLICATED: Final = {
    "{replicated}": "Replicated",
    "{replica_names}": _REPLICA_NAMES,
    "{replica_arguments}": f"{_REPLICA_NAMES}, ",
    "{dedup_window_setting}": "replicated_deduplication_window",
}
ONE_SERVER: Final = {
    "{replicated}": "",
    "{replica_names}": "",
    "{replica_arguments}": "",
    "{dedup_window_setting}": "non_replicated_deduplication_window",
}
"""The placeholders of DDL files, with ``{local}``: the end of the names of tables of one shard."""

ALL_REPLICAS: Final = {"alter_sync": 2}
"""A change of a table is there on all replicas when it returns, so that the next server of the cluster has it."""


async def migrate(settings: ClickHouseSettings, /, *, data_dir: Path, folder: Path = DDL) -> list[str]:
    """Apply what is missing and return the names of the files applied, in order; empty if there was nothing to do.

    On a cluster every server gets what it lacks; then the tables over those of the shards are created, before the
    files are recorded: a program that sees the record finds all of it. Creates the database if it is missing. Raises
    ``InvalidMigration`` if an applied file has changed or the settings contradict the cluster, ``InvalidSettings`` if a
    server does not have the storage policy, and the errors of ``ColumnStore``.
    """
    every = load_migrations(folder)
    nodes = await _nodes(settings, data_dir=data_dir)
    servers = [settings] if nodes is None else [at_hosts(settings, [node.host]) for node in nodes]
    lacking: list[tuple[ColumnStore, list[Migration]]] = []
    async with AsyncExitStack() as opened:
        for server in servers:
            await _create_database(server, data_dir=data_dir)
            store = open_store(server, data_dir=data_dir)
            opened.push_async_callback(store.close)
            lacking.append((store, await _apply_missing(store, every, settings)))
        if nodes is not None and settings.sharding == "on":
            epochs = epochs_of(settings, len({node.shard for node in nodes}))
            for store, _ in lacking:
                await _divide(store, epochs, settings, migration=every[-1].number)
        for store, applied in lacking:
            await _record(store, applied)
    names = {f"{migration.number:04}_{migration.name}" for _, applied in lacking for migration in applied}
    return sorted(names)


async def _nodes(settings: ClickHouseSettings, *, data_dir: Path) -> list[Node] | None:
    """Return the servers of the cluster; ``None`` if there is none."""
    if not settings.cluster:
        return None
    store = open_store(settings.model_copy(update={"database": "default"}), data_dir=data_dir)
    try:
        return await nodes_of(store, settings.cluster)
    finally:
        await store.close()


async def _apply_missing(
    store: ColumnStore, every: Sequence[Migration], settings: ClickHouseSettings
) -> list[Migration]:
    """Run the statements of the files that a server lacks, and let it keep spans where the settings say; return the
    files.
    """
    policy = await policy_of(store, settings)
    await _execute(store, SQL["create_migrations"])
    missing = pending(every, await _applied(store, deadline_s=DEADLINE_S), database="ClickHouse")
    for migration in missing:
        for sql in statements(render(migration.text, settings)):
            await _execute(store, sql)
    if policy is not None:
        for sql in await storage_changes(store, settings, policy):
            await _execute(store, sql)
    return missing


async def _divide(
    store: ColumnStore, epochs: Sequence[ShardEpoch], settings: ClickHouseSettings, *, migration: int
) -> None:
    """Create the tables over those of the shards, unless they are there as they should be.

    Raises ``InvalidMigration`` if the number of shards has changed and no setting says since when.
    """
    rows = await store.select(Statement(SQL["comments"]), deadline_s=DEADLINE_S)
    comments = {row["name"].decode(): row["comment"].decode() for row in rows.to_pylist()}
    for table in SHARDING_KEYS:
        divided = divided_table(table, epochs, cluster=settings.cluster, migration=migration)
        known = comments.get(table, divided.comment)
        if known.rpartition(",")[0] != divided.comment.rpartition(",")[0] and not settings.shard_epochs:
            raise InvalidMigration(
                f"The cluster {settings.cluster} has {epochs[-1].shards_count} shards now, and the table {table} is"
                f" divided {known.rpartition(',')[0]}: set CLEARSPAN_CLICKHOUSE__SHARD_EPOCHS."
            )
        if comments.get(table) != divided.comment:
            await _execute(store, divided.create)


async def _record(store: ColumnStore, applied: Sequence[Migration]) -> None:
    for migration in applied:
        record = {"number": migration.number, "name": migration.name, "sha256": migration.sha256}
        await store.execute(Statement(SQL["record_migration"], record), deadline_s=DEADLINE_S)


async def require_tables(store: ColumnStore, /, *, folder: Path = DDL) -> None:
    """Check that the engine has every migration of ``folder``. Raises ``NotMigrated``, and the errors of
    ``ColumnStore``.
    """
    if is_behind(folder, await _applied(store, deadline_s=CHECK_DEADLINE_S)):
        raise NotMigrated("ClickHouse")


async def _create_database(settings: ClickHouseSettings, *, data_dir: Path) -> None:
    store = open_store(settings.model_copy(update={"database": "default"}), data_dir=data_dir)
    try:
        await _execute(store, f"CREATE DATABASE IF NOT EXISTS {settings.database}")
    finally:
        await store.close()


async def _applied(store: ColumnStore, *, deadline_s: float) -> dict[int, str]:
    """Return the checksum of each applied file by its number."""
    rows = await store.select(Statement(SQL["applied_migrations"]), deadline_s=deadline_s)
    return {row["number"]: row["sha256"].decode() for row in rows.to_pylist()}


async def _execute(store: ColumnStore, sql: str) -> None:
    await store.execute(Statement(sql, settings=ALL_REPLICAS), deadline_s=DEADLINE_S)


def render(text: str, settings: ClickHouseSettings, /) -> str:
    """Fill the placeholders of a DDL file for one server, or for one of a cluster.

    Not ``str.format``: the braces of ``{shard}`` and ``{replica}`` are macros of the server.
    """
    is_replicated = settings.cluster and settings.replication == "on"
    placeholders = {
        **(REPLICATED if is_replicated else ONE_SERVER),
        "{local}": LOCAL_SUFFIX if settings.sharding == "on" else "",
        "{storage_policy}": f"storage_policy = '{settings.storage_policy}', " if settings.storage_policy else "",
    }
    return re.sub("|".join(map(re.escape, placeholders)), lambda match: placeholders[match[0]], text)


def statements(text: str, /) -> list[str]:
    """Return the statements of a file; a statement ends with a semicolon at the end of its line."""
    return [part.strip() for part in re.split(r";[ \t]*$", text, flags=re.MULTILINE) if part.strip()]
