"""A batch of records that would not fit into memory costs itself: the worker reads on behind it."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator

import pytest
from aiokafka import AIOKafkaProducer

from common.ids import DEFAULT_PROJECT_ID
from common.kafka.cluster import ensure_topics
from common.kafka.consumer import KafkaSource
from common.kafka.record import Partition, Record
from common.limits import MIB, SpanLimits
from common.settings import Encoding, KafkaSettings, TopicSettings
from ingest.decode import Rules
from ingest.decoding.chunk import Chunk, decode_chunk
from tests.support.kafka import Broker

pytestmark = pytest.mark.kafka


@pytest.fixture
async def settings(kafka: Broker, unique: str) -> KafkaSettings:
    topics = {unique: TopicSettings(encoding=Encoding.OTLP_PROTO)}
    configured = kafka.settings(group=unique, topics=topics, partitions=1)
    await ensure_topics(configured)
    return configured


@pytest.fixture
async def producer(settings: KafkaSettings) -> AsyncIterator[AIOKafkaProducer]:
    started = AIOKafkaProducer(
        bootstrap_servers=settings.bootstrap, compression_type="zstd", max_batch_size=2**30, max_request_size=2**30
    )
    await started.start()
    yield started
    await started.stop()


async def publish(producer: AIOKafkaProducer, topic: str, *values: bytes) -> None:
    """Publish the values as one batch."""
    batch = producer.create_batch()
    for value in values:
        assert batch.append(key=None, value=value, timestamp=None) is not None
    await (await producer.send_batch(batch, topic, partition=0))


async def read(settings: KafkaSettings, count: int) -> list[list[Record]]:
    """Return what each poll of a member returns, until there are this many records."""
    source = KafkaSource(settings)

    async def nothing(_partitions: frozenset[Partition]) -> None:
        """Read on."""

    await source.open(on_revoked=nothing, on_assigned=nothing)
    polled: list[list[Record]] = []
    try:
        async with asyncio.timeout(120):
            while sum(map(len, polled)) < count:
                polled.append(list(await source.poll(timeout_s=0.1, records_max=500)))
    finally:
        await source.close()
    return polled


async def test_records_behind_an_oversized_batch_are_read(settings: KafkaSettings, producer: AIOKafkaProducer) -> None:
    (topic,) = settings.topics
    await publish(producer, topic, *[bytes(10 * MIB)] * 30)
    await publish(producer, topic, b"later")

    (unread, later) = [record for records in await read(settings, 2) for record in records]

    chunk = Chunk([unread], {Partition(topic, 0): "c/t/0"}, now_ns=1)
    (outcome,) = decode_chunk(chunk, Rules(settings.topics, SpanLimits(), DEFAULT_PROJECT_ID)).outcomes
    (rejection,) = outcome.rejections.in_full
    assert (unread.offset, later.offset, later.value) == (29, 30, b"later")
    assert (rejection.code, rejection.span_index) == ("record_too_large", None)
    assert "too large when it is decompressed" in rejection.reason
    assert not outcome.is_undecodable  # it does not stop the partition


async def test_poll_takes_few_large_records(settings: KafkaSettings, producer: AIOKafkaProducer) -> None:
    (topic,) = settings.topics
    for _ in range(20):
        await publish(producer, topic, *[bytes(MIB)] * 10)

    polled = await read(settings, 200)

    assert max(map(len, polled)) < 64


async def test_poll_takes_many_small_records(settings: KafkaSettings, producer: AIOKafkaProducer) -> None:
    (topic,) = settings.topics
    for _ in range(10):
        await publish(producer, topic, *[b"small"] * 100)

    polled = await read(settings, 1_000)

    assert max(map(len, polled)) == 500
