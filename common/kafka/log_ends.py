"""Where the logs of our topics end, asked again and again: a ``LogEnds`` on a connection that stays open.

A connection is given up after a while and after any failure, and the next one learns anew which cluster this is and which
partitions there are: a broker that was made anew keeps its address and begins all its logs again.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

from aiokafka import AIOKafkaConsumer, TopicPartition

from common.kafka.cluster import partitions_of, read_cluster_id
from common.kafka.driver import translated
from common.kafka.ends import FETCH_BYTES_MAX, end_offsets
from common.kafka.reader import new_reader
from common.settings import KafkaSettings

CONNECTION_AGE_MAX_S: Final = 60.0
"""A partition that was added is seen within that time."""


@dataclass(frozen=True, slots=True)
class _Connection:
    consumer: AIOKafkaConsumer
    cluster_id: str
    partitions: tuple[TopicPartition, ...]
    opened_s: float


class KafkaLogEnds:
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
                    return await self._ask(self._connection or await self._connect())
        except BaseException:
            await self.close()
            raise

    async def close(self) -> None:
        """Let go of the connection. Safe to call twice."""
        connection, self._connection = self._connection, None
        if connection is not None:
            with translated("close"):
                await connection.consumer.stop()

    async def _ask(self, connection: _Connection) -> Mapping[str, int]:
        consumer = connection.consumer
        consumer.assign(connection.partitions)  # anew each time: what it has heard of ends before is forgotten
        ends = await end_offsets(consumer, connection.partitions)
        return {f"{connection.cluster_id}/{each.topic}/{each.partition}": end for each, end in ends.items()}

    async def _connect(self) -> _Connection:
        settings = self._settings
        cluster_id = await read_cluster_id(settings)
        partitions = [
            TopicPartition(topic, each) for topic in settings.topics for each in await partitions_of(settings, topic)
        ]
        consumer = new_reader(settings, partition_bytes_max=FETCH_BYTES_MAX)
        self._connection = _Connection(consumer, cluster_id, tuple(partitions), time.monotonic())
        await consumer.start()
        return self._connection
