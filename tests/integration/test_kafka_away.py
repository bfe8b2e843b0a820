"""How the Kafka clients behave while the broker is down, and when another broker replaces it."""

from __future__ import annotations

import asyncio
import gc
import shutil
import time
from contextlib import suppress
from pathlib import Path

import pytest
from aiokafka import AIOKafkaProducer
from aiokafka.errors import UnknownError

from common.errors import Unavailable
from common.kafka.cluster import ensure_topics, read_cluster_id
from common.kafka.consumer import KafkaSource
from common.kafka.idempotent import IdempotentProducer, Message
from common.kafka.log import KafkaLog
from common.kafka.producer import KafkaPublisher
from common.kafka.record import Partition, Record, TopicReplaced
from common.settings import Encoding, KafkaSettings, TopicSettings
from tests.support.kafka import Broker, embedded_broker
from tests.support.ports import free_port


async def nothing(_: frozenset[Partition]) -> None:
    """Does nothing when partitions move."""


async def test_unavailable_broker_is_reported_within_the_deadline() -> None:
    settings = KafkaSettings(bootstrap=f"127.0.0.1:{free_port()}", request_timeout_s=1.0)
    publisher, source = KafkaPublisher(settings), KafkaSource(settings)
    started_s = time.monotonic()

    with pytest.raises(Unavailable):
        await publisher.publish("t", b"v")
    with pytest.raises(Unavailable):
        await source.open(on_revoked=nothing, on_assigned=nothing)
    with pytest.raises(Unavailable):
        await source.lag()
    with pytest.raises(Unavailable):
        await ensure_topics(settings)
    with pytest.raises(Unavailable):
        _ = [chunk async for chunk in KafkaLog(settings).read("t")]

    assert time.monotonic() - started_s < 30
    await publisher.close()
    await source.close()


def test_new_broker_is_read_from_its_beginning(tmp_path: Path) -> None:
    with embedded_broker(tmp_path) as broker:
        settings = broker.settings(
            group="g", topics={"t": TopicSettings(encoding=Encoding.OTLP_PROTO)}, partitions=1, request_timeout_s=10.0
        )

        async def read_one(source: KafkaSource) -> Record:
            async with asyncio.timeout(120):
                while not (records := await source.poll(timeout_s=0.1, records_max=1)):
                    pass
            return records[0]

        async def replace() -> None:
            publisher, source = (
                KafkaPublisher(settings),
                KafkaSource(settings),
            )
            await ensure_topics(settings)
            for value in (b"0", b"1", b"2"):
                await publisher.publish("t", value)
            await source.open(on_revoked=nothing, on_assigned=nothing)
            before = [await read_one(source) for _ in range(3)][-1]
            await source.commit({before.source: before.next_offset})
            log_before = source.partition_id_of(before.source)

            await asyncio.to_thread(broker.kill)
            shutil.rmtree(tmp_path / "data")
            await asyncio.to_thread(broker.start)
            await ensure_topics(settings)
            await publisher.publish("t", b"new")
            try:
                after = await read_one(source)
            except TopicReplaced:  # if it notices the topic before the group
                await source.open(on_revoked=nothing, on_assigned=nothing)
                after = await read_one(source)

            assert (after.value, after.offset) == (b"new", 0)
            assert source.partition_id_of(after.source) != log_before
            await publisher.close()
            await source.close()

        asyncio.run(replace())


async def test_cancelled_starts_leave_no_connection_open(embedded: Broker, unique: str) -> None:
    """A connection that nobody closed is a warning when it is collected, and a warning fails the test."""
    settings = embedded.settings(topics={unique: TopicSettings(encoding=Encoding.OTLP_PROTO)})
    for number in range(30):
        asking = asyncio.create_task(read_cluster_id(settings))
        await asyncio.sleep(number / 5_000)
        asking.cancel()
        with suppress(asyncio.CancelledError):
            await asking

    gc.collect()


async def test_cluster_without_idempotent_producers_is_named(
    embedded: Broker, unique: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def start(_producer: AIOKafkaProducer) -> None:
        raise UnknownError

    monkeypatch.setattr(AIOKafkaProducer, "start", start)
    producer = IdempotentProducer(embedded.settings(request_timeout_s=30))

    with pytest.raises(Unavailable, match="no id to an idempotent producer"):
        await producer.publish_all(unique, [Message(b"", b"")])

    await producer.close()
