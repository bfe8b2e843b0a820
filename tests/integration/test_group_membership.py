"""A member of the consumer group that the driver has given up comes back by polling."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from typing import Any

import pytest
from aiokafka.consumer.group_coordinator import GroupCoordinator
from aiokafka.errors import GroupAuthorizationFailedError

from common.errors import ServiceError
from common.kafka import consumer
from common.kafka.cluster import ensure_topics
from common.kafka.consumer import KafkaSource
from common.kafka.producer import KafkaPublisher
from common.kafka.record import Partition, Record
from common.settings import Encoding, KafkaSettings, TopicSettings
from tests.support.kafka import Broker

POLL_INTERVAL_S = 2.0


@pytest.fixture(params=["embedded", pytest.param("kafka", marks=pytest.mark.kafka)])
async def settings(request: pytest.FixtureRequest, unique: str) -> KafkaSettings:
    broker: Broker = request.getfixturevalue(request.param)
    topics = {unique: TopicSettings(encoding=Encoding.OTLP_PROTO)}
    configured = broker.settings(group=unique, topics=topics, partitions=1, session_timeout_s=2.0)
    await ensure_topics(configured)
    return configured


class Member:
    """A source, and how often it lost its partitions."""

    def __init__(self, settings: KafkaSettings) -> None:
        self.source = KafkaSource(settings)
        self.lost_count = 0

    async def on_revoked(self, partitions: frozenset[Partition]) -> None:
        self.lost_count += bool(partitions)

    async def on_assigned(self, _partitions: frozenset[Partition]) -> None:
        """Read on."""

    async def read(self, count: int) -> list[Record]:
        records: list[Record] = []
        async with asyncio.timeout(60):
            while len(records) < count:
                records += await self.source.poll(timeout_s=0.1, records_max=100)
        return records


@pytest.fixture
async def member(settings: KafkaSettings, monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[Member]:
    monkeypatch.setattr(consumer, "MAX_POLL_INTERVAL_S", POLL_INTERVAL_S)
    opened = Member(settings)
    await opened.source.open(on_revoked=opened.on_revoked, on_assigned=opened.on_assigned)
    yield opened
    await opened.source.close()


async def publish(settings: KafkaSettings, value: bytes) -> None:
    publisher = KafkaPublisher(settings)
    try:
        (topic,) = settings.topics
        await publisher.publish(topic, value)
    finally:
        await publisher.close()


async def test_member_that_did_not_poll_for_too_long_joins_again(settings: KafkaSettings, member: Member) -> None:
    await publish(settings, b"first")
    await member.read(1)

    async with asyncio.timeout(60):
        while not member.lost_count:  # noqa: ASYNC110 - the driver leaves the group by itself
            await asyncio.sleep(0.1)
    await publish(settings, b"later")

    assert (await member.read(1))[-1].value in {b"first", b"later"}


async def test_join_that_failed_once_is_reported_and_tried_again(
    settings: KafkaSettings, member: Member, monkeypatch: pytest.MonkeyPatch
) -> None:
    await publish(settings, b"first")
    await member.read(1)
    join = GroupCoordinator._do_rejoin_group
    joins: list[None] = []

    async def fail_once(coordinator: GroupCoordinator, *arguments: Any) -> Any:
        joins.append(None)
        if len(joins) == 1:
            raise GroupAuthorizationFailedError("the group")
        return await join(coordinator, *arguments)

    monkeypatch.setattr(GroupCoordinator, "_do_rejoin_group", fail_once)
    member.source._opened()._coordinator.request_rejoin()

    is_reported = False
    values: list[bytes | None] = []
    async with asyncio.timeout(60):
        while not (is_reported and values):
            try:
                values += [record.value for record in await member.source.poll(timeout_s=0.1, records_max=100)]
            except ServiceError as exc:  # the driver may report one failure twice
                is_reported = is_reported or "GroupAuthorizationFailed: the group" in exc.detail
                await publish(settings, b"later")

    assert len(joins) > 1
