"""Checks of a cluster of two shards, two replicas each, and a Keeper: as processes and in containers (ADR 0037)."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Final

import pytest

from common.clickhouse.migrate import migrate
from common.clickhouse.store import ColumnStore, Statement
from common.errors import DeadlineExceeded, Overloaded, Unavailable
from common.settings import ClickHouseSettings
from tests.support.span_rows import span_row, span_table
from tests.support.stores import opened_store

ROWS: Final = 100
TABLES: Final = ("spans", "span_versions", "span_arrivals")
AWAY: Final = (Unavailable, Overloaded, DeadlineExceeded)
TRIES_MAX: Final = 120
"""One a second: a server that was started again needs some to find its Keeper."""


class Lost:
    """Servers that are killed and started again, by their names."""

    def __init__(self, names: Sequence[str], kill: Callable[[str], None], start: Callable[[str], None]) -> None:
        self._names, self._kill, self._start = names, kill, start

    @contextmanager
    def killed(self) -> Iterator[None]:
        for name in self._names:
            self._kill(name)
        try:
            yield
        finally:
            for name in self._names:
                self._start(name)


async def count_of(store: ColumnStore, table: str) -> int:
    rows = await store.select(Statement(f"SELECT count() AS rows_count FROM {table}"), deadline_s=60.0)
    count: int = rows["rows_count"][0].as_py()
    return count


async def insert(store: ColumnStore, first: int, token: str, *, tries: int = 1) -> None:
    """Insert rows as a worker does: again, under the same token, while servers are unavailable."""
    rows = span_table([span_row(number) for number in range(first, first + ROWS)])
    for left in reversed(range(tries)):
        try:
            await store.insert("spans", rows, dedup_token=token, deadline_s=20.0)
        except AWAY:
            if not left:
                raise
            await asyncio.sleep(1.0)
        else:
            break


async def check_rows_once(settings: ClickHouseSettings, shards: Sequence[Sequence[str]], tmp_path: Path) -> None:
    """Both replicas of both shards have the rows of their shard once, though these are inserted twice."""
    await migrate(settings, data_dir=tmp_path)
    assert await migrate(settings, data_dir=tmp_path) == []
    async with opened_store(settings, data_dir=tmp_path) as store:
        await insert(store, 0, "one", tries=TRIES_MAX)
        await insert(store, 0, "one")
        counts = {table: await count_of(store, table) for table in TABLES}
    own: list[int] = []
    for hosts in shards:
        for host in hosts:
            async with opened_store(settings.model_copy(update={"host": host}), data_dir=tmp_path) as replica:
                own.append(await count_of(replica, "spans_local"))

    assert counts == dict.fromkeys(counts, ROWS)
    assert own[0] == own[1] > 0
    assert own[2] == own[3] == ROWS - own[0]


async def check_inserts_wait(settings: ClickHouseSettings, lost: Lost, tmp_path: Path) -> None:
    """Inserts fail while something is lost, queries go on, and the same insert succeeds once when it is back."""
    await migrate(settings, data_dir=tmp_path)
    async with opened_store(settings, data_dir=tmp_path) as store:
        await insert(store, 0, "one", tries=TRIES_MAX)
        with lost.killed():
            with pytest.raises(AWAY):
                await insert(store, ROWS, "two")
            assert await count_of(store, "span_versions") >= ROWS
        await insert(store, ROWS, "two", tries=TRIES_MAX)
        counts = {table: await count_of(store, table) for table in TABLES}

    assert counts == dict.fromkeys(counts, 2 * ROWS)


async def check_lost_shard(settings: ClickHouseSettings, lost: Lost, tmp_path: Path) -> None:
    """Queries fail while both replicas of a shard are lost, and nothing is lost with them."""
    await migrate(settings, data_dir=tmp_path)
    async with opened_store(settings, data_dir=tmp_path) as store:
        await insert(store, 0, "one", tries=TRIES_MAX)
        with lost.killed(), pytest.raises(AWAY):
            await count_of(store, "spans")
        await insert(store, ROWS, "two", tries=TRIES_MAX)
        assert await count_of(store, "spans") == 2 * ROWS
