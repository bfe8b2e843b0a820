"""How far each partition is stored: computed from a batch, written to a table, then announced through Kafka (ADR 0007).

An insert becomes visible part by part. So the position is written only after every sink has stored the whole batch, and
readers that must not miss a span rely on the position alone. An announcement only wakes readers: the table already
holds the position. So the worker never waits for Kafka here. An announcement that cannot be published is dropped, and
readers find the position when they poll the table.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from contextlib import asynccontextmanager, suppress
from typing import Final
from uuid import UUID

import pyarrow as pa

from common.clickhouse.store import ColumnStore
from common.clickhouse.stored_through import STORED_THROUGH_TABLE, positions_table
from common.errors import ServiceError
from common.kafka.record import Publisher
from common.span_version import offset_of
from common.stored_position import ALL_PROJECTS, StoredPosition, encode_positions
from common.telemetry import ANNOUNCEMENTS, get_logger
from common.times import Clock
from ingest.batch import Extent, SpanBatch

PENDING_MAX: Final = 10_000
"""Pairs of project and partition that wait to be announced. Readers learn further ones from the table."""

LAST_ANNOUNCEMENT_S: Final = 1.0
"""How long an ending worker tries to announce its last batch."""

_log = get_logger(__name__)


class StoredPositions:
    """Writes positions to the table ``stored_through``, then calls ``announce``, which must not block."""

    def __init__(
        self,
        store: ColumnStore,
        *,
        clock: Clock,
        insert_timeout_s: float,
        announce: Callable[[Sequence[StoredPosition]], None],
    ) -> None:
        self._store = store
        self._clock = clock
        self._insert_timeout_s = insert_timeout_s
        self._announce = announce

    async def record(self, batch: SpanBatch) -> None:
        """Record that all of ``batch`` is stored. Raises transient errors; calling it again is harmless."""
        positions = positions_after(batch.extents, batch.named(), stored_us=self._clock.now_ns() // 1_000)
        await self._store.insert(
            STORED_THROUGH_TABLE,
            positions_table(positions),
            dedup_token=f"{batch.dedup_token}/through",
            deadline_s=self._insert_timeout_s,
        )
        self._announce(positions)


def positions_after(extents: Mapping[str, Extent], rows: pa.Table, *, stored_us: int) -> list[StoredPosition]:
    """Return the positions that hold once every row of a batch is stored.

    Each project that has rows gets the last offset of its rows in each partition. ``ALL_PROJECTS`` gets the last record
    of each partition, even if it held no span. ``rows`` are those of ``SpanBatch.named``.
    """
    positions = [
        StoredPosition(ALL_PROJECTS, partition_id, extent.last_offset, extent.record_ms, stored_us)
        for partition_id, extent in extents.items()
    ]
    last_rows = rows.select(["project_id", "partition_id", "version", "record_ms"]).group_by(
        ["project_id", "partition_id"],
        use_threads=False,  # "last" is not defined with threads
    )
    columns = last_rows.aggregate([("version", "last"), ("record_ms", "last")]).to_pydict().values()
    return positions + [
        StoredPosition(UUID(bytes=project_id), partition_id.decode(), offset_of(version), record_ms, stored_us)
        for project_id, partition_id, version, record_ms in zip(*columns, strict=True)
    ]


class Announcer:
    """Collects positions and publishes the latest of each project and partition, one message at a time."""

    def __init__(self, publisher: Publisher, *, topic: str) -> None:
        self._publisher = publisher
        self._topic = topic
        self._pending: dict[tuple[UUID, str], StoredPosition] = {}
        self._has_pending = asyncio.Event()

    def announce(self, positions: Sequence[StoredPosition]) -> None:
        """Queue positions to be published and return at once."""
        for position in positions:
            self._pending.pop((position.project_id, position.partition_id), None)
            self._pending[position.project_id, position.partition_id] = position
        while len(self._pending) > PENDING_MAX:
            del self._pending[next(iter(self._pending))]
            ANNOUNCEMENTS.labels("dropped").inc()
        self._has_pending.set()

    async def run(self) -> None:
        """Publish queued positions until cancelled."""
        while True:
            await self._has_pending.wait()
            await self.publish_pending()

    async def publish_pending(self) -> None:
        """Publish, or drop, everything that is queued now."""
        self._has_pending.clear()
        pending, self._pending = self._pending, {}
        for message in encode_positions(list(pending.values())):
            try:
                await self._publisher.publish(self._topic, message)
            except ServiceError as exc:
                ANNOUNCEMENTS.labels("failed").inc()
                _log.debug("Dropped an announcement; readers poll the table.", error=exc.detail)
            else:
                ANNOUNCEMENTS.labels("published").inc()


@asynccontextmanager
async def open_announcer(publisher: Publisher, *, topic: str) -> AsyncIterator[Announcer]:
    """Run an announcer inside the context; on exit, try to publish what is left."""
    announcer = Announcer(publisher, topic=topic)
    running = asyncio.create_task(announcer.run(), name="announce")
    try:
        yield announcer
    finally:
        running.cancel()
        await asyncio.wait({running})
        with suppress(TimeoutError):
            async with asyncio.timeout(LAST_ANNOUNCEMENT_S):
                await announcer.publish_pending()
