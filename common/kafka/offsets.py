"""End offsets of the topics that the worker reads, what its group has not committed yet, and how to move it back.

All of it works from outside of the group. End offsets are high watermarks: they include open transactions.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Collection, Mapping
from contextlib import AsyncExitStack
from dataclasses import dataclass
from typing import Final, NamedTuple

from aiokafka import AIOKafkaConsumer, OffsetAndMetadata, TopicPartition
from aiokafka.admin import AIOKafkaAdminClient

from common.errors import ServiceError
from common.kafka.cluster import describe_partitions, open_admin, partitions_of
from common.kafka.driver import open_reader, translated
from common.kafka.record import LostPartition, Partition
from common.kafka.topics import ClusterTopics, read_topics
from common.settings import KafkaSettings

CONNECTION_AGE_MAX_S: Final = 60.0
"""A new partition is noticed within this time."""


async def uncommitted_count(settings: KafkaSettings, topics: Collection[str]) -> int:
    """Count the records of ``topics`` that ``settings.group`` has not committed. Raises ``Unavailable`` (transient)."""
    return sum((await uncommitted(settings, topics)).values())


async def uncommitted(settings: KafkaSettings, topics: Collection[str]) -> dict[Partition, int]:
    """Count the same by partition; partitions without any are absent. Raises ``Unavailable`` (transient)."""
    partitions = await partitions_of(settings, topics)
    async with open_reader(settings, group=settings.group, isolation_level="read_uncommitted") as reader:
        with translated("read the group's offsets"):
            async with asyncio.timeout(settings.request_timeout_s):
                ends = await reader.end_offsets(partitions)
                counts = {at: end - (await reader.committed(at) or 0) for at, end in ends.items()}
    return {Partition(at.topic, at.partition): count for at, count in counts.items() if count > 0}


class MovedBack(NamedTuple):
    """A partition whose committed offset is beyond what is stored."""

    partition: Partition
    committed_offset: int
    """The next offset that the group would have read."""
    next_offset: int
    """The next offset that it reads instead."""
    gone_count: int
    """Records between that Kafka no longer has."""


async def move_back(
    settings: KafkaSettings, stored_through: Mapping[str, int], /, *, dry_run: bool = False
) -> list[MovedBack]:
    """Let the group read again what it has committed beyond ``stored_through``; return what was moved, in order.

    ``stored_through`` has the last stored offset of each partition id; nothing is stored of other partitions. The group
    is never moved forward. Raises ``ServiceError`` if the group has members, and ``Unavailable`` (transient).
    """
    async with open_admin(settings) as admin:
        with translated("ask for topic ids"):
            async with asyncio.timeout(settings.request_timeout_s):
                topics = await read_topics(admin._client, sorted(settings.topics))
        partitions = await describe_partitions(admin, settings, settings.topics)
    async with open_reader(settings, group=settings.group) as reader:
        with translated("read the group's offsets"):
            async with asyncio.timeout(settings.request_timeout_s):
                firsts = await reader.beginning_offsets(partitions)
                committed = {at: await reader.committed(at) or 0 for at in partitions}
        moved = {}
        for at in partitions:
            partition = Partition(at.topic, at.partition)
            wanted = stored_through.get(topics.partition_id(partition), -1) + 1
            if wanted < committed[at]:
                first = min(firsts[at], committed[at])
                moved[at] = MovedBack(partition, committed[at], max(wanted, first), max(0, first - wanted))
        if moved and not dry_run:
            # With the id of the topic, so that workers notice if it is created again (ADR 0027).
            offsets = {
                at: OffsetAndMetadata(each.next_offset, topics.topic_ids.get(at.topic, ""))
                for at, each in moved.items()
            }
            await _commit(reader, settings, offsets)
    return list(moved.values())


async def _commit(
    reader: AIOKafkaConsumer, settings: KafkaSettings, offsets: Mapping[TopicPartition, OffsetAndMetadata]
) -> None:
    """Commit for a group without members, which is the only one that accepts it."""
    reader.assign(list(offsets))
    try:
        with translated("commit"):
            async with asyncio.timeout(settings.request_timeout_s):
                await reader.commit(dict(offsets))
    except LostPartition as exc:
        raise ServiceError(
            f"The group {settings.group} has members: stop every `clearspan ingest`, and wait until Kafka has noticed"
            f" ({settings.session_timeout_s:g} s after a worker was killed)."
        ) from exc


@dataclass(frozen=True, slots=True)
class _Connection:
    admin: AIOKafkaAdminClient
    reader: AIOKafkaConsumer
    topics: ClusterTopics
    partitions: list[TopicPartition]
    opened_s: float
    resources: AsyncExitStack


class KafkaEndOffsets:
    """``EndOffsets`` of ``settings.topics``, over a connection that stays open. One call at a time.

    The connection is closed after ``CONNECTION_AGE_MAX_S`` and after any failure. A cluster that was replaced by a new
    one at the same address starts all offsets at 0, and so does a topic that is created again; the driver notices
    neither. So every call also asks for the ids of the cluster and of the topics.
    """

    def __init__(self, settings: KafkaSettings) -> None:
        self._settings = settings
        self._connection: _Connection | None = None

    async def ask(self) -> Mapping[str, int]:
        """Return the end offset of each partition, by partition id. Raises ``Unavailable`` (transient)."""
        if self._connection is not None and time.monotonic() - self._connection.opened_s > CONNECTION_AGE_MAX_S:
            await self.close()
        try:
            with translated("ask for end offsets"):
                async with asyncio.timeout(self._settings.request_timeout_s):
                    return await self._ask()
        except BaseException:
            await self.close()
            raise

    async def close(self) -> None:
        """Close the connection. Safe to call twice."""
        connection, self._connection = self._connection, None
        if connection is not None:
            with translated("close"):
                await connection.resources.aclose()

    async def _ask(self) -> Mapping[str, int]:
        while True:
            connection = self._connection or await self._connect()
            ends = await connection.reader.end_offsets(connection.partitions)
            # Asked after the offsets, so that the ids are valid for them.
            if await self._topics(connection.admin) == connection.topics:
                return {
                    connection.topics.partition_id(Partition(at.topic, at.partition)): end for at, end in ends.items()
                }
            await self.close()

    async def _connect(self) -> _Connection:
        async with AsyncExitStack() as opening:
            admin = await opening.enter_async_context(open_admin(self._settings))
            topics = await self._topics(admin)
            partitions = await partitions_of(self._settings, self._settings.topics)
            reader = await opening.enter_async_context(open_reader(self._settings, isolation_level="read_uncommitted"))
            self._connection = _Connection(admin, reader, topics, partitions, time.monotonic(), opening.pop_all())
        return self._connection

    async def _topics(self, admin: AIOKafkaAdminClient) -> ClusterTopics:
        return await read_topics(admin._client, sorted(self._settings.topics))
