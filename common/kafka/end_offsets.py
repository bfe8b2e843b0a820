"""Where the logs of our topics end, asked again and again: a ``EndOffsets`` on a connection that stays open.

A connection is given up after a while and after any failure, and the next one learns anew which partitions there are. A
broker that was made anew keeps its address and begins all its logs again, and the driver finds back to it without a word: so
each time it is asked, too, which cluster this is.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Mapping
from contextlib import AsyncExitStack
from dataclasses import dataclass
from typing import Final

from aiokafka import AIOKafkaConsumer, TopicPartition
from aiokafka.admin import AIOKafkaAdminClient

from common.kafka.cluster import cluster_id_of, open_admin, partitions_of
from common.kafka.driver import translated
from common.kafka.reader import open_reader
from common.kafka.watermarks import FETCH_BYTES_MAX, end_offsets
from common.settings import KafkaSettings

CONNECTION_AGE_MAX_S: Final = 60.0
"""A partition that was added is seen within that time."""


@dataclass(frozen=True, slots=True)
class _Connection:
    admin: AIOKafkaAdminClient
    consumer: AIOKafkaConsumer
    cluster_id: str
    partitions: tuple[TopicPartition, ...]
    opened_s: float
    resources: AsyncExitStack


class KafkaEndOffsets:
    """Asks one cluster for the ends of ``settings.topics``. One call at a time."""

    def __init__(self, settings: KafkaSettings) -> None:
        self._settings = settings
        self._connection: _Connection | None = None

    async def ask(self) -> Mapping[str, int]:
        """The offset behind the last record of each partition, by log. Raises ``Unavailable`` (transient)."""
        if self._connection is not None and time.monotonic() - self._connection.opened_s > CONNECTION_AGE_MAX_S:
            await self.close()
        try:
            with translated("ask for the ends"):
                async with asyncio.timeout(self._settings.request_timeout_s):
                    return await self._ask()
        except BaseException:
            await self.close()
            raise

    async def close(self) -> None:
        """Let go of the connection. Safe to call twice."""
        connection, self._connection = self._connection, None
        if connection is not None:
            with translated("close"):
                await connection.resources.aclose()

    async def _ask(self) -> Mapping[str, int]:
        while True:
            connection = self._connection or await self._connect()
            # Anew each time: what it has heard of ends before is forgotten.
            connection.consumer.assign(connection.partitions)
            ends = await end_offsets(connection.consumer, connection.partitions)
            # Asked behind the ends: what it answers holds for them.
            if await cluster_id_of(connection.admin, self._settings) == connection.cluster_id:
                return {f"{connection.cluster_id}/{each.topic}/{each.partition}": end for each, end in ends.items()}
            await self.close()

    async def _connect(self) -> _Connection:
        settings = self._settings
        async with AsyncExitStack() as opening:
            admin = await opening.enter_async_context(open_admin(settings))
            cluster_id = await cluster_id_of(admin, settings)
            partitions = [
                TopicPartition(topic, each)
                for topic in settings.topics
                for each in await partitions_of(settings, topic)
            ]
            consumer = await opening.enter_async_context(open_reader(settings, partition_bytes_max=FETCH_BYTES_MAX))
            resources = opening.pop_all()
        self._connection = _Connection(admin, consumer, cluster_id, tuple(partitions), time.monotonic(), resources)
        return self._connection
