"""End offsets of the topics that the worker reads, and what its group has not committed yet.

Both read offsets only, from outside of the group. End offsets are high watermarks: they include open transactions.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Collection, Mapping
from contextlib import AsyncExitStack
from dataclasses import dataclass
from typing import Final

from aiokafka import AIOKafkaConsumer, TopicPartition
from aiokafka.admin import AIOKafkaAdminClient

from common.kafka.cluster import cluster_id_of, open_admin, partitions_of
from common.kafka.driver import open_reader, translated
from common.kafka.record import Partition
from common.settings import KafkaSettings

CONNECTION_AGE_MAX_S: Final = 60.0
"""A new partition is noticed within this time."""


async def uncommitted_count(settings: KafkaSettings, topics: Collection[str]) -> int:
    """Count the records of ``topics`` that ``settings.group`` has not committed. Raises ``Unavailable`` (transient)."""
    return sum((await uncommitted(settings, topics)).values())


async def uncommitted(settings: KafkaSettings, topics: Collection[str]) -> dict[Partition, int]:
    """Count the same by partition; partitions without any are absent. Raises ``Unavailable`` (transient)."""
    partitions = await partitions_of(settings, topics)
    async with open_reader(settings, group=settings.group, isolation_level="read_uncommitted") as reader:
        with translated("read the group's offsets"):
            async with asyncio.timeout(settings.request_timeout_s):
                ends = await reader.end_offsets(partitions)
                counts = {at: end - (await reader.committed(at) or 0) for at, end in ends.items()}
    return {Partition(at.topic, at.partition): count for at, count in counts.items() if count > 0}


@dataclass(frozen=True, slots=True)
class _Connection:
    admin: AIOKafkaAdminClient
    reader: AIOKafkaConsumer
    cluster_id: str
    partitions: list[TopicPartition]
    opened_s: float
    resources: AsyncExitStack


class KafkaEndOffsets:
    """``EndOffsets`` of ``settings.topics``, over a connection that stays open. One call at a time.

    The connection is closed after ``CONNECTION_AGE_MAX_S`` and after any failure. A cluster that was replaced by a new
    one at the same address starts all offsets at 0, and the driver reconnects to it silently: so every call also asks
    for the cluster id.
    """

    def __init__(self, settings: KafkaSettings) -> None:
        self._settings = settings
        self._connection: _Connection | None = None

    async def ask(self) -> Mapping[str, int]:
        """Return the end offset of each partition, by partition id. Raises ``Unavailable`` (transient)."""
        if self._connection is not None and time.monotonic() - self._connection.opened_s > CONNECTION_AGE_MAX_S:
            await self.close()
        try:
            with translated("ask for end offsets"):
                async with asyncio.timeout(self._settings.request_timeout_s):
                    return await self._ask()
        except BaseException:
            await self.close()
            raise

    async def close(self) -> None:
        """Close the connection. Safe to call twice."""
        connection, self._connection = self._connection, None
        if connection is not None:
            with translated("close"):
                await connection.resources.aclose()

    async def _ask(self) -> Mapping[str, int]:
        while True:
            connection = self._connection or await self._connect()
            ends = await connection.reader.end_offsets(connection.partitions)
            # Asked after the offsets, so that the id is valid for them.
            if await cluster_id_of(connection.admin, self._settings) == connection.cluster_id:
                return {f"{connection.cluster_id}/{at.topic}/{at.partition}": end for at, end in ends.items()}
            await self.close()

    async def _connect(self) -> _Connection:
        async with AsyncExitStack() as opening:
            admin = await opening.enter_async_context(open_admin(self._settings))
            cluster_id = await cluster_id_of(admin, self._settings)
            partitions = await partitions_of(self._settings, self._settings.topics)
            reader = await opening.enter_async_context(open_reader(self._settings, isolation_level="read_uncommitted"))
            self._connection = _Connection(admin, reader, cluster_id, partitions, time.monotonic(), opening.pop_all())
        return self._connection
