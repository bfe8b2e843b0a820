"""The records between the poll and the batch: waiting for a chunk, being decoded, decoded."""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable, Iterable
from typing import Final, NamedTuple

from common.kafka.record import Partition, Record
from common.limits import MIB
from ingest.decoding.chunk import Chunk, ChunkRecord, DecodedChunk, records_of
from ingest.decoding.decoder import Decoder
from ingest.masking.dead_letters import NO_MASKING, Masking

CHUNK_BYTES: Final = MIB
"""The record that reaches this size ends a chunk: what is decoded and not yet in a batch stays small."""

CHUNK_RECORDS_MAX: Final = 1_000

DECODING_BYTES_MAX: Final = 8 * MIB
"""With as many bytes the decoder takes no further chunk: decoded, a span of 4 MiB takes five times as much."""


class WaitingRecords:
    """Polled records that are in no chunk yet. Pure book-keeping; times are passed in.

    A chunk is due at ``CHUNK_BYTES``, at ``CHUNK_RECORDS_MAX``, or when its first record has waited ``linger_s``. The
    table of a chunk costs as much as fifty spans before its first row: with one chunk per record, a worker that gets
    its spans one by one would do little else.
    """

    def __init__(self, *, linger_s: float) -> None:
        self._linger_s = linger_s
        self._records: deque[Record] = deque()
        self._bytes_count = 0
        self.since_s = 0.0

    def __len__(self) -> int:
        return len(self._records)

    @property
    def is_whole(self) -> bool:
        """Whether there is enough for a chunk."""
        return self._bytes_count >= CHUNK_BYTES or len(self._records) >= CHUNK_RECORDS_MAX

    @property
    def due_s(self) -> float:
        """When the records have waited long enough."""
        return self.since_s + self._linger_s

    def is_due(self, *, now_s: float) -> bool:
        """Return whether it is time to decode a chunk."""
        return self.is_whole or (bool(self._records) and now_s >= self.due_s)

    def extend(self, records: Iterable[Record], *, now_s: float) -> None:
        """Add records that arrived now; ``since_s`` is when the first waiting record arrived."""
        if not self._records:
            self.since_s = now_s
        for record in records:
            self._records.append(record)
            self._bytes_count += _size(record)

    def take(self, *, now_s: float) -> list[Record]:
        """Return the next chunk, of at least one record; the records after it start to wait now. There must be a
        record.
        """
        taken: list[Record] = []
        bytes_count = 0
        while self._records and bytes_count < CHUNK_BYTES and len(taken) < CHUNK_RECORDS_MAX:
            taken.append(self._records.popleft())
            bytes_count += _size(taken[-1])
        self._bytes_count -= bytes_count
        self.since_s = now_s
        return taken

    def clear(self) -> None:
        """Forget all records."""
        self._records.clear()
        self._bytes_count = 0


def _size(record: Record) -> int:
    return len(record.value or b"")


class Decoding(NamedTuple):
    """A chunk that is being decoded. ``came_s`` is when its first record arrived, ``begun_s`` when decoding began."""

    chunk: Chunk
    came_s: float
    begun_s: float
    task: asyncio.Task[DecodedChunk]
    bytes_count: int


class DecodingQueue:
    """Keeps the decoder busy and returns its chunks in the order in which they were sent."""

    def __init__(self, decoder: Decoder, *, linger_s: float) -> None:
        self.waiting = WaitingRecords(linger_s=linger_s)
        self.decoded: deque[ChunkRecord] = deque()
        self.decoded_came_s = 0.0
        """When the first record of the chunk in ``decoded`` arrived."""
        self._decoder = decoder
        self._decodings: deque[Decoding] = deque()

    @property
    def is_decoding(self) -> bool:
        """Whether any chunk is with the decoder."""
        return bool(self._decodings)

    @property
    def is_busy(self) -> bool:
        """Whether the decoder is still working on a chunk."""
        return any(not decoding.task.done() for decoding in self._decodings)

    @property
    def is_empty(self) -> bool:
        """Whether it holds no record."""
        return not (self.waiting or self._decodings or self.decoded)

    @property
    def first(self) -> Decoding:
        """The chunk that is received next. There must be one."""
        return self._decodings[0]

    @property
    def has_room(self) -> bool:
        """Whether the decoder takes a further chunk."""
        bytes_count = sum(decoding.bytes_count for decoding in self._decodings)
        return len(self._decodings) < self._decoder.chunks_max and bytes_count < DECODING_BYTES_MAX

    def send_due(
        self,
        tasks: asyncio.TaskGroup,
        partition_id_of: Callable[[Partition], str],
        *,
        now_s: float,
        now_ns: int,
        masking: Masking = NO_MASKING,
        is_last: bool = False,
    ) -> None:
        """Send the chunks that are due, as many as the decoder takes. After the last poll everything is due."""
        while self.has_room and (self.waiting.is_due(now_s=now_s) or (is_last and self.waiting)):
            came_s = self.waiting.since_s
            records = self.waiting.take(now_s=now_s)
            partition_ids = {
                partition: partition_id_of(partition) for partition in {record.source for record in records}
            }
            chunk = Chunk(records, partition_ids, now_ns, masking=masking)
            self._decodings.append(self._begun(chunk, tasks, came_s=came_s, now_s=now_s))

    def decode_again(self, chunk: Chunk, tasks: asyncio.TaskGroup, *, now_s: float) -> None:
        """Decode ``chunk`` in place of the first one."""
        self._decodings[0] = self._begun(chunk, tasks, came_s=self.first.came_s, now_s=now_s)

    def accept(self, decoded: DecodedChunk) -> None:
        """Move the first chunk, which is decoded, to ``decoded``."""
        chunk, self.decoded_came_s, *_ = self._decodings.popleft()
        self.decoded.extend(records_of(chunk, decoded))

    def clear(self) -> None:
        """Forget all records, and cancel what is being decoded."""
        self.waiting.clear()
        self.decoded.clear()
        while self._decodings:
            self._decodings.popleft().task.cancel()

    def _begun(self, chunk: Chunk, tasks: asyncio.TaskGroup, *, came_s: float, now_s: float) -> Decoding:
        task = tasks.create_task(self._decoder.decode(chunk), name="decode")
        return Decoding(chunk, came_s, now_s, task, sum(map(_size, chunk.records)))
