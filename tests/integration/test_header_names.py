"""Header names that are not UTF-8, produced to and read from real brokers (ADR 0015)."""

from __future__ import annotations

import asyncio

import pytest
from aiokafka import AIOKafkaProducer
from aiokafka.producer import message_accumulator
from aiokafka.producer import producer as producers
from aiokafka.record.default_records import _DefaultRecordBatchBuilderPy

from common.kafka.cluster import ensure_topics
from common.kafka.consumer import KafkaSource
from common.kafka.log import KafkaLog
from common.kafka.record import Record
from common.settings import Encoding, TopicSettings
from tests.support.kafka import Broker


class NotUtf8(str):
    """A header name that a producer in another language may send."""

    __slots__ = ()

    def encode(self, *_: str) -> bytes:
        return b"\xff" + super().encode()


async def nobody(_: object) -> None:
    return None


async def produce(bootstrap: str, topic: str, values: list[bytes], compression: str | None) -> None:
    """Produce one batch; every second record has such a header name."""
    producer = AIOKafkaProducer(bootstrap_servers=bootstrap, compression_type=compression, linger_ms=200)
    await producer.start()
    try:
        sent = [
            await producer.send(topic, value, headers=[(NotUtf8("tenant") if number % 2 else "tenant", b"1")])
            for number, value in enumerate(values)
        ]
        await asyncio.gather(*sent)
    finally:
        await producer.stop()


@pytest.mark.parametrize("compression", [None, "gzip"])
@pytest.mark.parametrize("broker_name", ["embedded", pytest.param("kafka", marks=pytest.mark.kafka)])
async def test_every_record_is_read(
    request: pytest.FixtureRequest,
    unique: str,
    monkeypatch: pytest.MonkeyPatch,
    broker_name: str,
    compression: str | None,
) -> None:
    broker: Broker = request.getfixturevalue(broker_name)
    settings = broker.settings(group=unique, topics={unique: TopicSettings(encoding=Encoding.OTLP_PROTO)}, partitions=1)
    await ensure_topics(settings)
    for module in (message_accumulator, producers):  # the compiled builder accepts only str
        monkeypatch.setattr(module, "DefaultRecordBatchBuilder", _DefaultRecordBatchBuilderPy)
    values = [b"%d" % number for number in range(5)]
    await produce(broker.bootstrap, unique, values, compression)
    source = KafkaSource(settings)
    await source.open(on_revoked=nobody, on_assigned=nobody)

    records: list[Record] = []
    async with asyncio.timeout(120):
        while len(records) < len(values):
            records += await source.poll(timeout_s=0.2, records_max=2)
    await source.close()
    again = [record async for chunk in KafkaLog(settings).read(unique) for record in chunk]

    assert [record.value for record in records] == values
    assert [record.headers for record in records[:2]] == [(("tenant", b"1"),), (("\\xfftenant", b"1"),)]
    assert [record.value for record in again] == values
