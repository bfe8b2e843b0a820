"""The records of a partition: record batches in segments, which are files named by their first offset.

A batch is stored as its producer has sent it, except for its first offset. It is in the kernel before it is
acknowledged, so a kill of the process loses nothing; the files are synced soon after (``store.py``), as a power failure
needs it. A batch that was cut off is removed at the next start.

Source: Kafka protocol guide, "Record Batch" (magic 2).
"""

from __future__ import annotations

import asyncio
import mmap
import os
import struct
import time
from array import array
from bisect import bisect_right
from collections import OrderedDict, deque
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final, NamedTuple

from aiokafka.record.util import calc_crc32c

from clearspan.embedded.broker_server.messages import Error

INDEX_BYTES: Final = 64 * 1024
"""Bytes of a segment for which the index has an entry."""

PRODUCERS_MAX: Final = 1_000
BATCHES_REMEMBERED: Final = 5
"""A producer has at most 5 requests under way, so a repeated batch is among the last 5."""

SEQUENCE_END: Final = 2**31
BATCH_HEAD: Final = struct.Struct(">qiibIhiqqqhii")
_LENGTH_END: Final = 12
_CRC_END: Final = 21
_MAGIC: Final = 2
_TRANSACTION_BITS: Final = 0x30
"""The attributes of batches of a transaction, and of the markers that end one."""


class BatchRefused(Exception):
    """A batch that is not stored, and the error code that says why."""

    def __init__(self, error: Error, message: str) -> None:
        super().__init__(message)
        self.error = error


class BatchHead(NamedTuple):
    """The head of a record batch."""

    base_offset: int
    length: int
    leader_epoch: int
    magic: int
    crc: int
    attributes: int
    last_offset_delta: int
    base_timestamp: int
    max_timestamp: int
    producer_id: int
    producer_epoch: int
    base_sequence: int
    records_count: int

    @property
    def size(self) -> int:
        """Bytes of the batch, with its head."""
        return _LENGTH_END + self.length

    @property
    def next_offset(self) -> int:
        """The offset after its last record."""
        return self.base_offset + self.last_offset_delta + 1


def read_batch(data: memoryview, *, bytes_max: int) -> BatchHead:
    """Check the one batch of a produce request, except its records. Raises ``BatchRefused``."""
    if len(data) > bytes_max:
        raise BatchRefused(Error.MESSAGE_TOO_LARGE, f"The batch has {len(data)} bytes; the topic allows {bytes_max}.")
    if len(data) < BATCH_HEAD.size:
        raise BatchRefused(Error.CORRUPT_MESSAGE, "The records are no record batch.")
    batch = BatchHead._make(BATCH_HEAD.unpack_from(data))
    if batch.magic != _MAGIC:
        raise BatchRefused(Error.UNSUPPORTED_FOR_MESSAGE_FORMAT, f"Message format {batch.magic}; only 2 is stored.")
    if batch.size != len(data) or batch.crc != calc_crc32c(data[_CRC_END:]):
        raise BatchRefused(Error.CORRUPT_MESSAGE, "The length or the checksum of the record batch is wrong.")
    if batch.records_count < 1 or batch.records_count != batch.last_offset_delta + 1:
        raise BatchRefused(Error.CORRUPT_MESSAGE, "The number of records does not match the offsets of the batch.")
    if batch.attributes & _TRANSACTION_BITS:
        raise BatchRefused(Error.INVALID_REQUEST, "Transactions are not supported.")
    return batch


class Segment:
    """A file of batches. The index of an old one is made when it is first read."""

    def __init__(self, directory: Path, base_offset: int) -> None:
        self.path = directory / f"{base_offset:020}.log"
        self.base_offset = self.next_offset = base_offset
        self.fd = os.open(self.path, os.O_RDWR | os.O_CREAT | os.O_APPEND, 0o600)
        status = os.fstat(self.fd)
        self.size, self.written_s = status.st_size, status.st_mtime
        self.begun_s = self.written_s if self.size else time.time()
        self.is_synced = True
        self._offsets, self._positions = array("q"), array("q")
        self._is_indexed = not self.size

    def append(self, batch: BatchHead, data: memoryview) -> None:
        """Append a batch, which gets the next offset. Raises ``OSError``, and then leaves the file as it was."""
        head = struct.pack(">q", self.next_offset)
        written = 0
        try:
            written = os.writev(self.fd, [head, data[len(head) :]])
        finally:
            if written != len(data):
                os.ftruncate(self.fd, self.size)
        if written != len(data):
            raise OSError(f"{self.path} took only {written} of {len(data)} bytes")
        self._index(self.next_offset, self.size)
        self.size += len(data)
        self.next_offset += batch.records_count
        self.written_s = time.time()
        self.is_synced = False

    def batches(self, *, checks_crc: bool = False) -> Iterator[tuple[int, BatchHead]]:
        """Yield the position and the head of each whole batch; end at the first that is cut off or damaged."""
        if not self.size:
            return
        with mmap.mmap(self.fd, self.size, access=mmap.ACCESS_READ) as mapped, memoryview(mapped) as data:
            position = 0
            while position + BATCH_HEAD.size <= self.size:
                batch = BatchHead._make(BATCH_HEAD.unpack_from(data, position))
                end = position + batch.size
                if batch.magic != _MAGIC or batch.size < BATCH_HEAD.size or end > self.size:
                    return
                if checks_crc and batch.crc != calc_crc32c(data[position + _CRC_END : end]):
                    return
                yield position, batch
                position = end

    def recover(self) -> Iterator[BatchHead]:
        """Yield the heads of all whole batches, and cut off what follows the last: the file was written last."""
        end = 0
        for position, batch in self.batches(checks_crc=True):
            self._index(batch.base_offset, position)
            self.next_offset, end = batch.next_offset, position + batch.size
            yield batch
        self._is_indexed = True
        if end < self.size:
            os.ftruncate(self.fd, end)
            self.size = end

    def read(self, offset: int, bytes_max: int, *, whole_first: bool) -> bytes:
        """Return batches from the one that holds ``offset``; the last may be cut off.

        The first is returned whole if ``whole_first``; otherwise nothing is returned if it is too large.
        """
        position = self._position_of(offset)
        if position is None:
            return b""
        data = os.pread(self.fd, min(bytes_max, self.size - position), position)
        size = self._head_at(position).size
        if len(data) >= size:
            return data
        return os.pread(self.fd, size, position) if whole_first else b""

    def offset_of_time(self, timestamp_ms: int) -> tuple[int, int] | None:
        """Return the first batch that has a record of this time or later: its first offset, and its last time."""
        late = (batch for _, batch in self.batches() if batch.max_timestamp >= timestamp_ms)
        batch = next(late, None)
        return (batch.base_offset, batch.max_timestamp) if batch else None

    def sync(self) -> None:
        """Let the kernel write the file to the disk. Blocks."""
        os.fdatasync(self.fd) if hasattr(os, "fdatasync") else os.fsync(self.fd)

    def delete(self) -> None:
        """Delete the file."""
        self.path.unlink(missing_ok=True)
        os.close(self.fd)

    def _head_at(self, position: int) -> BatchHead:
        return BatchHead._make(BATCH_HEAD.unpack(os.pread(self.fd, BATCH_HEAD.size, position)))

    def _position_of(self, offset: int) -> int | None:
        """Return where the batch that holds the offset, or the next one, begins."""
        if not self._is_indexed:
            for position, batch in self.batches():
                self._index(batch.base_offset, position)
            self._is_indexed = True
        entry = bisect_right(self._offsets, offset) - 1
        position = self._positions[entry] if entry >= 0 else 0
        while position + BATCH_HEAD.size <= self.size:
            batch = self._head_at(position)
            if offset < batch.next_offset:
                return position
            position += batch.size
        return None

    def _index(self, offset: int, position: int) -> None:
        if not self._positions or position >= self._positions[-1] + INDEX_BYTES:
            self._offsets.append(offset)
            self._positions.append(position)


@dataclass(slots=True)
class _Producer:
    """What an idempotent producer has appended last: its epoch, and sequences and offset of each batch."""

    epoch: int
    batches: deque[tuple[int, int, int]] = field(default_factory=lambda: deque(maxlen=BATCHES_REMEMBERED))


class PartitionLog:
    """The segments of a partition, the last of which is appended to."""

    def __init__(self, directory: Path, *, segment_bytes: int) -> None:
        """Read what is on disk. Blocks."""
        directory.mkdir(parents=True, exist_ok=True)
        self._directory = directory
        self._segment_bytes = segment_bytes
        self._producers: OrderedDict[int, _Producer] = OrderedDict()
        self.waiting: set[asyncio.Event] = set()
        """The fetches that wait for records."""
        bases = sorted(int(path.stem) for path in directory.glob("*.log")) or [0]
        self._segments = [Segment(directory, base) for base in bases]
        for older, newer in zip(self._segments, self._segments[1:], strict=False):
            older.next_offset = newer.base_offset
        for segment in self._segments[-2:]:  # the last one may be empty, and repeated batches be in the one before
            for batch in segment.recover() if segment is self._segments[-1] else (b for _, b in segment.batches()):
                self._remember(batch, batch.base_offset)
        self._first_offset_file = directory / "first-offset"
        kept = int(self._first_offset_file.read_text()) if self._first_offset_file.exists() else 0
        self.first_offset = max(kept, self._segments[0].base_offset)

    @property
    def end(self) -> int:
        """The offset after the last record."""
        return self._segments[-1].next_offset

    @property
    def size(self) -> int:
        """Bytes on disk."""
        return sum(segment.size for segment in self._segments)

    def append(self, data: memoryview, *, bytes_max: int) -> int:
        """Append a batch; return the offset of its first record. Raises ``BatchRefused`` and ``OSError``."""
        batch = read_batch(data, bytes_max=bytes_max)
        repeated_offset = self._require_sequence(batch)
        if repeated_offset is not None:
            return repeated_offset
        if self._segments[-1].size + len(data) > self._segment_bytes:
            self.roll()
        base_offset = self.end
        self._segments[-1].append(batch, data)
        self._remember(batch, base_offset)
        for event in self.waiting:
            event.set()
        return base_offset

    def read(self, offset: int, bytes_max: int, *, whole_first: bool) -> bytes:
        """Return batches from one segment (``Segment.read``); nothing at the end."""
        index = bisect_right(self._segments, offset, key=lambda segment: segment.base_offset) - 1
        return self._segments[max(index, 0)].read(offset, bytes_max, whole_first=whole_first)

    def offset_of_time(self, timestamp_ms: int) -> tuple[int, int] | None:
        """Return the first batch that has a record of this time or later: its first offset, and its last time."""
        return next(filter(None, (segment.offset_of_time(timestamp_ms) for segment in self._segments)), None)

    def roll(self) -> None:
        """Begin a new segment, unless the last one is empty."""
        if self._segments[-1].size:
            self._segments.append(Segment(self._directory, self.end))

    def roll_if_older(self, written_after_s: float) -> None:
        """Begin a new segment if the last one was begun before that time, so that it can be deleted later."""
        if self._segments[-1].begun_s < written_after_s:
            self.roll()

    def delete_before(self, offset: int) -> None:
        """Delete the records before an offset; they are gone also for readers between two segments."""
        self._first_offset_file.write_text(str(offset))
        self.first_offset = offset
        if offset == self.end:
            self.roll()
        while self.oldest_until() is not None and self._segments[0].next_offset <= offset:
            self.delete_oldest()

    def oldest_until(self) -> tuple[int, float] | None:
        """Return the next offset and the last write of the oldest segment, unless that is the only one."""
        oldest = self._segments[0]
        return (oldest.next_offset, oldest.written_s) if len(self._segments) > 1 else None

    def delete_oldest(self) -> None:
        """Delete the oldest segment."""
        self._segments.pop(0).delete()
        self.first_offset = max(self.first_offset, self._segments[0].base_offset)

    def take_unsynced(self) -> list[Segment]:
        """Return the segments with bytes that the kernel may not have written yet; they count as synced from now on."""
        unsynced = [segment for segment in self._segments if not segment.is_synced]
        for segment in unsynced:
            segment.is_synced = True
        return unsynced

    def delete(self) -> None:
        """Delete everything."""
        for segment in self._segments:
            segment.delete()
        self._first_offset_file.unlink(missing_ok=True)
        self._directory.rmdir()
        for event in self.waiting:
            event.set()

    def _require_sequence(self, batch: BatchHead) -> int | None:
        """Return the offset of a batch that is repeated; ``None`` for the next one. Raises ``BatchRefused``."""
        producer = self._producers.get(batch.producer_id) if batch.producer_id >= 0 else None
        if producer is None:
            return None
        if batch.producer_epoch < producer.epoch:
            raise BatchRefused(Error.INVALID_PRODUCER_EPOCH, f"The producer has begun epoch {producer.epoch}.")
        expected = 0
        if batch.producer_epoch == producer.epoch:
            last = (batch.base_sequence + batch.last_offset_delta) % SEQUENCE_END
            for first_known, last_known, offset in producer.batches:
                if (first_known, last_known) == (batch.base_sequence, last):
                    return offset
            expected = (producer.batches[-1][1] + 1) % SEQUENCE_END
        if batch.base_sequence != expected:
            raise BatchRefused(
                Error.OUT_OF_ORDER_SEQUENCE_NUMBER, f"Sequence {batch.base_sequence} instead of {expected}."
            )
        return None

    def _remember(self, batch: BatchHead, offset: int) -> None:
        if batch.producer_id < 0:
            return
        producer = self._producers.get(batch.producer_id)
        if producer is None or producer.epoch != batch.producer_epoch:
            producer = self._producers[batch.producer_id] = _Producer(batch.producer_epoch)
        last = (batch.base_sequence + batch.last_offset_delta) % SEQUENCE_END
        producer.batches.append((batch.base_sequence, last, offset))
        self._producers.move_to_end(batch.producer_id)
        if len(self._producers) > PRODUCERS_MAX:
            self._producers.popitem(last=False)
