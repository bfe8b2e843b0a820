"""Up to which time everything that Kafka had taken is queryable, partition by partition. Pure.

Of a log that is stored to its end, as far as that was asked: the time of asking. Of one that is not: the timestamp of the
last record that is stored, because what Kafka took before it lies before it. Clocks are those of who asks and of who
produced.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import NamedTuple

from common.kafka.record import Partition
from query_api.freshness.end_offsets import EndOffsetsRead
from query_api.freshness.stored import Through


class PartitionState(NamedTuple):
    """One partition: where it ends, how far it is stored, and the time up to which it is complete; ``None``: not known."""

    partition: Partition
    partition_id: str
    end: int
    stored: Through | None
    through_us: int | None

    @property
    def behind_records(self) -> int:
        """Records that are in Kafka and not queryable yet."""
        return max(0, self.end - (self.stored.offset + 1 if self.stored is not None else 0))


def through_us(ends: EndOffsetsRead, stored: Mapping[str, Through]) -> int | None:
    """Microseconds since 1970 up to which every partition is complete; ``None`` where of one that is not known.

    ``stored`` is what is known of ``ALL_PROJECTS``. Every answer says it: half a microsecond a partition.
    """
    earliest_us: int | None = None
    for partition_id, end in ends.offsets.items():
        time_us = _complete_us(end, stored.get(partition_id), asked_us=ends.asked_us)
        if time_us is None:
            return None
        if earliest_us is None or time_us < earliest_us:
            earliest_us = time_us
    return earliest_us


def partition_states(ends: EndOffsetsRead, stored: Mapping[str, Through]) -> list[PartitionState]:
    """Every partition, in the order of topics and numbers."""
    return sorted(
        _state(partition_id, end, stored.get(partition_id), asked_us=ends.asked_us)
        for partition_id, end in ends.offsets.items()
    )


def _state(partition_id: str, end: int, stored: Through | None, *, asked_us: int) -> PartitionState:
    _cluster, topic, number = partition_id.rsplit("/", 2)
    complete_us = _complete_us(end, stored, asked_us=asked_us)
    return PartitionState(Partition(topic, int(number)), partition_id, end, stored, complete_us)


def _complete_us(end: int, stored: Through | None, *, asked_us: int) -> int | None:
    if stored is None:
        return asked_us if end == 0 else None
    # A producer whose clock is ahead promises nothing.
    stored_us = min(stored.record_ms * 1_000, stored.stored_us) if stored.record_ms >= 0 else None
    if stored.offset + 1 < end:
        return stored_us
    return asked_us if stored_us is None else max(asked_us, stored_us)


def asked_through_us(answers: Iterable[EndOffsetsRead], stored: Mapping[str, Through]) -> int | None:
    """Return the latest time of asking at which Kafka held nothing that is not stored now; ``None`` if there is none.

    What ``through_us`` is for a caller who may not see all projects: no timestamp of a record is in it. ``answers``: the latest first.
    """
    return next((ends.asked_us for ends in answers if _is_all_stored(ends, stored)), None)


def _is_all_stored(ends: EndOffsetsRead, stored: Mapping[str, Through]) -> bool:
    return all(
        end == 0 or ((through := stored.get(partition_id)) is not None and through.offset + 1 >= end)
        for partition_id, end in ends.offsets.items()
    )
