"""The open dead letters of the topic, kept in memory between requests, the newest first.

The topic keeps every dead letter forever, so one read of it may take minutes. The first request reads the end of each
partition; a task then reads blocks before it, in the background. Later requests read only what was added.

A dead letter is replayed or dropped by a later record, perhaps of another partition. So a dead letter is open for
certain if every partition has been read back to a time before it was published: those are listed, and ``since`` says
how far back that is. (The clocks of the processes that publish may differ by less than the time in which an
administrator acts.) It was rejected before it was published, perhaps long before: the embedded stack publishes the open
ones again when it starts.

Belongs to one event loop.
"""

from __future__ import annotations

import asyncio
import sys
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from typing import Final, TypeAlias

from common.errors import ServiceError, Unavailable
from common.kafka.dead_letters import DeadLetter, OpenDeadLetters
from common.kafka.record import Coordinates, Record, RecordLog, TopicExtent
from common.limits import MIB
from common.times import Clock, format_us, nearest_formattable_us

BLOCK_RECORDS: Final = 2_000
BLOCK_RECORDS_MAX: Final = 20_000
"""Records of each partition that are read first; each further block is twice as large, up to the maximum."""

KEPT_MAX: Final = 100_000
"""Open dead letters in memory, about 1.5 KiB each; the oldest are forgotten."""

EXAMINED_MAX: Final = 1_000_000
EXAMINED_BYTES_MAX: Final = 4096 * MIB
"""Records and bytes after which the background task stops reading older blocks."""

FETCH_GAP_MAX: Final = 100
"""Records that are read and ignored between two wanted ones, instead of reading twice."""

_EVER_MS: Final = -(2**63)


SortKey: TypeAlias = tuple[str, int, int]


def sort_key(dead_letter: DeadLetter) -> SortKey:
    """Return what orders dead letters by the time of rejection, then by partition and offset."""
    partition, _, offset = dead_letter.id.partition("-")
    return time_key(dead_letter.created_at), int(partition), int(offset)


def time_key(time: str) -> str:
    """Return a text of ``format_us`` with six digits of fraction and without the zone, to be compared as text."""
    return time[:26] if len(time) == 27 else f"{time[:19]}.000000"


@dataclass(frozen=True, slots=True)
class KnownDeadLetters:
    """What is known at one moment. ``read_us`` is when Kafka was asked for the end of the topic."""

    newest_first: Sequence[DeadLetter]
    """Open for certain."""

    since: str | None
    """A ``time_key``: every open dead letter from then on is known. ``None``: every open dead letter is."""

    is_reading: bool
    """Whether older ones are still being read."""

    records_count: int
    read_us: int


@dataclass(slots=True)
class _Progress:
    """How much of a partition has been read: the offsets ``floor`` to ``end``, of those that begin at ``first``."""

    first: int
    floor: int
    end: int
    floor_ms: int = sys.maxsize
    """The timestamp of the first record read; it is unknown until there is one."""

    @property
    def is_whole(self) -> bool:
        return self.floor <= self.first


class DeadLetterIndex:
    """Reads the topic of dead letters as far as requests need it. ``close`` ends what runs in the background."""

    def __init__(self, log: RecordLog, topic: str, clock: Clock) -> None:
        self.topic: Final = topic
        self._log = log
        self._clock = clock
        self._passes_begun = 0
        self._passes_done = 0
        self._read_us = 0
        self._read_s = float("-inf")
        self._pass: asyncio.Task[ServiceError | None] | None = None
        self._scan: asyncio.Task[ServiceError | None] | None = None
        self._claimed: set[str] = set()
        self._reset("")

    def _reset(self, log_id: str) -> None:
        self._log_id = log_id
        self._progress: dict[int, _Progress] = {}
        self._open = OpenDeadLetters(sys.maxsize)
        self._block = BLOCK_RECORDS
        self._records_count = 0
        self._bytes_count = 0
        self._forgotten_before = ""
        self._sorted: list[DeadLetter] | None = None

    async def refreshed(self, *, timeout_s: float, age_max_s: float = 0.0) -> KnownDeadLetters:
        """Return the open dead letters, with everything that was published before the call, or before ``age_max_s``.

        Waits up to ``timeout_s`` for older ones. Raises ``Unavailable`` if the topic cannot be read to its end.
        """
        is_at_end = False
        try:
            async with asyncio.timeout(timeout_s):
                if self._clock.monotonic_s() - self._read_s >= age_max_s:
                    await self._read_to_the_end()
                is_at_end = True
                await self._scan_back()
        except TimeoutError:
            if not is_at_end:
                raise Unavailable(
                    f"Kafka did not send the last records of {self.topic} within {timeout_s:g} s."
                ) from None
        return self._known()

    def find(self, dead_letter_id: str) -> DeadLetter | None:
        """Return the dead letter with this id, or of which this is a duplicate, if it is open for certain."""
        found = self._open.find(dead_letter_id)
        return found if found is not None and found.published_ms > self._read_back_to_ms() else None

    def resolve(self, dead_letter_id: str) -> None:
        """Note at once that a dead letter was replayed or dropped, before the topic says so."""
        self._open.resolve(dead_letter_id)
        self._sorted = None

    def rejection_of(self, dead_letter_id: str) -> bytes | None:
        """Return which rejection a dead letter is about, for its mark; ``None`` if it is not known any more."""
        return self._open.rejection_of(dead_letter_id)

    def may_be_older(self, where: Coordinates) -> bool:
        """Whether a dead letter that ``find`` does not find may be open and older than what is known."""
        progress = self._progress.get(where.partition)
        is_unread = progress is not None and progress.first <= where.offset < progress.floor
        return is_unread or self._open.is_open(f"{where.partition}-{where.offset}")

    @contextmanager
    def claim(self, dead_letters: Iterable[DeadLetter]) -> Iterator[list[DeadLetter]]:
        """Replay or drop dead letters while inside; yields those that are open and not claimed by another request."""
        ours = [each for each in dead_letters if each.id not in self._claimed and self.find(each.id) is not None]
        self._claimed.update(each.id for each in ours)
        try:
            yield ours
        finally:
            self._claimed.difference_update(each.id for each in ours)

    async def fetch(self, dead_letters: Sequence[DeadLetter]) -> Mapping[str, Record]:
        """Return their records by id, without those that the topic no longer holds. Raises ``Unavailable``."""
        wanted = {dead_letter.id for dead_letter in dead_letters}
        records: dict[str, Record] = {}
        for ranges in _ranges_of(wanted):
            async for chunk in self._log.read_ranges(self.topic, ranges):
                for record in chunk:
                    dead_letter_id = f"{record.partition}-{record.offset}"
                    if dead_letter_id in wanted:
                        records[dead_letter_id] = record
        return records

    async def close(self) -> None:
        """Stop reading. Safe to call twice."""
        for task in (self._pass, self._scan):
            if task is not None:
                task.cancel()
                with suppress(asyncio.CancelledError):
                    await task

    async def _read_to_the_end(self) -> None:
        """Return after a pass that began after the call. Raises the error of the pass."""
        wanted = self._passes_begun + 1
        while self._passes_done < wanted:
            if self._pass is None:
                self._passes_begun += 1
                self._pass = asyncio.create_task(self._run_pass(self._passes_begun), name="read-dead-letters")
            await _until_done(self._pass)

    async def _run_pass(self, number: int) -> ServiceError | None:
        try:
            await self._read_new()
        except ServiceError as error:
            return error
        else:
            self._passes_done = number
            return None
        finally:
            self._pass = None

    async def _read_new(self) -> None:
        asked_us, asked_s = self._clock.now_ns() // 1_000, self._clock.monotonic_s()
        extent = await self._log.extent(self.topic)
        if not extent.partitions:
            raise Unavailable(f"There is no topic {self.topic}.")
        if self._is_other_topic(extent) or self._is_worn():
            await self._stop_scan()
            self._reset(extent.log_id)
        for number, offsets in extent.partitions.items():
            if number not in self._progress:
                end = max(offsets.start, offsets.stop - self._block)
                self._progress[number] = _Progress(offsets.start, end, end)
        await self._read(
            {number: range(self._progress[number].end, at.stop) for number, at in extent.partitions.items()}
        )
        self._forget_oldest()
        self._read_us, self._read_s = asked_us, asked_s

    def _is_other_topic(self, extent: TopicExtent) -> bool:
        """Whether another cluster has replaced the one that was read, or the topic was created again."""
        return extent.log_id != self._log_id or any(
            number not in extent.partitions or extent.partitions[number].stop < progress.end
            for number, progress in self._progress.items()
        )

    def _is_worn(self) -> bool:
        """Whether reading anew finds more, or takes less memory."""
        has_room = len(self._open.dead_letters) < KEPT_MAX // 2
        return self._records_count > 2 * EXAMINED_MAX or (bool(self._forgotten_before) and has_room)

    async def _scan_back(self) -> None:
        """Return when there is nothing more to read. Raises the error of the task that reads."""
        if self._scan is None and self._has_more():
            self._scan = asyncio.create_task(self._run_scan(), name="read-older-dead-letters")
        if self._scan is not None:
            await _until_done(self._scan)

    async def _run_scan(self) -> ServiceError | None:
        try:
            while self._has_more():
                block = min(2 * self._block, BLOCK_RECORDS_MAX)
                unread = {number: at for number, at in self._progress.items() if not at.is_whole}
                await self._read(
                    {number: range(max(at.first, at.floor - block), at.floor) for number, at in unread.items()}
                )
                self._block = block
        except ServiceError as error:
            return error
        else:
            return None
        finally:
            self._scan = None

    async def _stop_scan(self) -> None:
        scan = self._scan
        if scan is not None:
            scan.cancel()
            with suppress(asyncio.CancelledError):
                await scan

    def _has_more(self) -> bool:
        return (
            any(not progress.is_whole for progress in self._progress.values())
            and not self._forgotten_before
            and len(self._open.dead_letters) < KEPT_MAX
            and self._records_count < EXAMINED_MAX
            and self._bytes_count < EXAMINED_BYTES_MAX
        )

    async def _read(self, ranges: Mapping[int, range]) -> None:
        """Read offsets that follow or precede what has been read."""
        first_ms: dict[int, int] = {}
        async for records in self._log.read_ranges(self.topic, ranges):
            self._open.take(records)
            self._sorted = None
            self._records_count += len(records)
            for record in records:
                self._bytes_count += len(record.value or b"")
                first_ms.setdefault(record.partition, record.timestamp_ms)
            await asyncio.sleep(0)
        for number, offsets in ranges.items():
            progress = self._progress[number]
            progress.floor, progress.end = min(progress.floor, offsets.start), max(progress.end, offsets.stop)
            progress.floor_ms = min(progress.floor_ms, first_ms.get(number, sys.maxsize))

    def _read_back_to_ms(self) -> int:
        """Return a time after which everything was read that was published, in all partitions."""
        return max((at.floor_ms for at in self._progress.values() if not at.is_whole), default=_EVER_MS)

    def _since(self) -> str | None:
        """Return the time since which every open dead letter is known."""
        read_back_to_ms = self._read_back_to_ms()
        read_back_to = ""
        if read_back_to_ms != _EVER_MS:
            read_back_to = time_key(format_us(nearest_formattable_us((read_back_to_ms + 1) * 1_000)))
        return max(read_back_to, self._forgotten_before) or None

    def _newest_first(self) -> list[DeadLetter]:
        if self._sorted is None:
            self._sorted = sorted(self._open.dead_letters, key=sort_key, reverse=True)
        return self._sorted

    def _forget_oldest(self) -> None:
        if len(self._open.dead_letters) > KEPT_MAX:
            newest_first = self._newest_first()
            self._forgotten_before = time_key(newest_first[KEPT_MAX * 9 // 10].created_at)
            self._open.forget([each for each in newest_first if time_key(each.created_at) < self._forgotten_before])
            self._sorted = None

    def _known(self) -> KnownDeadLetters:
        newest_first, read_back_to_ms = self._newest_first(), self._read_back_to_ms()
        if read_back_to_ms != _EVER_MS:
            newest_first = [dead_letter for dead_letter in newest_first if dead_letter.published_ms > read_back_to_ms]
        return KnownDeadLetters(newest_first, self._since(), self._scan is not None, self._records_count, self._read_us)


async def _until_done(task: asyncio.Task[ServiceError | None]) -> None:
    """Wait for a task that others wait for, too. Raises the error that it returned."""
    await asyncio.wait({task})
    if not task.cancelled() and (error := task.result()) is not None:
        raise error


def _ranges_of(dead_letter_ids: set[str]) -> Iterator[dict[int, range]]:
    """Yield ranges of offsets by partition that cover these dead letters, with few others between them."""
    offsets: dict[int, list[int]] = {}
    for dead_letter_id in dead_letter_ids:
        partition, _, offset = dead_letter_id.partition("-")
        offsets.setdefault(int(partition), []).append(int(offset))
    runs = {number: _runs(sorted(found)) for number, found in offsets.items()}
    while runs:
        yield {number: found.pop() for number, found in runs.items()}
        runs = {number: found for number, found in runs.items() if found}


def _runs(offsets: Sequence[int]) -> list[range]:
    runs: list[range] = []
    for offset in offsets:
        if runs and offset - runs[-1].stop <= FETCH_GAP_MAX:
            runs[-1] = range(runs[-1].start, offset + 1)
        else:
            runs.append(range(offset, offset + 1))
    return runs
