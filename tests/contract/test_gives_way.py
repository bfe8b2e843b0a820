"""What gives way while inserts and statements run at the same time, on both engines (ADR 0044)."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from pathlib import Path
from typing import Literal

import pytest

from common.clickhouse.connect import open_store
from common.clickhouse.store import ColumnStore, Statement
from common.settings import ClickHouseSettings
from tests.support.span_rows import span_row, span_table

DEADLINE_S = 60.0
INSERTS_COUNT = 5
Way = Literal["neither", "ingest", "queries"]


@pytest.fixture(params=["chdb", "http"])
def settings(request: pytest.FixtureRequest) -> ClickHouseSettings:
    """Settings of a database with all tables, on each engine."""
    fresh: Callable[[], ClickHouseSettings] = request.getfixturevalue(f"{request.param}_settings")
    return fresh()


async def _answer(store: ColumnStore, sql: str) -> object:
    [row] = (await store.select(Statement(sql), deadline_s=DEADLINE_S)).to_pylist()
    return row["answer"]


@pytest.mark.parametrize(("gives_way", "priority"), [("neither", 0), ("ingest", 0), ("queries", 2)])
async def test_statements_have_the_lower_priority_if_queries_give_way(
    settings: ClickHouseSettings, chdb_dir: Path, gives_way: Way, priority: int
) -> None:
    store = open_store(settings.model_copy(update={"gives_way": gives_way}), data_dir=chdb_dir)
    try:
        assert await _answer(store, "SELECT getSetting('priority') AS answer") == priority
    finally:
        await store.close()


@pytest.mark.parametrize("gives_way", ["neither", "ingest", "queries"])
async def test_inserts_and_statements_both_make_progress(
    settings: ClickHouseSettings, chdb_dir: Path, gives_way: Way
) -> None:
    """Neither waits until the other has nothing more to do."""
    store = open_store(settings.model_copy(update={"gives_way": gives_way}), data_dir=chdb_dir)
    answers: list[object] = []
    inserted = 0

    async def ask() -> None:
        while inserted < INSERTS_COUNT or not answers:
            answers.append(await _answer(store, "SELECT count() AS answer FROM spans"))

    async def insert() -> None:
        nonlocal inserted
        while inserted < INSERTS_COUNT or not answers:
            rows = span_table([span_row(inserted * 100 + number) for number in range(100)])
            await store.insert("spans", rows, dedup_token=str(inserted), deadline_s=DEADLINE_S)
            inserted += 1

    try:
        await asyncio.gather(insert(), *(ask() for _ in range(4)))
        assert await _answer(store, "SELECT count() AS answer FROM spans") == inserted * 100
    finally:
        await store.close()
