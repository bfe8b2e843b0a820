"""What the worker knows of each partition: which offsets may be committed, and whether the partition is held."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable

from common.kafka.record import Partition, Record
from common.readiness import Readiness
from common.telemetry import PARTITIONS_HELD, get_logger

_log = get_logger(__name__)


class Ledger:
    """Records that were taken and are not committed yet, per partition, in offset order.

    Offsets may have gaps (compaction, transactions): only records that were taken hold back the committable offset. A
    record is done when its spans are stored and its rejected spans are dead-lettered (ADR 0004).
    """

    def __init__(self) -> None:
        self._taken: dict[Partition, deque[int]] = {}
        self._done: dict[Partition, set[int]] = {}
        self._committable: dict[Partition, int] = {}

    def take(self, record: Record) -> None:
        """Let this record hold back the committable offset of its partition."""
        self._taken.setdefault(record.source, deque()).append(record.next_offset)

    def mark_done(self, records: Iterable[Record]) -> None:
        """Note that these records are done. Records that were forgotten meanwhile are ignored."""
        touched: set[Partition] = set()
        for record in records:
            if record.source in self._taken:
                self._done.setdefault(record.source, set()).add(record.next_offset)
                touched.add(record.source)
        for partition in touched:
            self._advance(partition)

    def committable(self) -> dict[Partition, int]:
        """Return the next offset to commit per partition: every record below it is done.

        A slow record is read again after a crash, never skipped. Partitions without progress are absent. Call
        ``committed`` only after Kafka has acknowledged.
        """
        return dict(self._committable)

    def committed(self, committable: dict[Partition, int]) -> None:
        """Note that Kafka has acknowledged these offsets. Offsets that advanced meanwhile stay due."""
        for partition, next_offset in committable.items():
            if self._committable.get(partition) == next_offset:
                del self._committable[partition]

    def forget_all(self) -> None:
        """Forget everything: other members may own the partitions. What was not committed is read again."""
        for offsets in (self._taken, self._done, self._committable):
            offsets.clear()

    def _advance(self, partition: Partition) -> None:
        taken, done = self._taken[partition], self._done[partition]
        while taken and taken[0] in done:
            next_offset = taken.popleft()
            done.discard(next_offset)
            self._committable[partition] = next_offset


class Streaks:
    """Counts consecutive records that cannot be decoded and name no project; past ``streak_max`` their partition is
    held.

    A long streak means that the encoding of the topic is set wrongly. Nothing more of a held partition is
    dead-lettered: its offset stays, somebody has to look, and a restart tries again. A record of a known project never
    counts, whatever is rejected of it, so that no project can stop the others on its partition.
    """

    def __init__(self, *, streak_max: int, readiness: Readiness) -> None:
        self._streak_max = streak_max
        self._readiness = readiness
        self._counts: dict[Partition, int] = {}
        self._held: set[Partition] = set()

    @property
    def held(self) -> frozenset[Partition]:
        """The partitions of which no more records are taken."""
        return frozenset(self._held)

    def admits(self, partition: Partition, *, is_undecodable: bool) -> bool:
        """Return whether the next record may be processed. Call it once per record, in order; a good record ends the
        streak.
        """
        if partition in self._held:
            return False
        if not is_undecodable:
            self._counts.pop(partition, None)
            return True
        count = self._counts.get(partition, 0) + 1
        self._counts[partition] = count
        if count > self._streak_max:
            self._hold(partition)
            return False
        return True

    def forget_all(self) -> None:
        """Forget everything: other members may own the partitions. A partition that comes back starts anew."""
        for partition in self._held:
            self._readiness.green(_component(partition))
            PARTITIONS_HELD.labels(partition.topic, str(partition.partition)).set(0)
        self._counts.clear()
        self._held.clear()

    def _hold(self, partition: Partition) -> None:
        self._held.add(partition)
        PARTITIONS_HELD.labels(partition.topic, str(partition.partition)).set(1)
        reason = (
            f"More than {self._streak_max} records in a row cannot be decoded and name no project; no more records"
            " are taken from the partition. Is the encoding of its topic right?"
        )
        self._readiness.red(_component(partition), reason)
        _log.error(
            "The partition is held: its offset stays where it is.",
            topic=partition.topic,
            partition=partition.partition,
            reason=reason,
        )


def _component(partition: Partition) -> str:
    return f"{partition.topic}/{partition.partition}"
