"""Keep ``StoredThrough`` up to date from the workers' announcements and from the table ``stored_through`` (ADR 0007).

Announcements are fast but may be lost; the table is reliable but costs a statement. So the table is read when the
process starts, then only while calls wait and no announcement arrives. An idle process reads nothing.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import asynccontextmanager, suppress
from typing import Final
from uuid import UUID

from common.clickhouse.store import ColumnStore
from common.clickhouse.stored_through import read_positions, read_positions_of
from common.errors import InvalidInput, ServiceError
from common.kafka.record import Record, RecordLog
from common.stored_position import decode_positions
from common.telemetry import REQUESTS_WAITING, get_logger
from common.times import Clock
from query_api.request.context import ApiContext
from query_api.request.progress import StoredThrough

ROWS_MAX: Final = 100_000
"""Rows (projects times partitions) in one read, the most recently active: about 10 MB. Others are read on demand."""

DEADLINE_S: Final = 10.0
RETRY_S: Final = 1.0
"""Between two attempts to follow the topic; meanwhile waiting calls are served from the table."""

SCAN_PARTITIONS_MAX: Final = 4_000
"""Partitions that a scan remembers, in up to 85 KB of a cursor: those stored last. The embedded broker adds partition
ids at each start; the older ones get no more records."""

_log = get_logger(__name__)


async def look_up_stored(context: ApiContext, project_id: UUID) -> None:
    """Read from the table how far the project is stored, into ``context.stored``: a statement of 2 ms.

    ``ALL_PROJECTS`` means every record of a partition.
    """
    deadline_s = context.settings.query.budget_s
    context.stored.learn(await read_positions_of(context.store, project_id, deadline_s=deadline_s))


async def stored_offsets(context: ApiContext, project_id: UUID, *, is_continued: bool) -> Mapping[str, int]:
    """Return the last stored offset by partition id, for a scan that begins; call it before the first page is read.

    Data that is unknown now would move its trace or session past the position of the scan when more of it arrives, so
    the table is read. A scan that ``is_continued`` has this in its cursor, except where the client made the cursor
    itself.
    """
    if not is_continued:
        await look_up_stored(context, project_id)
    return context.stored.offsets(project_id, max_count=SCAN_PARTITIONS_MAX)


async def wait_for_news(context: ApiContext, project_id: UUID, *, since: int, ends_s: float) -> bool:
    """Wait until more is stored than at ``since``, a ``news_count`` of the project; return false if it is not by
    ``ends_s``.

    Raises ``Overloaded`` if too many requests wait already.
    """
    if context.clock.monotonic_s() >= ends_s:
        return False
    async with context.waiting.place(timeout_s=context.settings.query.queue_s):
        with REQUESTS_WAITING.track_inprogress():
            left_s = ends_s - context.clock.monotonic_s()
            return await context.stored.wait_for_news(project_id, since=since, timeout_s=left_s)


class Follower:
    """Feeds ``stored`` from the topic and the table until cancelled. The caller closes what it passes."""

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
        self._last_announcement_s = clock.monotonic_s()

    async def run(self) -> None:
        """Follow topic and table until cancelled."""
        async with asyncio.TaskGroup() as tasks:
            tasks.create_task(self._follow_topic(), name="follow-stored")
            tasks.create_task(self._reread_when_quiet(), name="reread-stored")

    async def _follow_topic(self) -> None:
        is_followed = True
        while True:
            try:
                async for records in self._announcements.tail(self._topic):
                    if not is_followed:
                        _log.info("Announcements of stored positions arrive again.", topic=self._topic)
                        is_followed = True
                    self._take(records)
            except ServiceError as exc:
                if is_followed:
                    _log.info("Announcements cannot be read; polling the table.", topic=self._topic, reason=exc.detail)
                is_followed = False
            await asyncio.sleep(RETRY_S)

    def _take(self, records: Sequence[Record]) -> None:
        for record in records:
            self._last_announcement_s = self._clock.monotonic_s()
            try:
                self._stored.learn(decode_positions(record.value or b""))
            except InvalidInput as exc:
                _log.warning("Ignored an invalid announcement.", topic=self._topic, reason=exc.detail)

    async def _reread_when_quiet(self) -> None:
        """Read the table at the start, then while calls wait without announcements; retry soon if it cannot be read."""
        is_read = await self.reread()
        while True:
            await asyncio.sleep(self._reread_s if is_read else min(RETRY_S, self._reread_s))
            silent_s = self._clock.monotonic_s() - self._last_announcement_s
            if not is_read or (self._stored.waiting_count and silent_s >= self._reread_s):
                is_read = await self.reread()

    async def reread(self) -> bool:
        """Learn what the table says; return whether it could be read."""
        try:
            positions = await read_positions(self._store, rows_max=ROWS_MAX, deadline_s=DEADLINE_S)
        except ServiceError as exc:
            _log.debug("The stored positions cannot be read.", reason=exc.detail)
            return False
        self._stored.learn(positions)
        return True


@asynccontextmanager
async def following(follower: Follower) -> AsyncIterator[None]:
    """Run the follower while inside."""
    running = asyncio.create_task(follower.run(), name="follow")
    try:
        yield
    finally:
        running.cancel()
        with suppress(asyncio.CancelledError):
            await running
