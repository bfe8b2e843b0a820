from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from uuid import UUID

import pyarrow as pa
import pytest

from common.clickhouse.store import Statement
from common.errors import Unavailable
from common.stored_position import StoredPosition, encode_positions
from common.times import Clock, SystemClock
from query_api.freshness import follow
from query_api.freshness.follow import Follower, following
from query_api.request.progress import StoredThrough
from tests.fakes.clock import ManualClock
from tests.fakes.kafka import MemoryBroker
from tests.support.api import UntouchedStore

TOPIC = "spans.stored"
A = UUID(int=1)


class TableOfSettled(UntouchedStore):
    """Answers every question with what is settled; ``faults_count`` times it is unavailable."""

    def __init__(self) -> None:
        self.offset = 0
        self.faults_count = 0
        self.selects_count = 0
        self.is_open = asyncio.Event()
        """Until then a question is not answered."""
        self.is_open.set()

    async def select(self, statement: Statement, /, *, deadline_s: float) -> pa.Table:
        self.selects_count += 1
        await self.is_open.wait()
        if self.faults_count:
            self.faults_count -= 1
            raise Unavailable("ClickHouse is unavailable.")
        row = {
            "project": str(A).encode(),
            "partition_id": b"x",
            "through": self.offset,
            "at_record_ms": 1,
            "at_stored_us": 2,
        }
        return pa.table({name: [value] for name, value in row.items()})


@asynccontextmanager
async def followed(
    broker: MemoryBroker, table: TableOfSettled, *, reread_s: float = 60.0, clock: Clock | None = None
) -> AsyncIterator[StoredThrough]:
    stored = StoredThrough()
    follower = Follower(
        stored, store=table, announcements=broker, topic=TOPIC, clock=clock or SystemClock(), reread_s=reread_s
    )
    async with following(follower):
        yield stored


async def until(condition: Callable[[], bool]) -> None:
    async with asyncio.timeout(60):
        while not condition():  # noqa: ASYNC110 - what is waited for is the effect of a loop that tells nobody
            await asyncio.sleep(0.001)


async def announce(broker: MemoryBroker, offset: int) -> None:
    for message in encode_positions([StoredPosition(A, "x", offset, 1, 2)]):
        await broker.append(TOPIC, message)


def offset_of(stored: StoredThrough) -> int:
    through = stored.through(A)
    return through["x"].offset if through else -1


async def test_table_is_read_at_start_and_announcements_are_followed() -> None:
    broker, table = MemoryBroker(partitions=1), TableOfSettled()
    async with followed(broker, table) as stored:
        await until(lambda: offset_of(stored) == 0)
        await announce(broker, 7)
        await until(lambda: offset_of(stored) == 7)

    assert table.selects_count == 1


async def test_table_is_not_read_if_no_call_waits() -> None:
    table = TableOfSettled()
    async with followed(MemoryBroker(partitions=1), table, reread_s=0.01):
        await asyncio.sleep(0.1)

    assert table.selects_count == 1


async def test_table_is_read_while_calls_wait_without_announcements() -> None:
    table = TableOfSettled()
    async with followed(MemoryBroker(partitions=1), table, reread_s=0.02) as stored:
        await until(lambda: offset_of(stored) == 0)
        waiting = asyncio.create_task(stored.wait_for_news(A, since=stored.news_count(A), timeout_s=60))
        await asyncio.sleep(0)
        table.offset = 9

        assert await waiting is True

    assert offset_of(stored) == 9


async def test_table_is_not_read_while_announcements_arrive() -> None:
    broker, table, clock = MemoryBroker(partitions=1), TableOfSettled(), ManualClock()
    table.is_open.clear()
    async with followed(broker, table, reread_s=0.01, clock=clock) as stored:
        await until(lambda: table.selects_count == 1)
        clock.advance(1.0)
        await announce(broker, 7)
        await until(lambda: offset_of(stored) == 7)
        waiting = asyncio.create_task(stored.wait_for_news(A, since=stored.news_count(A), timeout_s=60))
        table.is_open.set()
        await asyncio.sleep(0.05)
        assert table.selects_count == 1

        clock.advance(1.0)
        table.offset = 9

        assert await waiting is True


@pytest.mark.parametrize(("reread_s", "retry_s"), [(0.01, 60.0), (60.0, 0.01)])
async def test_unavailable_engine_is_asked_again_soon(
    monkeypatch: pytest.MonkeyPatch, reread_s: float, retry_s: float
) -> None:
    monkeypatch.setattr(follow, "RETRY_S", retry_s)
    table = TableOfSettled()
    table.faults_count = 2
    async with followed(MemoryBroker(partitions=1), table, reread_s=reread_s) as stored:
        await until(lambda: offset_of(stored) == 0)


async def test_unreadable_topic_is_followed_again(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(follow, "RETRY_S", 0.001)
    broker = MemoryBroker(partitions=1)
    broker.tail_faults.append(Unavailable("Kafka is unavailable."))
    async with followed(broker, TableOfSettled()) as stored:
        await until(lambda: offset_of(stored) == 0)
        await announce(broker, 3)
        await until(lambda: not broker.tail_faults)
        await asyncio.sleep(0.05)
        await announce(broker, 4)
        await until(lambda: offset_of(stored) == 4)


async def test_foreign_message_is_skipped() -> None:
    broker = MemoryBroker(partitions=1)
    async with followed(broker, TableOfSettled()) as stored:
        await until(lambda: offset_of(stored) == 0)
        await broker.append(TOPIC, b"hello")
        await announce(broker, 3)
        await until(lambda: offset_of(stored) == 3)
