"""One battery for every source of end offsets: in memory, the embedded broker, a real Apache Kafka."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack
from dataclasses import dataclass

import pytest

from common.errors import Unavailable
from common.kafka.cluster import ensure_topics, open_admin
from common.kafka.offsets import KafkaEndOffsets
from common.kafka.producer import KafkaPublisher
from common.kafka.record import EndOffsets, Publisher
from common.kafka.topics import read_topics
from common.settings import Encoding, KafkaSettings, TopicSettings
from tests.fakes.kafka import MemoryBroker
from tests.support.kafka import Broker

PARTITIONS = 2


@dataclass
class Cluster:
    """What the battery needs of a broker."""

    log_id: str
    """The beginning of its partition ids."""
    topic: str
    publisher: Publisher
    ends: EndOffsets

    def partition_id(self, partition: int) -> str:
        return f"{self.log_id}/{self.topic}/{partition}"


@pytest.fixture(params=["memory", "embedded", pytest.param("kafka", marks=pytest.mark.kafka)])
async def cluster(request: pytest.FixtureRequest, unique: str) -> AsyncIterator[Cluster]:
    if request.param == "memory":
        memory = MemoryBroker(partitions=PARTITIONS)
        yield Cluster(memory.cluster_id, unique, memory.publisher(), memory.ends(unique))
        return
    broker: Broker = request.getfixturevalue(request.param)
    topics = {unique: TopicSettings(encoding=Encoding.OTLP_PROTO)}
    settings = broker.settings(group=unique, topics=topics, partitions=PARTITIONS)
    await ensure_topics(settings)
    async with open_admin(settings) as admin:
        cluster_id, topic_ids = await read_topics(admin._client, [unique])
    async with AsyncExitStack() as opened:
        publisher, ends = KafkaPublisher(settings), KafkaEndOffsets(settings)
        opened.push_async_callback(publisher.close)
        opened.push_async_callback(ends.close)
        yield Cluster(f"{cluster_id}/{topic_ids[unique]}", unique, publisher, ends)


async def test_empty_partition_ends_at_offset_zero(cluster: Cluster) -> None:
    assert await cluster.ends.ask() == {cluster.partition_id(0): 0, cluster.partition_id(1): 0}


async def test_acknowledged_records_lie_below_the_end_offset(cluster: Cluster) -> None:
    last: dict[str, int] = {}
    for _ in range(3):
        # Concurrent, so that they share batches: the embedded broker itself names an offset inside the last one.
        publishes = [cluster.publisher.publish(cluster.topic, b"%d" % n, key=b"%d" % (n % 3)) for n in range(20)]
        for where in await asyncio.gather(*publishes):
            log = cluster.partition_id(where.partition)
            last[log] = max(where.offset, last.get(log, 0))

        ends = await cluster.ends.ask()

        assert {log: ends[log] for log in last} == {log: offset + 1 for log, offset in last.items()}


async def test_close_is_safe_twice_and_ask_connects_again(cluster: Cluster) -> None:
    await cluster.ends.ask()
    await cluster.ends.close()
    await cluster.ends.close()

    assert await cluster.ends.ask() == {cluster.partition_id(0): 0, cluster.partition_id(1): 0}


async def test_broker_that_is_down_is_unavailable() -> None:
    ends = KafkaEndOffsets(KafkaSettings(bootstrap="127.0.0.1:9", request_timeout_s=0.5))

    with pytest.raises(Unavailable):
        await ends.ask()
