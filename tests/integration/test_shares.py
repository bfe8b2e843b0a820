"""What one project gets of the resources of a process, over HTTP: its share with neighbors, everything without."""

from __future__ import annotations

import asyncio
import random
from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import asynccontextmanager
from pathlib import Path
from uuid import UUID

import aiohttp
import pyarrow as pa
import pytest

from common.clickhouse.connect import open_store
from common.clickhouse.migrate import migrate
from common.clickhouse.store import ColumnStore, Statement
from common.ids import DEFAULT_PROJECT_ID
from common.settings import ClickHouseSettings, QuerySettings, Settings
from common.times import SystemClock
from query_api.request.context import ApiContext
from tests.fakes.faulty_store import FaultyStore
from tests.support.api import KnownKeys, context_of, serving
from tests.support.scale import rest_is_long
from tests.support.span_corpus import random_span, store_record

TWO = {"a": UUID(int=1), "b": UUID(int=2)}
ONE = {"a": UUID(int=1)}
IMPATIENT = QuerySettings(queue_s=0.3, waiting_max=2)
FEED = {"windowing": {"by": "created_at", "wait_s": 5}}


@pytest.fixture
async def store(chdb_dir: Path, chdb_settings: Callable[[], ClickHouseSettings]) -> AsyncIterator[ColumnStore]:
    settings = chdb_settings()
    await migrate(settings, data_dir=chdb_dir)
    opened = open_store(settings.model_copy(update={"connections": 2}), data_dir=chdb_dir)
    yield opened
    await opened.close()


class SlowStore(FaultyStore):
    """Makes each statement about spans slow in the engine itself, so that its handle stays busy."""

    sleep_s = 2.0

    async def select(self, statement: Statement, /, *, deadline_s: float) -> pa.Table:
        if "FROM spans" in statement.sql:
            await super().select(Statement(f"SELECT sleep({self.sleep_s})"), deadline_s=deadline_s)
        return await super().select(statement, deadline_s=deadline_s)


@asynccontextmanager
async def _serving(
    store: ColumnStore,
    keys: Mapping[str, UUID] | None,
    *,
    query: QuerySettings = IMPATIENT,
) -> AsyncIterator[tuple[ApiContext, aiohttp.ClientSession]]:
    context = context_of(
        store=store,
        clock=SystemClock(),
        keys=None if keys is None else KnownKeys(keys),
        settings=Settings(auth="off" if keys is None else "on", query=query),
    )
    async with serving(context) as client:
        yield context, client


async def _status(client: aiohttp.ClientSession, key: str, body: object) -> int:
    async with client.post("/spans/query", json=body, headers={"Authorization": key}) as response:
        if response.status == 429:
            assert int(response.headers["Retry-After"]) >= 1
        return response.status


async def _until(condition: Callable[[], bool]) -> None:
    async with asyncio.timeout(60):
        while not condition():  # noqa: ASYNC110 - what is waited for is the effect of a request
            await asyncio.sleep(0.01)


async def _statuses(client: aiohttp.ClientSession, key: str, body: object, *, count: int) -> list[int]:
    return sorted(await asyncio.gather(*(_status(client, key, body) for _ in range(count))))


async def test_project_above_its_share_of_handles_is_429_and_its_neighbor_is_not(store: ColumnStore) -> None:
    async with _serving(SlowStore(store), TWO) as (_, client):
        attack = asyncio.create_task(_statuses(client, "a", {}, count=4))
        await asyncio.sleep(0.05)

        assert await _statuses(client, "b", {}, count=1) == [200]
        assert await attack == [200, 429, 429, 429]


async def test_requests_of_a_project_are_never_429_while_its_neighbor_computes(store: ColumnStore) -> None:
    """And both get answers."""
    slow = SlowStore(store)
    slow.sleep_s = 0.1
    statuses: list[int] = []

    async def attack(client: aiohttp.ClientSession) -> None:
        while True:
            statuses.append(await _status(client, "a", {}))

    async with _serving(slow, TWO) as (_, client), asyncio.TaskGroup() as tasks:
        attacks = [tasks.create_task(attack(client)) for _ in range(8)]
        await _until(lambda: bool(statuses))

        assert [await _status(client, "b", {}) for _ in range(5)] == [200] * 5
        before = statuses.count(200)
        await _until(lambda: statuses.count(200) > before)
        for task in attacks:
            task.cancel()


@pytest.mark.parametrize("keys", [ONE, None], ids=["one project with keys", "authentication off"])
async def test_project_without_neighbors_gets_all_handles(store: ColumnStore, keys: Mapping[str, UUID] | None) -> None:
    async with _serving(SlowStore(store), keys) as (_, client):
        assert await _statuses(client, "a", {}, count=2) == [200, 200]


@pytest.mark.parametrize(
    ("keys", "statuses"), [(TWO, [200, 429]), (ONE, [200, 200]), (None, [200, 200])], ids=["two", "one", "off"]
)
async def test_project_with_neighbors_gets_half_of_the_waiting_places(
    store: ColumnStore, keys: Mapping[str, UUID] | None, statuses: list[int]
) -> None:
    async with _serving(store, keys) as (context, client):
        waiting = asyncio.create_task(_statuses(client, "a", FEED, count=2))
        await _until(lambda: context.stored.waiting_count == statuses.count(200))

        if keys is TWO:
            assert await _status(client, "b", FEED) == 200
        assert await waiting == statuses


async def test_disconnected_waiting_request_leaves_no_state(store: ColumnStore) -> None:
    async with _serving(store, TWO) as (context, client):
        calls = [asyncio.create_task(_status(client, "a", FEED)) for _ in range(5)]
        await _until(lambda: context.stored.waiting_count == 1)
        for call in calls:
            call.cancel()
        await asyncio.gather(*calls, return_exceptions=True)
        await _until(lambda: context.stored.waiting_count == 0)
        assert await _status(client, "a", {"windowing": {**FEED["windowing"], "wait_s": 0.1}}) == 200


async def test_query_above_its_memory_limit_has_its_own_message(
    chdb_dir: Path, chdb_settings: Callable[[], ClickHouseSettings]
) -> None:
    settings = chdb_settings()
    await migrate(settings, data_dir=chdb_dir)
    little = open_store(settings.model_copy(update={"memory_bytes_max": 100_000}), data_dir=chdb_dir)

    async with _serving(little, None) as (_, client), client.post("/spans/analytics/query", json={}) as response:
        found = (response.status, await response.json())
    await little.close()

    assert found[0] == 504
    assert "more memory than one query may use (CLEARSPAN_CLICKHOUSE__MEMORY_BYTES_MAX)" in found[1]["detail"]


@pytest.mark.parametrize("keys", rest_is_long([ONE, None]))
async def test_all_clients_of_a_single_project_get_their_answers(
    store: ColumnStore, keys: Mapping[str, UUID] | None
) -> None:
    """Together they need more than twice the time budget of one query; waiting for a handle does not count."""
    for project_id in (ONE["a"], DEFAULT_PROJECT_ID):
        await store_record(store, [random_span(random.Random(1), 1)], project_id=project_id)
    slow = SlowStore(store)
    slow.sleep_s = 0.4
    async with _serving(slow, keys, query=QuerySettings(budget_s=5.0, queue_s=120.0)) as (_, client):
        assert await _statuses(client, "a", {}, count=32) == [200] * 32
