"""Stored positions: computed from a batch, written after the sinks have stored it, then announced."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from uuid import UUID

import pyarrow as pa
import pytest

from common.clickhouse.event_columns import NO_EVENTS
from common.clickhouse.stored_through import STORED_THROUGH_TABLE
from common.errors import ServiceError, Unavailable
from common.ids import DEFAULT_PROJECT_ID
from common.span_version import version_of
from common.stored_position import ALL_PROJECTS, StoredPosition, decode_positions
from ingest.batch import Extent, SpanBatch
from ingest.stored_positions import PENDING_MAX, Announcer, StoredPositions, open_announcer, positions_after
from tests.fakes.clock import ManualClock
from tests.fakes.insert_only_store import InsertOnlyStore
from tests.fakes.kafka import MemoryBroker
from tests.support.otlp import request
from tests.unit.ingest.test_batch import filled

A, B = UUID(int=1), UUID(int=2)


def rows(*of: tuple[UUID, str, int, int]) -> pa.Table:
    projects, partition_ids, offsets, record_ms = zip(*of, strict=True)
    return pa.table(
        {
            "project_id": pa.array([project.bytes for project in projects], pa.binary(16)),
            "partition_id": pa.array([partition_id.encode() for partition_id in partition_ids]).dictionary_encode(),
            "version": pa.array(map(version_of, offsets), pa.uint64()),
            "record_ms": pa.array(record_ms, pa.int64()),
        }
    )


def test_position_is_the_last_offset_per_project_and_the_last_record_overall() -> None:
    extents = {"x": Extent(3, 9, 90), "y": Extent(0, 2, 20)}
    stored = rows((A, "x", 3, 40), (B, "x", 4, 30), (A, "y", 1, 10), (A, "x", 5, 20))

    assert set(positions_after(extents, stored, stored_us=7)) == {
        StoredPosition(ALL_PROJECTS, "x", 9, 90, 7),
        StoredPosition(ALL_PROJECTS, "y", 2, 20, 7),
        StoredPosition(A, "x", 5, 20, 7),  # the timestamp of that record, even if an earlier record has a later one
        StoredPosition(B, "x", 4, 30, 7),
        StoredPosition(A, "y", 1, 10, 7),
    }


def test_records_without_spans_advance_the_position_of_all_projects() -> None:
    assert positions_after({"x": Extent(3, 9, 90)}, NO_EVENTS, stored_us=7) == [
        StoredPosition(ALL_PROJECTS, "x", 9, 90, 7)
    ]


class PositionTable(InsertOnlyStore):
    """A store that only accepts positions."""

    def __init__(self) -> None:
        self.faults: list[ServiceError] = []
        self.journal: list[str] = []

    async def insert(self, table: str, rows: pa.Table, /, *, dedup_token: str, deadline_s: float) -> None:
        if self.faults:
            raise self.faults.pop()
        self.journal.append(table)


async def recorded(store: PositionTable, batch: SpanBatch, clock: ManualClock) -> list[StoredPosition]:
    """Record the positions of ``batch``; return what was announced."""
    announced: list[StoredPosition] = []

    def announce(positions: Sequence[StoredPosition]) -> None:
        store.journal.append("announce")
        announced.extend(positions)

    await StoredPositions(store, clock=clock, insert_timeout_s=1.0, announce=announce).record(batch)
    return announced


async def test_position_is_written_and_then_announced() -> None:
    clock, store = ManualClock(), PositionTable()

    announced = await recorded(store, filled(request(["a", "b"])), clock)

    assert store.journal == [STORED_THROUGH_TABLE, "announce"]
    stored_us = clock.now_ns() // 1_000
    assert announced == [
        StoredPosition(ALL_PROJECTS, "c/t/0", 0, 5, stored_us),
        StoredPosition(DEFAULT_PROJECT_ID, "c/t/0", 0, 5, stored_us),
    ]


async def test_batch_without_spans_still_moves_the_position() -> None:
    clock, store = ManualClock(), PositionTable()

    announced = await recorded(store, filled(b""), clock)

    assert announced == [StoredPosition(ALL_PROJECTS, "c/t/0", 0, 5, clock.now_ns() // 1_000)]


async def test_position_that_is_not_written_is_not_announced() -> None:
    store = PositionTable()
    store.faults.append(Unavailable("away"))

    with pytest.raises(Unavailable):
        await recorded(store, filled(request(["a"])), ManualClock())

    assert store.journal == []


TOPIC = "spans.stored"


def position(offset: int, *, project: int = 1, partition_id: str = "c/t/0") -> StoredPosition:
    return StoredPosition(UUID(int=project), partition_id, offset, 5, 6)


def announced(broker: MemoryBroker) -> list[StoredPosition]:
    return [position for record in broker.records(TOPIC) for position in decode_positions(record.value or b"")]


async def test_queued_positions_are_published() -> None:
    broker = MemoryBroker(partitions=1)
    async with open_announcer(broker.publisher(), topic=TOPIC) as announcer:
        announcer.announce([position(1), position(2, project=2)])
        async with asyncio.timeout(60):
            while not announced(broker):  # noqa: ASYNC110 - of another loop
                await asyncio.sleep(0.001)

    assert announced(broker) == [position(1), position(2, project=2)]


async def test_the_last_batch_is_announced_before_the_end() -> None:
    broker = MemoryBroker(partitions=1)
    async with open_announcer(broker.publisher(), topic=TOPIC) as announcer:
        announcer.announce([position(1)])

    assert announced(broker) == [position(1)]


async def test_only_the_latest_position_of_a_project_and_partition_is_published() -> None:
    broker = MemoryBroker(partitions=1)
    announcer = Announcer(broker.publisher(), topic=TOPIC)
    announcer.announce([position(1), position(1, partition_id="c/t/1")])
    announcer.announce([position(2)])

    await announcer.publish_pending()

    assert announced(broker) == [position(1, partition_id="c/t/1"), position(2)]


async def test_unpublishable_announcement_is_dropped_and_the_next_is_published() -> None:
    broker = MemoryBroker(partitions=1)
    broker.publish_faults.append(Unavailable("away"))
    announcer = Announcer(broker.publisher(), topic=TOPIC)
    announcer.announce([position(1)])
    await announcer.publish_pending()

    announcer.announce([position(2)])
    await announcer.publish_pending()

    assert announced(broker) == [position(2)]


async def test_oldest_position_is_dropped_past_the_limit() -> None:
    broker = MemoryBroker(partitions=1)
    announcer = Announcer(broker.publisher(), topic=TOPIC)
    announcer.announce([position(1, project=number) for number in range(PENDING_MAX)])
    announcer.announce([position(1, project=PENDING_MAX)])

    await announcer.publish_pending()

    assert [position.project_id.int for position in announced(broker)] == list(range(1, PENDING_MAX + 1))
