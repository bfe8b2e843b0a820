"""The options given to the driver's producer; the contract tests check how brokers act on them."""

from __future__ import annotations

import asyncio
from types import SimpleNamespace
from typing import Any

import pytest

from common.errors import Unavailable
from common.kafka import producer
from common.kafka.producer import KafkaPublisher
from common.kafka.record import Coordinates
from common.settings import KafkaSettings
from tests.fakes.kafka_driver import RememberedDriver


class _Producer(RememberedDriver):
    """A driver that starts at the second try, and acknowledges at once."""

    async def start(self) -> None:
        if len(self.made) == 1:
            raise ConnectionRefusedError

    @property
    def client(self) -> SimpleNamespace:
        return SimpleNamespace(cluster=SimpleNamespace(partitions_for_topic=lambda _topic: {0, 1}))

    async def partitions_for(self, topic: str) -> set[int]:
        return {0, 1}

    async def send(self, topic: str, value: bytes, **_record: Any) -> asyncio.Future[SimpleNamespace]:
        delivery: asyncio.Future[SimpleNamespace] = asyncio.get_running_loop().create_future()
        delivery.set_result(SimpleNamespace(topic=topic, partition=1, offset=len(value)))
        return delivery


@pytest.fixture
def made(monkeypatch: pytest.MonkeyPatch) -> list[_Producer]:
    return _Producer.in_place_of("AIOKafkaProducer", producer, monkeypatch)


async def test_all_in_sync_replicas_acknowledge(made: list[_Producer]) -> None:
    publisher = KafkaPublisher(KafkaSettings())
    with pytest.raises(Unavailable):
        await publisher.publish("t", b"value")

    assert await publisher.publish("t", b"value") == Coordinates("t", 1, 5)
    assert await publisher.publish("t", b"") == Coordinates("t", 1, 0)

    assert [driver.is_stopped for driver in made] == [True, False]
    assert made[1].options["acks"] == "all"


async def test_closed_publisher_does_not_connect(made: list[_Producer]) -> None:
    publisher = KafkaPublisher(KafkaSettings())
    await publisher.close()
    await publisher.close()

    with pytest.raises(Unavailable, match="closed"):
        await publisher.publish("t", b"value")
    assert made == []


async def test_partition_that_the_topic_no_longer_has_is_unavailable(made: list[_Producer]) -> None:
    publisher = KafkaPublisher(KafkaSettings())
    assert publisher.partitions_count("t") is None
    with pytest.raises(Unavailable):
        await publisher.publish("t", b"connects at the second try")
    await publisher.publish("t", b"value")

    assert publisher.partitions_count("t") == 2
    await publisher.publish("t", b"value", partition=1)
    with pytest.raises(Unavailable, match="has no partition 2 any more"):
        await publisher.publish("t", b"value", partition=2)

    assert [driver.is_stopped for driver in made] == [True, False]
