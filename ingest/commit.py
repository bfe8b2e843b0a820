"""Which offsets may be committed: everything below the committable is durable or buried.

Pure book-keeping, no I/O. “StoredPosition” means written and, where refused, buried; the order law (ADR 0004) stands in
``ingest/flush.py``.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable

from common.kafka.record import Partition, Record


class Ledger:
    """Records that were taken and are not committed yet, per partition, in offset order.

    Offsets may have holes (compaction, transactions): only records that were taken hold the committable.
    """

    def __init__(self) -> None:
        self._taken: dict[Partition, deque[int]] = {}
        self._done: dict[Partition, set[int]] = {}
        self._committable: dict[Partition, int] = {}

    def take(self, record: Record) -> None:
        """From now on this record holds the committable of its partition."""
        self._taken.setdefault(record.source, deque()).append(record.next_offset)

    def mark_done(self, records: Iterable[Record]) -> None:
        """These are durable or buried. Records that were forgotten meanwhile are ignored."""
        touched: set[Partition] = set()
        for record in records:
            if record.source in self._taken:
                self._done.setdefault(record.source, set()).add(record.next_offset)
                touched.add(record.source)
        for partition in touched:
            self._advance(partition)

    def committable(self) -> dict[Partition, int]:
        """Next offset to commit per partition: everything below it is done.

        A gap holds it back, so a slow record is read again after a crash, never skipped. Partitions with nothing newly
        done are absent. Call ``committed`` only after Kafka has acknowledged.
        """
        return dict(self._committable)

    def committed(self, committable: dict[Partition, int]) -> None:
        """Kafka has acknowledged these; what moved on meanwhile stays due."""
        for partition, next_offset in committable.items():
            if self._committable.get(partition) == next_offset:
                del self._committable[partition]

    def forget_all(self) -> None:
        """The partitions may belong to somebody else by now; what was not committed will be read again."""
        for book in (self._taken, self._done, self._committable):
            book.clear()

    def _advance(self, partition: Partition) -> None:
        taken, done = self._taken[partition], self._done[partition]
        while taken and taken[0] in done:
            next_offset = taken.popleft()
            done.discard(next_offset)
            self._committable[partition] = next_offset
