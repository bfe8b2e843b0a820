"""Consuming records: a ``RecordSource`` on the driver's consumer group.

Facts about the driver (aiokafka 0.14) on which this relies:

- Its rebalance is eager: ``on_partitions_revoked`` gets all partitions and is awaited, with heartbeats, before the
  join.
- During a rebalance ``getmany`` waits regardless of its timeout, so it is not called then, and has a deadline.
- It joins no group while nothing fetches for ``max_poll_interval_ms``, and after a join that failed it waits until
  somebody asks for the error. So a poll that waits for partitions counts as fetching, and asks.
- ``getmany`` does not suspend between taking records and returning them, so a deadline around it loses none.
- It buffers at most one response per partition, so not polling stops the fetches. Polling for a partition that does
  not exist keeps the membership alive and keeps the buffer, which its own ``pause`` discards.
- ``commit`` retries forever, so it has a deadline.
- It would continue at the first record when an offset is out of range, and say nothing: so it may not.
- It fetches by the name of a topic, so after each poll the leaders are asked for the ids of the topics.
"""

from __future__ import annotations

import asyncio
from collections.abc import Collection, Mapping, Sequence
from typing import Final

from aiokafka import AIOKafkaConsumer, ConsumerRebalanceListener, ConsumerRecord, OffsetAndMetadata, TopicPartition
from aiokafka.errors import NoOffsetForPartitionError, OffsetOutOfRangeError
from typing_extensions import override

from common.errors import ServiceError, Unavailable
from common.kafka.cluster import open_admin
from common.kafka.driver import ended, prepare_driver, started, translated
from common.kafka.record import LostPartition, Partition, Rebalanced, Record, ReportGap, TopicReplaced
from common.kafka.security import LastFailure, consumer_options
from common.kafka.starts import CommittedOffset, Start, read_committed, read_held, start_of
from common.kafka.topics import ClusterTopics, read_topics
from common.settings import KafkaSettings

REBALANCE_TIMEOUT_S: Final = 60.0
"""How long a rebalance waits for a member to revoke its partitions; ``on_revoked`` must be done well before."""

MAX_POLL_INTERVAL_S: Final = 3_600.0
"""A member that does not poll for so long leaves the group. A worker that decodes does not poll, and a decoder has up
to six minutes for one record; what hangs has limits of its own, and a process that is gone sends no heartbeats."""

FETCH_BYTES_MAX: Final = 16 * 1024 * 1024
"""Limit of one response for all partitions. A larger record still arrives, alone."""

RECORDS_AT_ONCE: Final = 32
POLL_BYTES_MAX: Final = 16 * 1024 * 1024
"""A poll takes no further records when its records have this size. Those that it took last may make them larger."""

FRAME_BYTES: Final = 16 * 1024
"""Added to ``message_bytes_max`` for the batch header, the key and the headers."""

NO_TIMESTAMP_MS: Final = -1
"""Kafka's own timestamp of a record that has none (message format 0)."""

_NO_LEADER: Final = -1
_NOWHERE: Final = TopicPartition("", 0)


class KafkaSource(ConsumerRebalanceListener):  # type: ignore[misc] # the driver ships no types
    """A member of the group ``settings.group``, subscribed to ``settings.topics``. One open at a time."""

    def __init__(self, settings: KafkaSettings, *, report_gap: ReportGap | None = None) -> None:
        self._settings = settings
        self._consumer: AIOKafkaConsumer | None = None
        self._assigned = asyncio.Event()
        self._paused = False
        self._connecting = LastFailure(settings)
        self._topics = ClusterTopics("", {})
        self._topic_ids: dict[tuple[str, str], str] = {}
        """The last id of each topic of each cluster."""
        self._report_gap = report_gap
        self._begun: set[TopicPartition] = set()
        self._replaced: set[str] = set()
        self._created_again: set[str] = set()
        self._failure: ServiceError | None = None

    async def open(self, *, on_revoked: Rebalanced, on_assigned: Rebalanced) -> None:
        """Join the group. ``on_revoked`` is awaited before the partitions go to another member."""
        prepare_driver()
        await self.close()
        async with open_admin(self._settings) as admin:
            with translated("ask for the topics", self._connecting):
                async with asyncio.timeout(self._settings.request_timeout_s):
                    self._note(await read_topics(admin._client, sorted(self._settings.topics)))
        with translated("join the group", self._connecting):
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
        """Return records in offset order per partition; none if ``timeout_s`` passes, or while all is paused.

        Raises ``TopicReplaced``, and then never returns records of the new topic until the next ``open``.
        """
        consumer = self._opened()
        partitions = (_NOWHERE,) if self._paused else ()
        taken: list[ConsumerRecord] = []
        with translated("poll", self._connecting):
            try:
                async with asyncio.timeout(timeout_s + 0.1):
                    await self._until_assigned(consumer)
                    await _take(consumer, partitions, taken, timeout_s=timeout_s, records_max=records_max)
            except TimeoutError:
                pass
            except NoOffsetForPartitionError as exc:
                await self._begin(consumer, {exc.args[0]} - self._begun)
            except OffsetOutOfRangeError as exc:
                await self._continue_in_range(consumer, exc.args[0])
        if self._failure is not None:
            raise self._failure
        if taken:
            await self._require_same_topics(consumer, {TopicPartition(each.topic, each.partition) for each in taken})
        return [as_record(record) for record in taken]

    async def _until_assigned(self, consumer: AIOKafkaConsumer) -> None:
        """Return when this member has partitions. Raises why it could not join the group."""
        consumer._coordinator.check_errors()
        with consumer._subscription.fetch_context():
            pass  # the driver notes that this member fetches; it would not note the end of a wait that is cancelled
        await self._assigned.wait()

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
        gone = {at.topic for at in next_offsets if self._is_gone(consumer, at.topic)}
        offsets = {
            _driver_partition(at): OffsetAndMetadata(offset, self._topics.topic_ids.get(at.topic, ""))
            for at, offset in next_offsets.items()
            if at.topic not in gone
        }
        if offsets:
            with translated("commit", self._connecting):
                async with asyncio.timeout(self._settings.request_timeout_s):
                    await consumer.commit(offsets)
        if gone:  # the driver would try forever
            raise LostPartition(f"commit: the topic {', '.join(sorted(gone))} was deleted.")

    async def lag(self) -> Mapping[Partition, int]:
        """Return the number of records between the position and the end of each assigned partition.

        Raises ``Unavailable`` if a topic does not exist; reading it begins when it does.
        """
        consumer = self._opened()
        with translated("read the lag", self._connecting):
            async with asyncio.timeout(self._settings.request_timeout_s):
                await self._assigned.wait()
                missing = [each for each in self._settings.topics if not consumer.partitions_for_topic(each)]
                if missing:
                    await consumer._client.force_metadata_update()  # by itself it asks every five minutes
                    raise Unavailable(f"The topic {', '.join(missing)} does not exist.")
                ends = await consumer.end_offsets(list(consumer.assignment()))
                return {
                    Partition(at.topic, at.partition): max(0, end - await consumer.position(at))
                    for at, end in ends.items()
                    if at in consumer.assignment()
                }

    def partition_id_of(self, partition: Partition) -> str:
        """Return the id of a partition of the topics that this member reads."""
        return self._topics.partition_id(partition)

    async def close(self) -> None:
        """Leave the group. Safe to call twice or before ``open``."""
        consumer, self._consumer = self._consumer, None
        try:
            if consumer is not None:
                with translated("leave the group"):
                    async with asyncio.timeout(self._settings.request_timeout_s):
                        await ended(consumer.stop())
        finally:  # after the last call of a listener
            self._assigned.clear()
            self._failure = None
            self._paused = False
            self._replaced.clear()

    def _new_consumer(self) -> AIOKafkaConsumer:
        message_bytes = self._settings.message_bytes_max + FRAME_BYTES
        return AIOKafkaConsumer(
            **consumer_options(self._settings),
            group_id=self._settings.group,
            enable_auto_commit=False,
            auto_offset_reset="none",
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
            self._begun.clear()
            await self._begin(self._opened(), assigned)
        except ServiceError as exc:
            self._failure = exc
        else:
            await self._on_assigned(_partitions(assigned))
        self._assigned.set()

    async def _begin(self, consumer: AIOKafkaConsumer, partitions: Collection[TopicPartition]) -> None:
        """Move to where each of these partitions is to be read, and report what is missing before it.

        A partition whose topic does not exist any more is left out.
        """
        with translated("begin to read", self._connecting):
            async with asyncio.timeout(self._settings.request_timeout_s):
                before = await self._ask_for_topics(consumer)
                existing = [at for at in partitions if at.topic in before.topic_ids]
                committed = await read_committed(consumer, existing)
                held = await read_held(consumer, existing)
                # Asked again, so that the ids are valid for the offsets.
                topics = await self._ask_for_topics(consumer)
        if topics != before:
            raise Unavailable("Topics were created or deleted while their offsets were read.")
        self._note(topics)
        for at in existing:
            start = start_of(
                Partition(at.topic, at.partition),
                committed.get(at),
                held[at],
                topic_id=topics.topic_ids[at.topic],
                is_new=at.topic in self._created_again,
            )
            self._go_on(consumer, at, start)
        self._created_again -= {at.topic for at in existing}

    async def _continue_in_range(self, consumer: AIOKafkaConsumer, positions: Mapping[TopicPartition, int]) -> None:
        """Move partitions whose position is outside of what they hold, and report what is missing."""
        partitions = [at for at in positions if at in consumer.assignment()]
        async with asyncio.timeout(self._settings.request_timeout_s):
            await self._require_same_topics(consumer, partitions)
            held = await read_held(consumer, partitions)
        for at in partitions:
            if at in consumer.assignment() and await consumer.position(at) == positions[at]:
                partition = Partition(at.topic, at.partition)
                self._go_on(consumer, at, start_of(partition, CommittedOffset(positions[at]), held[at], topic_id=""))

    def _go_on(self, consumer: AIOKafkaConsumer, at: TopicPartition, start: Start) -> None:
        consumer.seek(at, start.offset)
        self._begun.add(at)
        if start.gap is not None and self._report_gap is not None:
            self._report_gap(start.gap)

    async def _require_same_topics(self, consumer: AIOKafkaConsumer, partitions: Collection[TopicPartition]) -> None:
        """Raise ``TopicReplaced`` unless what was fetched from these partitions is of the topics that are known.

        The driver fetches by name. An id never comes back, so an id that is the same after the fetch was the same
        before. The leaders are asked: they know about a new topic before they accept its records. If the driver does
        not know the leader of a partition, every broker is asked, because one of them has returned the records.
        """
        known = self._topics
        names = {at.topic for at in partitions if known.topic_ids.get(at.topic)}
        if not names:  # the broker gives no ids
            return
        client = consumer._client
        brokers = {client.cluster.leader_for_partition(at) for at in partitions}
        if brokers & {None, _NO_LEADER}:
            brokers = {broker.nodeId for broker in client.cluster.brokers()}
        if not brokers:
            raise Unavailable("No broker is known that could say which topics the records are from.")
        with translated("ask for topic ids", self._connecting):
            async with asyncio.timeout(self._settings.request_timeout_s):
                answers = await asyncio.gather(*(read_topics(client, names, node_id=broker) for broker in brokers))
        for cluster_id, topic_ids in answers:
            replaced = {name for name in topic_ids if topic_ids[name] != known.topic_ids[name]}
            if cluster_id != known.cluster_id:
                replaced = names
            if replaced:
                self._replaced |= replaced
                raise TopicReplaced(f"The topic {', '.join(sorted(replaced))} was deleted and created again.")

    def _note(self, topics: ClusterTopics) -> None:
        """Remember the topics, and which of them were created again since this object has seen them last."""
        ids = {(topics.cluster_id, name): topic_id for name, topic_id in topics.topic_ids.items() if topic_id}
        self._created_again |= {
            key[1] for key, topic_id in ids.items() if self._topic_ids.get(key, topic_id) != topic_id
        }
        self._topic_ids |= ids
        self._topics = topics

    async def _ask_for_topics(self, consumer: AIOKafkaConsumer) -> ClusterTopics:
        return await read_topics(consumer._client, sorted(self._settings.topics))

    def _is_gone(self, consumer: AIOKafkaConsumer, topic: str) -> bool:
        return topic in self._replaced or not consumer.partitions_for_topic(topic)


async def _take(
    consumer: AIOKafkaConsumer,
    partitions: Sequence[TopicPartition],
    taken: list[ConsumerRecord],
    *,
    timeout_s: float,
    records_max: int,
) -> None:
    """Add records to ``taken``, a few at a time: the driver takes a number of records, whatever they hold."""
    bytes_count, wait_ms = 0, int(timeout_s * 1000)
    while len(taken) < records_max and bytes_count < POLL_BYTES_MAX:
        count = min(RECORDS_AT_ONCE, records_max - len(taken))
        found = await consumer.getmany(*partitions, timeout_ms=wait_ms, max_records=count)
        records = [record for of_partition in found.values() for record in of_partition]
        if not records:
            return
        taken += records
        bytes_count += sum(len(record.value or b"") for record in records)
        wait_ms = 0


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
