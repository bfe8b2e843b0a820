"""Records that were polled and are in no chunk yet: when they make one. Pure book-keeping, time is passed in."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable
from typing import Final

from common.kafka.record import Record
from common.limits import MIB

CHUNK_BYTES: Final = MIB
"""A chunk ends with the record that brings it here: what is opened and not yet in a batch stays small."""

CHUNK_RECORDS_MAX: Final = 1_000


class Waiting:
    """A queue of records. A chunk is due at so many bytes or records, or when its first record has waited ``linger_s``.

    The rows of a chunk cost as much as fifty spans before the first one is made: a chunk a record would be the
    whole work of a worker that gets its spans one by one.
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
        """When those that are here have waited long enough."""
        return self.since_s + self._linger_s

    def is_due(self, *, now_s: float) -> bool:
        """Whether it is time to open a chunk."""
        return self.is_whole or (bool(self._records) and now_s >= self.due_s)

    def extend(self, records: Iterable[Record], *, now_s: float) -> None:
        """These came now; ``since_s`` is when the first of those that wait came."""
        if not self._records:
            self.since_s = now_s
        for record in records:
            self._records.append(record)
            self._bytes_count += _size(record)

    def take(self, *, now_s: float) -> list[Record]:
        """The next chunk, of one record at least; those behind it begin to wait now. There must be a record."""
        taken: list[Record] = []
        bytes_count = 0
        while self._records and bytes_count < CHUNK_BYTES and len(taken) < CHUNK_RECORDS_MAX:
            taken.append(self._records.popleft())
            bytes_count += _size(taken[-1])
        self._bytes_count -= bytes_count
        self.since_s = now_s
        return taken

    def clear(self) -> None:
        """Let go of all of them."""
        self._records.clear()
        self._bytes_count = 0


def _size(record: Record) -> int:
    return len(record.value or b"")
