"""A cancellation while a client of the driver stops reaches the caller, although the driver swallows cancellations
then."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from contextlib import suppress

import pytest
from aiokafka.client import AIOKafkaClient

from common.kafka.cluster import ensure_topics, open_admin
from common.kafka.consumer import KafkaSource
from common.kafka.driver import open_reader
from common.kafka.producer import KafkaPublisher
from common.settings import KafkaSettings
from tests.support.kafka import Broker


async def end_an_admin(settings: KafkaSettings) -> None:
    async with open_admin(settings):
        """Connected."""


async def end_a_reader(settings: KafkaSettings) -> None:
    async with open_reader(settings):
        """Connected."""


async def end_a_publisher(settings: KafkaSettings) -> None:
    publisher = KafkaPublisher(settings)
    await publisher.publish(settings.stored_topic, b"")
    await publisher.close()


async def end_a_member_of_a_group(settings: KafkaSettings) -> None:
    async def nothing(_: object) -> None:
        """Partitions do not matter here."""

    source = KafkaSource(settings)
    await source.open(on_revoked=nothing, on_assigned=nothing)
    await source.close()


@pytest.mark.parametrize("end", [end_an_admin, end_a_reader, end_a_publisher, end_a_member_of_a_group])
async def test_cancellation_during_the_stop_is_not_lost(
    embedded: Broker, unique: str, monkeypatch: pytest.MonkeyPatch, end: Callable[[KafkaSettings], Awaitable[None]]
) -> None:
    settings = embedded.settings(group=unique)
    await ensure_topics(settings)
    is_ending = asyncio.Event()
    close = AIOKafkaClient.close

    async def close_and_report(client: AIOKafkaClient) -> None:
        is_ending.set()
        await close(client)

    async def for_ever() -> None:
        while True:
            await end(settings)
            await asyncio.sleep(3_600)

    monkeypatch.setattr(AIOKafkaClient, "close", close_and_report)
    task = asyncio.create_task(for_ever())
    await is_ending.wait()

    task.cancel()
    await asyncio.wait({task}, timeout=60.0)
    is_heard = task.cancelled()
    task.cancel()
    with suppress(asyncio.CancelledError):
        await task

    assert is_heard
