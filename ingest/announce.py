"""Tells everybody who waits, by Kafka, how far spans are stored (ADR 0007).

An announcement only wakes: what it says stands in the table ``stored_through`` already. So nobody here waits for Kafka, and
what cannot be published is dropped; who waits looks into the table now and then by himself.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager, suppress
from typing import Final
from uuid import UUID

from common.errors import ServiceError
from common.kafka.record import Publisher
from common.stored_position import StoredPosition, encode_positions
from common.telemetry import ANNOUNCEMENTS, get_logger

PENDING_MAX: Final = 10_000
"""Projects times logs that are not announced yet; more than these are learnt from the table."""

LAST_WORDS_S: Final = 1.0
"""How long an ending worker tries to announce its last batch."""

_log = get_logger(__name__)


class Announcer:
    """Collects what is settled and publishes it, the latest of each project and log, one message after the other."""

    def __init__(self, publisher: Publisher, *, topic: str) -> None:
        self._publisher = publisher
        self._topic = topic
        self._pending: dict[tuple[UUID, str], StoredPosition] = {}
        self._has_pending = asyncio.Event()

    def announce(self, positions: Sequence[StoredPosition]) -> None:
        """Take these to be published; returns at once."""
        for each in positions:
            self._pending.pop((each.project_id, each.partition_id), None)
            self._pending[each.project_id, each.partition_id] = each
        while len(self._pending) > PENDING_MAX:
            del self._pending[next(iter(self._pending))]
            ANNOUNCEMENTS.labels("dropped").inc()
        self._has_pending.set()

    async def run(self) -> None:
        """Publish what comes, until cancelled."""
        while True:
            await self._has_pending.wait()
            await self.publish_pending()

    async def publish_pending(self) -> None:
        """Publish what was taken until now, or drop it."""
        self._has_pending.clear()
        pending, self._pending = self._pending, {}
        for message in encode_positions(list(pending.values())):
            try:
                await self._publisher.publish(self._topic, message)
            except ServiceError as exc:
                ANNOUNCEMENTS.labels("failed").inc()
                _log.debug("An announcement is dropped; readers look into the table.", error=exc.detail)
            else:
                ANNOUNCEMENTS.labels("published").inc()


@asynccontextmanager
async def open_announcer(publisher: Publisher, *, topic: str) -> AsyncIterator[Announcer]:
    """An announcer at work while inside; at the end it gives its last words a moment."""
    announcer = Announcer(publisher, topic=topic)
    running = asyncio.create_task(announcer.run(), name="announce")
    try:
        yield announcer
    finally:
        running.cancel()
        await asyncio.wait({running})
        with suppress(TimeoutError):
            async with asyncio.timeout(LAST_WORDS_S):
                await announcer.publish_pending()
