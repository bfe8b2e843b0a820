"""One battery for every tail of a topic: in memory, the embedded broker, a real Apache Kafka."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack
from dataclasses import dataclass

import pytest

from common.kafka.cluster import ensure_topics
from common.kafka.log import KafkaLog
from common.kafka.producer import KafkaPublisher
from common.kafka.record import Publisher, Record, RecordLog
from common.settings import KafkaSettings
from tests.fakes.kafka import MemoryBroker
from tests.support.kafka import Broker


@dataclass
class Cluster:
    """What the battery needs of a broker."""

    topic: str
    publisher: Publisher
    log: RecordLog


@pytest.fixture(params=["memory", "embedded", pytest.param("kafka", marks=pytest.mark.kafka)])
async def cluster(request: pytest.FixtureRequest, unique: str) -> AsyncIterator[Cluster]:
    if request.param == "memory":
        memory = MemoryBroker(partitions=1)
        yield Cluster(unique, memory.publisher(), memory)
        return
    broker: Broker = request.getfixturevalue(request.param)
    settings: KafkaSettings = broker.settings(stored_topic=unique)
    await ensure_topics(settings)
    async with AsyncExitStack() as opened:
        publisher = KafkaPublisher(settings)
        opened.push_async_callback(publisher.close)
        yield Cluster(unique, publisher, KafkaLog(settings))


async def test_tail_yields_only_later_records_in_order(cluster: Cluster) -> None:
    for value in (b"old", b"older"):
        await cluster.publisher.publish(cluster.topic, value)
    begun = asyncio.Event()
    given: list[Record] = []

    async def follow() -> None:
        async for records in cluster.log.tail(cluster.topic):
            begun.set()
            given.extend(records)
            if len(given) == 3:
                return

    async with asyncio.timeout(120), asyncio.TaskGroup() as tasks:
        tasks.create_task(follow())
        await begun.wait()
        for value in (b"a", b"b", b"c"):
            await cluster.publisher.publish(cluster.topic, value)

    assert [record.value for record in given] == [b"a", b"b", b"c"]
