"""One battery for every record source: in memory, the embedded broker, a real Apache Kafka."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Sequence
from contextlib import AsyncExitStack
from dataclasses import dataclass

import pytest
from aiokafka import AIOKafkaProducer

from common.errors import TooLarge
from common.kafka.cluster import ensure_topics
from common.kafka.consumer import KafkaSource
from common.kafka.log import KafkaLog
from common.kafka.offsets import uncommitted_count
from common.kafka.producer import KafkaPublisher
from common.kafka.record import Coordinates, LostPartition, Partition, Publisher, Record, RecordLog, RecordSource
from common.settings import Encoding, KafkaSettings, TopicSettings
from tests.fakes.kafka import MemoryBroker
from tests.support.kafka import Broker

PARTITIONS = 2
MESSAGE_BYTES_MAX = 3_000_000


@dataclass
class Cluster:
    """What the battery needs of a broker. Its sources join one group."""

    topic: str
    publisher: Publisher
    log: RecordLog
    memory: MemoryBroker | None
    settings: KafkaSettings | None
    opened: AsyncExitStack

    def source(self) -> RecordSource:
        if self.memory is not None:
            source: RecordSource = self.memory.source(self.topic)
        else:
            assert self.settings is not None
            source = KafkaSource(self.settings)
        self.opened.push_async_callback(source.close)
        return source


@pytest.fixture(params=["memory", "embedded", pytest.param("kafka", marks=pytest.mark.kafka)])
async def cluster(request: pytest.FixtureRequest, unique: str) -> AsyncIterator[Cluster]:
    async with AsyncExitStack() as opened:
        if request.param == "memory":
            memory = MemoryBroker(partitions=PARTITIONS, message_bytes_max=MESSAGE_BYTES_MAX)
            yield Cluster(unique, memory.publisher(), memory, memory, None, opened)
            return
        broker: Broker = request.getfixturevalue(request.param)
        settings = broker.settings(
            group=unique,
            topics={unique: TopicSettings(encoding=Encoding.OTLP_PROTO)},
            partitions=PARTITIONS,
            message_bytes_max=MESSAGE_BYTES_MAX,
        )
        await ensure_topics(settings)
        publisher = KafkaPublisher(settings)
        opened.push_async_callback(publisher.close)
        yield Cluster(unique, publisher, KafkaLog(settings), None, settings, opened)


class Member:
    """A source that records its rebalances."""

    def __init__(self, source: RecordSource) -> None:
        self.source = source
        self.revoked: list[frozenset[Partition]] = []
        self.assigned: list[frozenset[Partition]] = []
        self.commit_when_revoked: dict[Partition, int] = {}

    async def open(self) -> Member:
        await self.source.open(on_revoked=self._on_revoked, on_assigned=self._on_assigned)
        return self

    async def read(self, count: int, *, within_s: float = 120.0) -> list[Record]:
        records: list[Record] = []
        async with asyncio.timeout(within_s):
            while len(records) < count:
                records += await self.source.poll(timeout_s=0.1, records_max=100)
        return records

    async def _on_revoked(self, partitions: frozenset[Partition]) -> None:
        if partitions:
            self.revoked.append(partitions)
            due, self.commit_when_revoked = self.commit_when_revoked, {}
            await self.source.commit(due)

    async def _on_assigned(self, partitions: frozenset[Partition]) -> None:
        self.assigned.append(partitions)


def next_offsets(records: Sequence[Record]) -> dict[Partition, int]:
    return {record.source: record.next_offset for record in records}


async def publish(cluster: Cluster, *values: bytes, key: bytes = b"k") -> list[Coordinates]:
    return [await cluster.publisher.publish(cluster.topic, value, key=key) for value in values]


async def test_record_is_read_as_it_was_published(cluster: Cluster) -> None:
    headers = [("a", b"1"), ("a", b"2"), ("b", b"\xff")]
    where = await cluster.publisher.publish(cluster.topic, b"value\x00", key=b"key", headers=headers)
    member = await Member(cluster.source()).open()

    (record,) = await member.read(1)

    assert (record.topic, record.partition, record.offset) == where
    assert (record.key, record.value, record.headers) == (b"key", b"value\x00", tuple(headers))
    assert record.header("a") == b"2"
    assert record.timestamp_ms > 1_600_000_000_000


async def test_header_value_may_be_null(cluster: Cluster) -> None:
    headers = [("a", b"1"), ("a", None), ("b", b"")]
    await cluster.publisher.publish(cluster.topic, b"value", key=b"key", headers=headers)
    member = await Member(cluster.source()).open()

    (record,) = await member.read(1)

    assert record.headers == tuple(headers)
    assert (record.header("a"), record.header("b")) == (None, b"")


async def test_records_of_one_key_keep_partition_and_order(cluster: Cluster) -> None:
    values = [b"%d" % number for number in range(50)]
    where = await publish(cluster, *values)
    member = await Member(cluster.source()).open()

    records = await member.read(50)

    assert len({coordinates.partition for coordinates in where}) == 1
    assert [record.value for record in records] == values
    assert [record.offset for record in records] == sorted(record.offset for record in records)


async def test_records_max_bounds_a_poll(cluster: Cluster) -> None:
    await publish(cluster, *[b"x"] * 5)
    member = await Member(cluster.source()).open()
    while not (records := await member.source.poll(timeout_s=0.5, records_max=2)):
        pass

    assert len(records) <= 2


async def test_largest_record_is_read_and_a_larger_one_is_rejected(cluster: Cluster) -> None:
    largest = b"x" * MESSAGE_BYTES_MAX if cluster.memory else b"x" * (MESSAGE_BYTES_MAX - 1_000)
    await publish(cluster, largest)
    member = await Member(cluster.source()).open()

    (record,) = await member.read(1)

    assert record.value == largest
    with pytest.raises(TooLarge):
        await publish(cluster, b"x" * (MESSAGE_BYTES_MAX + 20_000))


async def test_reading_continues_at_the_committed_offset(cluster: Cluster) -> None:
    await publish(cluster, b"0", b"1", b"2")
    first = await Member(cluster.source()).open()
    records = await first.read(3)
    await first.source.commit(next_offsets(records[:2]))
    await first.source.close()

    second = await Member(cluster.source()).open()

    assert [record.value for record in await second.read(1)] == [b"2"]


async def test_without_a_commit_everything_is_read_again(cluster: Cluster) -> None:
    await publish(cluster, b"0", b"1")
    first = await Member(cluster.source()).open()
    await first.read(2)
    await first.source.close()

    second = await Member(cluster.source()).open()

    assert [record.value for record in await second.read(2)] == [b"0", b"1"]


async def test_paused_source_returns_nothing_and_loses_nothing(cluster: Cluster) -> None:
    member = await Member(cluster.source()).open()
    await publish(cluster, b"0")
    await member.read(1)

    member.source.pause()
    await publish(cluster, b"1", b"2")
    while_paused = [await member.source.poll(timeout_s=0.1, records_max=10) for _ in range(5)]
    member.source.resume()

    assert not any(while_paused)
    assert [record.value for record in await member.read(2)] == [b"1", b"2"]


async def test_pause_of_one_partition_does_not_affect_the_others(cluster: Cluster) -> None:
    member = await Member(cluster.source()).open()
    where: dict[int, bytes] = {}
    for number in range(20):
        key = b"key%d" % number
        (at,) = await publish(cluster, key, key=key)
        where.setdefault(at.partition, key)
    assert len(where) == PARTITIONS
    await member.read(20)

    member.source.pause(Partition(cluster.topic, 0))
    await publish(cluster, b"held", key=where[0])
    await publish(cluster, b"taken", key=where[1])
    member.source.resume()
    records = await member.read(1)
    records += await member.source.poll(timeout_s=0.5, records_max=10)

    assert [record.value for record in records] == [b"taken"]


async def test_lag_counts_unread_records(cluster: Cluster) -> None:
    member = await Member(cluster.source()).open()
    await member.source.poll(timeout_s=0.5, records_max=1)
    assert sum((await member.source.lag()).values()) == 0
    member.source.pause()

    (where, *_) = await publish(cluster, b"0", b"1", b"2")

    assert (await member.source.lag())[Partition(where.topic, where.partition)] == 3


async def test_partition_id_names_cluster_topic_and_partition(cluster: Cluster) -> None:
    member = await Member(cluster.source()).open()

    *log_id, topic, partition = member.source.partition_id_of(Partition(cluster.topic, 1)).split("/")

    assert all(log_id)
    assert (topic, partition) == (cluster.topic, "1")


async def test_second_member_gets_partitions_after_the_first_revoked_them(cluster: Cluster) -> None:
    await publish(cluster, *[b"%d" % number for number in range(10)])
    first = await Member(cluster.source()).open()
    records = await first.read(10)
    first.commit_when_revoked = next_offsets(records)

    second = Member(cluster.source())
    joining = asyncio.create_task(second.open())
    partitions = frozenset(Partition(cluster.topic, number) for number in range(PARTITIONS))
    async with asyncio.timeout(120):  # a slow member may be away for a round, in which the other has all partitions
        while not (second.assigned and first.assigned[-1] and first.assigned[-1] ^ second.assigned[-1] == partitions):
            assert not await first.source.poll(timeout_s=0.1, records_max=10)
    await joining

    assert first.revoked[0] == partitions
    assert not await first.source.poll(timeout_s=0.5, records_max=10)
    assert not await second.source.poll(timeout_s=0.5, records_max=10)


async def test_commit_of_a_partition_that_is_not_assigned_fails(cluster: Cluster) -> None:
    member = await Member(cluster.source()).open()
    await member.source.poll(timeout_s=0.5, records_max=1)

    with pytest.raises(LostPartition):
        await member.source.commit({Partition(cluster.topic, PARTITIONS): 1})


async def test_close_is_safe_twice_and_before_open(cluster: Cluster) -> None:
    source = cluster.source()
    await source.close()
    await Member(source).open()

    await source.close()
    await source.close()


async def test_topic_is_read_completely_outside_of_the_group(cluster: Cluster) -> None:
    await publish(cluster, b"0", b"1")
    await publish(cluster, b"2", key=b"other")

    records = [record async for chunk in cluster.log.read(cluster.topic) for record in chunk]

    assert sorted(record.value or b"" for record in records) == [b"0", b"1", b"2"]


async def test_extent_is_every_partition_with_its_offsets(cluster: Cluster) -> None:
    before = await cluster.log.extent(cluster.topic)
    [where] = await publish(cluster, b"0")

    after = await cluster.log.extent(cluster.topic)

    assert before == {number: range(0) for number in range(PARTITIONS)}
    assert after == {**before, where.partition: range(1)}


async def test_only_the_records_of_a_range_are_read(cluster: Cluster) -> None:
    where = [(await publish(cluster, b"%d" % number, key=b"k"))[0] for number in range(5)]
    partition = where[0].partition

    async def read(offsets: range) -> list[bytes | None]:
        ranges = {partition: offsets, 1 - partition: range(0)}
        return [record.value async for chunk in cluster.log.read_ranges(cluster.topic, ranges) for record in chunk]

    assert await read(range(1, 4)) == [b"1", b"2", b"3"]
    assert await read(range(4, 5)) == [b"4"]
    assert await read(range(2, 2)) == []


async def test_all_records_of_a_batch_are_read_and_counted(cluster: Cluster) -> None:
    """They are one or two batches. Concurrent publishes have no promised order, so compare with the offsets."""
    sent = [b"%d" % number for number in range(20)]
    where = await asyncio.gather(*(cluster.publisher.publish(cluster.topic, value, key=b"k") for value in sent))
    in_log = sorted(zip(where, sent, strict=True))

    chunks = [chunk async for chunk in cluster.log.read(cluster.topic)]

    assert [record.value for chunk in chunks for record in chunk] == [value for _, value in in_log]
    if cluster.settings is not None:
        assert await uncommitted_count(cluster.settings, [cluster.topic]) == 20


@pytest.mark.parametrize("broker", ["embedded", pytest.param("kafka", marks=pytest.mark.kafka)])
@pytest.mark.parametrize("compression", [None, "gzip", "snappy", "lz4", "zstd"])
async def test_every_compression_of_kafka_is_read(
    broker: str, compression: str | None, unique: str, request: pytest.FixtureRequest
) -> None:
    running: Broker = request.getfixturevalue(broker)
    settings = running.settings(group=unique, topics={unique: TopicSettings(encoding=Encoding.OTLP_PROTO)})
    await ensure_topics(settings)
    producer = AIOKafkaProducer(bootstrap_servers=settings.bootstrap, compression_type=compression)
    await producer.start()
    value = b"compressible " * 1_000
    await producer.send_and_wait(unique, value)
    await producer.stop()
    member = await Member(KafkaSource(settings)).open()

    (record,) = await member.read(1)
    await member.source.close()

    assert record.value == value


async def test_concurrent_calls_create_topics_once(embedded: Broker, unique: str) -> None:
    settings = embedded.settings(topics={unique: TopicSettings(encoding=Encoding.OTLP_PROTO)})

    both = await asyncio.gather(ensure_topics(settings), ensure_topics(settings))

    assert unique in {name for created in both for name in created}
    assert await ensure_topics(settings) == []
