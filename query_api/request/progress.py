"""What this process knows of the progress of storing: how far each partition is stored (ADR 0007), where it ends in
Kafka, and the time up to which it is therefore complete.

A partition that is stored to its end is complete up to the time at which Kafka was asked for the end. Any other is
complete up to the timestamp of its last stored record, because Kafka accepted everything earlier before it. The clocks
are those of this process and of the producers.

Pure memory: ``freshness/follow.py`` fills ``StoredThrough`` from the table ``stored_through`` and from the
announcements of the workers. What is stored stays stored, so this knowledge may be late and may be dropped, but it is
never wrong. Both classes belong to one event loop.
"""

from __future__ import annotations

import asyncio
from collections import OrderedDict, deque
from collections.abc import Iterable, Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from heapq import nlargest
from typing import Final, NamedTuple
from uuid import UUID

from common.errors import ServiceError
from common.kafka.record import EndOffsets, Partition
from common.stored_position import StoredPosition
from common.times import Clock

PROJECTS_MAX: Final = 10_000
"""Projects that are remembered: about 2 KB each with a dozen partitions. Those without news for longest are dropped."""

REFRESH_INTERVAL_S: Final = 1.0

READS_KEPT: Final = 300
"""Reads that are kept: five minutes under constant requests, the longest delay that can be reported to callers of one
project."""


class Through(NamedTuple):
    """How far one partition is stored for one project: everything up to and including ``offset``."""

    offset: int
    record_ms: int
    """The timestamp of the record at that offset."""

    stored_us: int
    """When it was known to be stored, in microseconds since 1970."""


@dataclass(slots=True)
class _Known:
    through: dict[str, Through] = field(default_factory=dict)
    news_count: int = 0
    waiting: set[asyncio.Future[None]] = field(default_factory=set)


class StoredThrough:
    """How far spans are stored, by project and partition id. The project ``ALL_PROJECTS`` means every record of a
    partition."""

    def __init__(self) -> None:
        self._known: OrderedDict[UUID, _Known] = OrderedDict()
        self._is_closed = False
        self.waiting_count = 0
        """Calls that wait for news now."""

    def learn(self, positions: Iterable[StoredPosition]) -> None:
        """Take in positions, in any order, and wake the calls that wait for a project that advanced."""
        advanced: dict[UUID, _Known] = {}
        for position in positions:
            known = self._known.setdefault(position.project_id, _Known())
            before = known.through.get(position.partition_id)
            if before is None or before.offset < position.through_offset:
                through = Through(position.through_offset, position.record_ms, position.stored_us)
                known.through[position.partition_id] = through
                advanced[position.project_id] = known
        for project_id, known in advanced.items():
            known.news_count += 1
            self._known.move_to_end(project_id)
            _wake(known)
        self._drop_quiet()

    def through(self, project_id: UUID) -> Mapping[str, Through]:
        """Return a copy of how far each partition is stored for the project; empty if nothing is known."""
        known = self._known.get(project_id)
        return dict(known.through) if known is not None else {}

    def offsets(self, project_id: UUID, *, max_count: int) -> Mapping[str, int]:
        """Return the last stored offset by partition id, of at most ``max_count`` partitions: those stored last."""
        last = nlargest(max_count, self.through(project_id).items(), key=lambda item: item[1].stored_us)
        return {partition_id: through.offset for partition_id, through in last}

    def news_count(self, project_id: UUID) -> int:
        """Return how often the project advanced; ``wait_for_news`` compares with it."""
        known = self._known.get(project_id)
        return known.news_count if known is not None else 0

    async def wait_for_news(self, project_id: UUID, *, since: int, timeout_s: float) -> bool:
        """Wait up to ``timeout_s`` until ``news_count`` differs from ``since``; return whether it does.

        Returns at once if it differs already, so that no news is missed between a look and the wait. Returns false
        early when the process ends.
        """
        known = self._known.setdefault(project_id, _Known())
        if known.news_count == since and not self._is_closed and timeout_s > 0:
            await self._wait(known, timeout_s)
        return known.news_count != since

    @property
    def is_closed(self) -> bool:
        """Whether the process ends: then nothing that takes long goes on."""
        return self._is_closed

    def release(self) -> None:
        """Wake every waiting call and let none wait any more, because the process ends."""
        self._is_closed = True
        for known in self._known.values():
            _wake(known)

    async def _wait(self, known: _Known, timeout_s: float) -> None:
        woken: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        known.waiting.add(woken)
        self.waiting_count += 1
        try:
            await asyncio.wait({woken}, timeout=timeout_s)
        finally:
            self.waiting_count -= 1
            known.waiting.discard(woken)

    def _drop_quiet(self) -> None:
        excess = len(self._known) - PROJECTS_MAX
        if excess > 0:
            for project_id in [project_id for project_id, known in self._known.items() if not known.waiting][:excess]:
                del self._known[project_id]


def _wake(known: _Known) -> None:
    waiting, known.waiting = known.waiting, set()
    for woken in waiting:
        woken.set_result(None)


@dataclass(eq=False, slots=True)
class SettledRuns:
    """The last run of settling that was read while requests waited for it. One of them reads at a time."""

    run: int = 0
    read_s: float = float("-inf")
    reading: asyncio.Lock = field(default_factory=asyncio.Lock)


@dataclass(frozen=True, slots=True)
class EndOffsetsRead:
    """One read of Kafka's end offsets: the offset after the last record, by partition id.

    Every record that Kafka had acknowledged by ``asked_us`` has a lower offset.
    """

    asked_us: int
    offsets: Mapping[str, int]

    @property
    def partition_ids(self) -> dict[Partition, str]:
        """The id of each partition."""
        split = {partition_id: partition_id.rsplit("/", 2) for partition_id in self.offsets}
        return {Partition(topic, int(number)): partition_id for partition_id, (_, topic, number) in split.items()}


class KnownEndOffsets:
    """Kafka's end offsets as last read: in the background, at most once a second, and only while requests come."""

    def __init__(self, source: EndOffsets, clock: Clock) -> None:
        self._source = source
        self._clock = clock
        self._reading: asyncio.Task[None] | None = None
        self._began_s = float("-inf")
        self.latest: EndOffsetsRead | None = None
        self.recent: deque[EndOffsetsRead] = deque(maxlen=READS_KEPT)
        """The last reads, the latest first."""

        self.failure: str | None = None
        """Why the last read failed; ``None`` if it did not."""

    def refresh(self) -> None:
        """Begin a read in the background, unless one began less than ``REFRESH_INTERVAL_S`` ago."""
        now_s = self._clock.monotonic_s()
        if self._reading is None and now_s - self._began_s >= REFRESH_INTERVAL_S:
            self._began_s = now_s
            self._reading = asyncio.create_task(self._read(), name="read-end-offsets")

    async def refreshed(self, *, timeout_s: float) -> EndOffsetsRead | None:
        """Return the latest read, waiting for one under way until ``timeout_s`` after it began.

        The timeout counts from the beginning of the read, so while Kafka is unavailable only the first requests of each
        second wait.
        """
        remaining_s = self._began_s + timeout_s - self._clock.monotonic_s()
        if self._reading is not None and remaining_s > 0:
            await asyncio.wait({self._reading}, timeout=remaining_s)
        return self.latest

    async def close(self) -> None:
        """Stop reading and close the source. Safe to call twice."""
        if self._reading is not None:
            self._reading.cancel()
            with suppress(asyncio.CancelledError):
                await self._reading
        await self._source.close()

    async def _read(self) -> None:
        asked_us = self._clock.now_ns() // 1_000
        try:
            self.latest = EndOffsetsRead(asked_us, await self._source.ask())
            self.recent.appendleft(self.latest)
            self.failure = None
        except ServiceError as error:
            self.failure = error.public_message
        finally:
            self._reading = None


def through_us(ends: EndOffsetsRead, stored: Mapping[str, Through]) -> int | None:
    """Return the time up to which every partition is complete, in microseconds since 1970; ``None`` if one is unknown.

    ``stored`` is what ``StoredThrough`` knows of ``ALL_PROJECTS``. Every response calls this: 0.5 µs a partition.
    """
    times_us = [
        complete_us(end, stored.get(partition_id), asked_us=ends.asked_us) for partition_id, end in ends.offsets.items()
    ]
    known_us = [time_us for time_us in times_us if time_us is not None]
    return min(known_us, default=None) if len(known_us) == len(times_us) else None


def asked_through_us(reads: Iterable[EndOffsetsRead], stored: Mapping[str, Through]) -> int | None:
    """Return the latest time at which Kafka was asked and held only what is stored now; ``None`` if there is none.

    The counterpart of ``through_us`` for callers who do not see all projects: it reveals no record's timestamp.
    ``reads``: the latest first.
    """
    return next((ends.asked_us for ends in reads if _is_all_stored(ends, stored)), None)


def complete_us(end: int, stored: Through | None, *, asked_us: int) -> int | None:
    """Return the time up to which a partition is complete; ``None`` if it is unknown. ``end`` is its end offset."""
    if stored is None:
        return asked_us if end == 0 else None
    # A producer whose clock is ahead promises nothing.
    stored_us = min(stored.record_ms * 1_000, stored.stored_us) if stored.record_ms >= 0 else None
    if stored.offset + 1 < end:
        return stored_us
    return asked_us if stored_us is None else max(asked_us, stored_us)


def _is_all_stored(ends: EndOffsetsRead, stored: Mapping[str, Through]) -> bool:
    return all(
        end == 0 or ((through := stored.get(partition_id)) is not None and through.offset + 1 >= end)
        for partition_id, end in ends.offsets.items()
    )
