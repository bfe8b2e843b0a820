"""Consuming records: a ``RecordSource`` on the driver's consumer group.

Facts about the driver (aiokafka 0.14) on which this relies:

- Its rebalance is eager: ``on_partitions_revoked`` gets all partitions and is awaited, with heartbeats, before the
  join.
- During a rebalance ``getmany`` waits regardless of its timeout, so it is not called then, and has a deadline.
- ``getmany`` does not suspend between taking records and returning them, so a deadline around it loses none.
- It buffers at most one response per partition, so not polling stops the fetches. Polling for a partition that does
  not exist keeps the membership alive and keeps the buffer, which its own ``pause`` discards.
- ``commit`` retries forever, so it has a deadline.
"""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence
from typing import Final

from aiokafka import AIOKafkaConsumer, ConsumerRebalanceListener, ConsumerRecord, TopicPartition
from typing_extensions import override

from common.errors import Unavailable
from common.kafka.cluster import read_cluster_id
from common.kafka.driver import ended, prepare_driver, started, translated
from common.kafka.record import Partition, Rebalanced, Record
from common.settings import KafkaSettings

REBALANCE_TIMEOUT_S: Final = 60.0
"""How long a rebalance waits for a member to revoke its partitions; ``on_revoked`` must be done well before."""

MAX_POLL_INTERVAL_S: Final = 300.0
FETCH_BYTES_MAX: Final = 32 * 1024 * 1024
"""Limit of one response for all partitions. A larger record still arrives, alone."""

FRAME_BYTES: Final = 16 * 1024
"""Added to ``message_bytes_max`` for the batch header, the key and the headers."""

NO_TIMESTAMP_MS: Final = -1
"""Kafka's own timestamp of a record that has none (message format 0)."""

_NOWHERE: Final = TopicPartition("", 0)


class KafkaSource(ConsumerRebalanceListener):  # type: ignore[misc] # the driver ships no types
    """A member of the group ``settings.group``, subscribed to ``settings.topics``. One open at a time."""

    def __init__(self, settings: KafkaSettings) -> None:
        self._settings = settings
        self._consumer: AIOKafkaConsumer | None = None
        self._assigned = asyncio.Event()
        self._paused = False
        self._cluster_id = ""
        self._failure: Unavailable | None = None

    async def open(self, *, on_revoked: Rebalanced, on_assigned: Rebalanced) -> None:
        """Join the group. ``on_revoked`` is awaited before the partitions go to another member."""
        prepare_driver()
        await self.close()
        self._cluster_id = await read_cluster_id(self._settings)
        with translated("join the group"):
            consumer = self._new_consumer()
            self._consumer = consumer
            self._on_revoked, self._on_assigned = on_revoked, on_assigned
            consumer.subscribe(topics=list(self._settings.topics), listener=self)
            try:
                async with asyncio.timeout(self._settings.request_timeout_s + REBALANCE_TIMEOUT_S):
                    await started(consumer.start())
            except BaseException:
                await self.close()
                raise

    async def poll(self, *, timeout_s: float, records_max: int) -> Sequence[Record]:
        """Return records in offset order per partition; none if ``timeout_s`` passes, or while all is paused."""
        consumer = self._opened()
        partitions = (_NOWHERE,) if self._paused else ()
        with translated("poll"):
            try:
                async with asyncio.timeout(timeout_s + 0.1):
                    await self._assigned.wait()
                    taken = await consumer.getmany(
                        *partitions, timeout_ms=int(timeout_s * 1000), max_records=records_max
                    )
            except TimeoutError:
                return []
        if self._failure is not None:
            raise self._failure
        return [as_record(record) for records in taken.values() for record in records]

    def pause(self, *partitions: Partition) -> None:
        """Stop returning records of these partitions, or of all if none is named; polls keep the membership alive."""
        if not partitions:
            self._paused = True
            return
        consumer = self._opened()
        consumer.pause(*(set(map(_driver_partition, partitions)) & consumer.assignment()))

    def resume(self) -> None:
        """Return records again, except of partitions that were paused by name."""
        self._paused = False

    async def commit(self, next_offsets: Mapping[Partition, int]) -> None:
        """Commit and wait for the acknowledgement. Raises ``LostPartition`` if another member owns a partition."""
        if not next_offsets:
            return
        consumer = self._opened()
        with translated("commit"):
            async with asyncio.timeout(self._settings.request_timeout_s):
                await consumer.commit(
                    {_driver_partition(partition): offset for partition, offset in next_offsets.items()}
                )

    async def lag(self) -> Mapping[Partition, int]:
        """Return the number of records between the position and the end of each assigned partition."""
        consumer = self._opened()
        with translated("read the lag"):
            async with asyncio.timeout(self._settings.request_timeout_s):
                await self._assigned.wait()
                ends = await consumer.end_offsets(list(consumer.assignment()))
                return {
                    Partition(at.topic, at.partition): max(0, end - await consumer.position(at))
                    for at, end in ends.items()
                    if at in consumer.assignment()
                }

    def partition_id_of(self, partition: Partition) -> str:
        """Return ``cluster id/topic/partition``."""
        return f"{self._cluster_id}/{partition.topic}/{partition.partition}"

    async def close(self) -> None:
        """Leave the group. Safe to call twice or before ``open``."""
        consumer, self._consumer = self._consumer, None
        self._assigned.clear()
        self._failure = None
        self._paused = False
        if consumer is not None:
            with translated("leave the group"):
                async with asyncio.timeout(self._settings.request_timeout_s):
                    await ended(consumer.stop())

    def _new_consumer(self) -> AIOKafkaConsumer:
        message_bytes = self._settings.message_bytes_max + FRAME_BYTES
        return AIOKafkaConsumer(
            bootstrap_servers=self._settings.bootstrap,
            group_id=self._settings.group,
            enable_auto_commit=False,
            auto_offset_reset="earliest",
            isolation_level="read_committed",
            max_partition_fetch_bytes=message_bytes,
            fetch_max_bytes=max(message_bytes, FETCH_BYTES_MAX),
            session_timeout_ms=int(self._settings.session_timeout_s * 1000),
            rebalance_timeout_ms=int(REBALANCE_TIMEOUT_S * 1000),
            heartbeat_interval_ms=int(self._settings.session_timeout_s * 1000 / 4),
            max_poll_interval_ms=int(MAX_POLL_INTERVAL_S * 1000),
            request_timeout_ms=int((self._settings.request_timeout_s + REBALANCE_TIMEOUT_S) * 1000),
        )

    def _opened(self) -> AIOKafkaConsumer:
        if self._consumer is None:
            raise Unavailable("The source is not open.")
        return self._consumer

    @override
    async def on_partitions_revoked(self, revoked: set[TopicPartition]) -> None:
        """Handle what the driver reports before a join."""
        self._assigned.clear()
        await self._on_revoked(_partitions(revoked))

    @override
    async def on_partitions_assigned(self, assigned: set[TopicPartition]) -> None:
        """Handle what the driver reports after a join, before it fetches.

        The driver swallows what a listener raises, so the next ``poll`` raises it.
        """
        try:
            self._cluster_id = await read_cluster_id(self._settings)
        except Unavailable as exc:
            self._failure = exc
        else:
            await self._on_assigned(_partitions(assigned))
        self._assigned.set()


def _partitions(partitions: set[TopicPartition]) -> frozenset[Partition]:
    return frozenset(Partition(at.topic, at.partition) for at in partitions)


def _driver_partition(partition: Partition) -> TopicPartition:
    return TopicPartition(*partition)


def as_record(record: ConsumerRecord) -> Record:
    """Return the record of the driver as ours."""
    return Record(
        record.topic,
        record.partition,
        record.offset,
        NO_TIMESTAMP_MS if record.timestamp is None else record.timestamp,
        record.key,
        record.value,
        tuple(record.headers),
    )
