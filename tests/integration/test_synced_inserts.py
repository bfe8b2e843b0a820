"""Inserts are on the disk when they return: afterwards the records are committed, and nobody delivers them again."""

from __future__ import annotations

import random
from collections.abc import Callable
from pathlib import Path

import pytest

from common.clickhouse.connect import open_store
from common.clickhouse.migrate import migrate
from common.clickhouse.store import ColumnStore, Statement
from common.settings import ClickHouseSettings
from tests.support.feed import settle
from tests.support.span_corpus import random_span, store_record


async def synced_count(store: ColumnStore) -> int:
    """How often this process has synced a file or a directory."""
    sql = "SELECT sum(value) AS count FROM system.events WHERE event IN ('FileSync', 'DirectorySync')"
    found = await store.select(Statement(sql), deadline_s=60.0)
    count: int = found["count"][0].as_py()
    return count


@pytest.mark.parametrize("table", ["spans", "stored_through"])
async def test_insert_is_synced(table: str, chdb_dir: Path, chdb_settings: Callable[[], ClickHouseSettings]) -> None:
    settings = chdb_settings()
    await migrate(settings, data_dir=chdb_dir)
    store = open_store(settings, data_dir=chdb_dir)
    try:
        before = await synced_count(store)
        if table == "spans":
            await store_record(store, [random_span(random.Random(1), 1)])
        else:
            await settle(store, offset=1)

        assert await synced_count(store) > before
    finally:
        await store.close()
