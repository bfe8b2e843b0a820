"""The engine, opened for as long as a test needs it."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

from common.clickhouse.connect import open_store
from common.clickhouse.store import ColumnStore
from common.settings import ClickHouseSettings


@asynccontextmanager
async def opened_store(settings: ClickHouseSettings, *, data_dir: Path) -> AsyncIterator[ColumnStore]:
    """A store that is closed even if the test fails: one that is left open would fail a later test."""
    store = open_store(settings, data_dir=data_dir)
    try:
        yield store
    finally:
        await store.close()
