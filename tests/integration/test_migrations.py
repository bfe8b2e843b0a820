"""The tables of ClickHouse, brought up to date on both engines."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from pathlib import Path

import pytest

from common.clickhouse.connect import open_store
from common.clickhouse.migrate import DDL, migrate, require_tables
from common.clickhouse.store import Statement
from common.errors import InvalidStatement, NotMigrated
from common.migrations import InvalidMigration
from common.settings import ClickHouseSettings

NEXT = f"{len(list(DDL.glob('*.sql'))) + 1:04}_next"


@pytest.fixture(params=["chdb", "http"])
def settings(request: pytest.FixtureRequest) -> ClickHouseSettings:
    fresh: Callable[[], ClickHouseSettings] = request.getfixturevalue(f"{request.param}_empty_settings")
    return fresh()


async def tables(settings: ClickHouseSettings, chdb_dir: Path) -> list[str]:
    store = open_store(settings, data_dir=chdb_dir)
    try:
        rows = await store.select(
            Statement("SELECT name FROM system.tables WHERE database = currentDatabase() ORDER BY name"), deadline_s=10
        )
    finally:
        await store.close()
    return [row["name"].decode() for row in rows.to_pylist()]


def with_next_migration(folder: Path) -> Path:
    """Return a folder with the migrations of the program and one more."""
    for path in DDL.glob("*.sql"):
        (folder / path.name).write_bytes(path.read_bytes())
    (folder / f"{NEXT}.sql").write_text("ALTER TABLE spans{local} ADD COLUMN IF NOT EXISTS next UInt8 DEFAULT 7;\n")
    return folder


async def test_migration_from_empty_leaves_nothing_to_do(settings: ClickHouseSettings, chdb_dir: Path):
    assert await migrate(settings, data_dir=chdb_dir) == sorted(path.stem for path in DDL.glob("*.sql"))
    assert await migrate(settings, data_dir=chdb_dir) == []

    assert {"migrations", "span_versions", "span_versions_of_spans", "spans"} <= set(await tables(settings, chdb_dir))


async def test_next_migration_applies_to_a_database_with_spans(
    settings: ClickHouseSettings, chdb_dir: Path, tmp_path: Path
):
    await migrate(settings, data_dir=chdb_dir)
    store = open_store(settings, data_dir=chdb_dir)
    try:
        await store.execute(Statement("INSERT INTO spans (name) VALUES ('before')"), deadline_s=60.0)
        applied = await migrate(settings, data_dir=chdb_dir, folder=with_next_migration(tmp_path))
        rows = await store.select(Statement("SELECT name, next FROM spans"), deadline_s=60.0)
    finally:
        await store.close()

    assert applied == [NEXT]
    assert rows.to_pylist() == [{"name": b"before", "next": 7}]


async def test_columns_of_shorthands_are_filled_from_the_leaves(settings: ClickHouseSettings, chdb_dir: Path):
    leaves = [
        "map('ag.meta.response.model', 's1', 'ag.meta.request.model', 's2', 'ag.metrics.tokens.incremental.total', 'n7')",
        "map('ag.meta.request.model', 's2', 'ag.metrics.costs.incremental.total', 'n0.1')",
        "map('a', 's')",
    ]
    rows = ", ".join(f"({number}, {each})" for number, each in enumerate(leaves))
    sql = "SELECT model_leaf, tokens_leaf, cost_leaf FROM spans ORDER BY start_us"
    await migrate(settings, data_dir=chdb_dir)
    store = open_store(settings, data_dir=chdb_dir)
    try:
        await store.execute(Statement(f"INSERT INTO spans (start_us, leaves) VALUES {rows}"), deadline_s=60.0)
        found = await store.select(Statement(sql), deadline_s=60.0)
    finally:
        await store.close()

    expected = [(b"s1", b"n7", b""), (b"s2", b"", b"n0.1"), (b"", b"", b"")]
    assert [tuple(row.values()) for row in found.to_pylist()] == expected


async def test_missing_or_older_tables_are_reported_with_the_command_to_run(
    settings: ClickHouseSettings, chdb_dir: Path, tmp_path: Path
):
    message = "ClickHouse does not have the tables of this version yet. Run `clearspan migrate` to create them."
    folder = with_next_migration(tmp_path)
    store = open_store(settings, data_dir=chdb_dir)
    try:
        with pytest.raises(NotMigrated, match=message):
            await require_tables(store, folder=folder)
        await migrate(settings, data_dir=chdb_dir)
        await require_tables(store)
        with pytest.raises(NotMigrated, match=message):
            await require_tables(store, folder=folder)
        await migrate(settings, data_dir=chdb_dir, folder=folder)
        await require_tables(store, folder=folder)
    finally:
        await store.close()


async def test_concurrent_migrations_all_succeed(settings: ClickHouseSettings, chdb_dir: Path):
    await asyncio.gather(*(migrate(settings, data_dir=chdb_dir) for _ in range(4)))

    assert await migrate(settings, data_dir=chdb_dir) == []
    assert "spans" in await tables(settings, chdb_dir)


async def test_changed_file_is_named_in_the_error(settings: ClickHouseSettings, chdb_dir: Path, tmp_path: Path):
    await migrate(settings, data_dir=chdb_dir)
    (tmp_path / "0001_baseline.sql").write_text((DDL / "0001_baseline.sql").read_text() + "\n")

    with pytest.raises(InvalidMigration, match=r"0001_baseline\.sql was changed"):
        await migrate(settings, data_dir=chdb_dir, folder=tmp_path)


async def test_only_new_files_are_applied(settings: ClickHouseSettings, chdb_dir: Path, tmp_path: Path):
    (tmp_path / "0001_one.sql").write_text("CREATE TABLE one{local} (a UInt8) ENGINE = Memory;\n")
    await migrate(settings, data_dir=chdb_dir, folder=tmp_path)
    (tmp_path / "0002_two.sql").write_text("CREATE TABLE two{local} (a UInt8) ENGINE = Memory;\n")

    applied = await migrate(settings, data_dir=chdb_dir, folder=tmp_path)

    assert applied == ["0002_two"]
    assert await tables(settings, chdb_dir) == ["migrations", "one", "two"]


async def test_failed_file_is_applied_again(settings: ClickHouseSettings, chdb_dir: Path, tmp_path: Path):
    (tmp_path / "0001_one.sql").write_text("CREATE TABLE IF NOT EXISTS one (a UInt8) ENGINE = Memory;\nSELEC;\n")
    with pytest.raises(InvalidStatement):
        await migrate(settings, data_dir=chdb_dir, folder=tmp_path)
    (tmp_path / "0001_one.sql").write_text("CREATE TABLE IF NOT EXISTS one (a UInt8) ENGINE = Memory;\n")

    assert await migrate(settings, data_dir=chdb_dir, folder=tmp_path) == ["0001_one"]
