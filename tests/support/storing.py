"""Does the worker's work when a test asks for it: stores what is in the broker, and announces it."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from uuid import UUID

from common.clickhouse.stored_through import STORED_THROUGH_TABLE, positions_table
from common.codec import span_json
from common.ids import DEFAULT_PROJECT_ID
from common.kafka.record import PROJECT_HEADER, Record
from common.limits import SpanLimits
from common.stored_position import ALL_PROJECTS, StoredPosition
from query_api.request.context import ApiContext
from tests.fakes.kafka import MemoryBroker
from tests.support.span_corpus import store_record


class StoringByHand:
    """Stores the records of the topic ``spans`` for the project that a record names, or the default one."""

    def __init__(self, context: ApiContext, broker: MemoryBroker) -> None:
        self._context = context
        self._broker = broker
        self._stored: set[tuple[int, int]] = set()

    async def store_all(self) -> None:
        """Store everything that is in the broker."""
        for record in self._broker.records("spans"):
            if (record.partition, record.offset) not in self._stored:
                await self._store(record)
                self._stored.add((record.partition, record.offset))

    async def _store(self, record: Record) -> None:
        assert record.value is not None
        now_ns = self._context.clock.now_ns()
        spans = span_json.decode(record.value, limits=SpanLimits(), now_ns=now_ns).spans
        partition_id = f"{self._broker.cluster_id}/{record.topic}/{record.partition}"
        project_id = UUID((record.header(PROJECT_HEADER) or str(DEFAULT_PROJECT_ID).encode()).decode())
        await store_record(
            self._context.store,
            spans,
            partition_id=partition_id,
            offset=record.offset,
            record_ms=record.timestamp_ms,
            project_id=project_id,
            stored_us=now_ns // 1_000,
        )
        settled = [
            StoredPosition(each, partition_id, record.offset, record.timestamp_ms, now_ns // 1_000)
            for each in (project_id, ALL_PROJECTS)
        ]
        table, token = positions_table(settled), f"{partition_id}/{record.offset}"
        await self._context.store.insert(STORED_THROUGH_TABLE, table, dedup_token=token, deadline_s=60.0)
        self._context.stored.learn(settled)


@asynccontextmanager
async def stored_soon(context: ApiContext, broker: MemoryBroker) -> AsyncIterator[None]:
    """Store what is published, ten times a second."""
    storing = asyncio.create_task(_store_for_ever(StoringByHand(context, broker)))
    try:
        yield
    finally:
        storing.cancel()
        with suppress(asyncio.CancelledError):
            await storing


async def _store_for_ever(by_hand: StoringByHand) -> None:
    while True:
        await asyncio.sleep(0.1)
        await by_hand.store_all()
