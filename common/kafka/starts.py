"""Where a worker begins to read a partition, and what it can no longer read there (ADR 0027).

The offset that a group has committed may be outside of what Kafka holds: retention has deleted records that were not
read, the log was truncated, or the topic was deleted and created again. Kafka itself reports only that the offset is
out of range, and not even that once the new topic is long enough. So a worker commits the id of the topic together with
each offset, and compares both when it gets the partition.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import NamedTuple

from aiokafka import AIOKafkaConsumer, TopicPartition

from common.kafka.record import Gap, GapCause, Partition


class CommittedOffset(NamedTuple):
    """What a group has committed in a partition; ``topic_id`` is empty if it was committed without one."""

    offset: int
    topic_id: str = ""


class Start(NamedTuple):
    """The offset from which a partition is read, and what is missing before it."""

    offset: int
    gap: Gap | None = None


def start_of(
    partition: Partition,
    committed: CommittedOffset | None,
    held: range,
    *,
    topic_id: str,
    is_new: bool = False,
) -> Start:
    """Return where to begin. ``held`` are the offsets from the first record of the partition to its end.

    ``is_new`` says that the topic was just found to have been created again, in which case Kafka may have deleted what
    was committed. A group that has committed nothing begins at the first record, and misses nothing.
    """
    is_older = committed is not None and committed.topic_id not in ("", topic_id) and topic_id != ""
    if is_older or (is_new and (committed is None or not committed.topic_id)):
        return Start(
            held.start, Gap(partition, committed.offset if committed else 0, None, GapCause.CREATED_AGAIN, topic_id)
        )
    if committed is None:
        return Start(held.start)
    if committed.offset < held.start:
        return Start(held.start, Gap(partition, committed.offset, held.start, GapCause.DELETED, topic_id))
    if committed.offset > held.stop:
        return Start(held.start, Gap(partition, held.stop, committed.offset, GapCause.TRUNCATED, topic_id))
    return Start(committed.offset)


async def read_held(consumer: AIOKafkaConsumer, partitions: Collection[TopicPartition]) -> dict[TopicPartition, range]:
    """Return the offsets that each partition holds. Raises the errors of the driver."""
    firsts = await consumer.beginning_offsets(list(partitions))
    ends = await consumer.end_offsets(list(partitions))
    return {at: range(firsts[at], max(firsts[at], ends[at])) for at in partitions}


async def read_committed(
    consumer: AIOKafkaConsumer, partitions: Collection[TopicPartition]
) -> Mapping[TopicPartition, CommittedOffset]:
    """Return what the consumer's group has committed; partitions without a commit are absent.

    ``AIOKafkaConsumer.committed`` does not return what was committed with the offset. Raises the errors of the driver.
    """
    found = await consumer._coordinator.fetch_committed_offsets(list(partitions))
    return {at: CommittedOffset(each.offset, each.metadata or "") for at, each in found.items()}
