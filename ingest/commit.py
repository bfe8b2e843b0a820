"""Which offsets may be committed: everything below the watermark is durable or buried.

Pure book-keeping, no I/O. “Settled” means written and, where refused, buried; the order law (ADR 0004) stands in
``ingest/settle.py``.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable

from common.kafka.record import Partition, Record


class Ledger:
    """Records that were taken and are not committed yet, per partition, in offset order.

    Offsets may have holes (compaction, transactions): only records that were taken hold the watermark.
    """

    def __init__(self) -> None:
        self._taken: dict[Partition, deque[int]] = {}
        self._settled: dict[Partition, set[int]] = {}
        self._watermark: dict[Partition, int] = {}

    def take(self, record: Record) -> None:
        """From now on this record holds the watermark of its partition."""
        self._taken.setdefault(record.source, deque()).append(record.next_offset)

    def settle(self, records: Iterable[Record]) -> None:
        """These are durable or buried. Records that were forgotten meanwhile are ignored."""
        touched: set[Partition] = set()
        for record in records:
            if record.source in self._taken:
                self._settled.setdefault(record.source, set()).add(record.next_offset)
                touched.add(record.source)
        for partition in touched:
            self._advance(partition)

    def watermark(self) -> dict[Partition, int]:
        """Next offset to commit per partition: everything below it is settled.

        A gap holds it back, so a slow record is read again after a crash, never skipped. Partitions with nothing newly
        settled are absent. Call ``committed`` only after Kafka has acknowledged.
        """
        return dict(self._watermark)

    def committed(self, watermark: dict[Partition, int]) -> None:
        """Kafka has acknowledged these; what moved on meanwhile stays due."""
        for partition, next_offset in watermark.items():
            if self._watermark.get(partition) == next_offset:
                del self._watermark[partition]

    def forget_all(self) -> None:
        """The partitions may belong to somebody else by now; what was not committed will be read again."""
        for book in (self._taken, self._settled, self._watermark):
            book.clear()

    def _advance(self, partition: Partition) -> None:
        taken, settled = self._taken[partition], self._settled[partition]
        while taken and taken[0] in settled:
            next_offset = taken.popleft()
            settled.discard(next_offset)
            self._watermark[partition] = next_offset
