"""Keeps ``StoredThrough`` up to date: the announcements of the workers, and the table behind them (ADR 0007).

Announcements are quick and may be lost; the table is right and costs a statement. So the table is read whenever the following
begins, and after that only now and then while somebody waits and all is quiet: an idle process asks nothing.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager, suppress
from typing import Final

from common.clickhouse.store import ColumnStore
from common.clickhouse.stored_through import read_positions
from common.clock import Clock
from common.errors import InvalidInput, ServiceError
from common.kafka.record import Record, RecordLog
from common.stored_position import decode_positions
from common.telemetry import get_logger
from query_api.freshness.stored import StoredThrough

ROWS_MAX: Final = 100_000
"""Read at once: projects times logs, those that were busy last. About 10 MB; the others are read when they are asked for."""

DEADLINE_S: Final = 10.0
RETRY_S: Final = 1.0
"""Between two tries to follow the topic: who waits meanwhile is served from the table."""

_log = get_logger(__name__)


class Follower:
    """Feeds ``stored`` from the topic and the table until cancelled. ``announcements`` and ``store`` stay the caller's."""

    def __init__(
        self,
        stored: StoredThrough,
        *,
        store: ColumnStore,
        announcements: RecordLog,
        topic: str,
        clock: Clock,
        reread_s: float,
    ) -> None:
        self._stored = stored
        self._store = store
        self._announcements = announcements
        self._topic = topic
        self._clock = clock
        self._reread_s = reread_s
        self._heard_s = clock.monotonic_s()

    async def run(self) -> None:
        """Follow both, until cancelled."""
        async with asyncio.TaskGroup() as tasks:
            tasks.create_task(self._follow_topic(), name="follow-stored")
            tasks.create_task(self._reread_when_quiet(), name="reread-stored")

    async def _follow_topic(self) -> None:
        is_followed = True
        while True:
            try:
                async for records in self._announcements.tail(self._topic):
                    if not is_followed:
                        _log.info("Announcements of what is stored are heard again.")
                        is_followed = True
                    self._take(records)
            except ServiceError as exc:
                if is_followed:
                    _log.info(
                        "No announcements of what is stored; waiting calls look for themselves.", reason=exc.detail
                    )
                is_followed = False
            await asyncio.sleep(RETRY_S)

    def _take(self, records: Sequence[Record]) -> None:
        for record in records:
            self._heard_s = self._clock.monotonic_s()
            try:
                self._stored.learn(decode_positions(record.value or b""))
            except InvalidInput as exc:
                _log.warning("Somebody else writes to the topic of announcements.", topic=self._topic, error=exc.detail)

    async def _reread_when_quiet(self) -> None:
        """Read the table at the start, and then for who waits; tries again soon while the engine is away."""
        is_read = await self.reread()
        while True:
            await asyncio.sleep(self._reread_s if is_read else min(RETRY_S, self._reread_s))
            silent_s = self._clock.monotonic_s() - self._heard_s
            if not is_read or (self._stored.waiting_count and silent_s >= self._reread_s):
                is_read = await self.reread()

    async def reread(self) -> bool:
        """Learn what the table says; whether it could be read."""
        try:
            positions = await read_positions(self._store, rows_max=ROWS_MAX, deadline_s=DEADLINE_S)
        except ServiceError as exc:
            _log.debug("How far spans are stored cannot be read now.", error=exc.detail)
            return False
        self._stored.learn(positions)
        return True


@asynccontextmanager
async def following(follower: Follower) -> AsyncIterator[None]:
    """A follower at work while inside."""
    running = asyncio.create_task(follower.run(), name="follow")
    try:
        yield
    finally:
        running.cancel()
        with suppress(asyncio.CancelledError):
            await running
