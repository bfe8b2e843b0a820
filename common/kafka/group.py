"""What a consumer group has not committed yet, asked from outside of it."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Collection
from contextlib import asynccontextmanager

from aiokafka import AIOKafkaConsumer, TopicPartition

from common.kafka.cluster import partitions_of
from common.kafka.driver import quieten_driver, translated
from common.kafka.ends import FETCH_WAIT_MS, end_offsets
from common.settings import KafkaSettings


async def uncommitted_count(settings: KafkaSettings, topics: Collection[str]) -> int:
    """Records of ``topics`` beyond what ``settings.group`` has committed. Raises ``Unavailable`` (transient)."""
    partitions = [TopicPartition(topic, each) for topic in topics for each in await partitions_of(settings, topic)]
    async with _connected(settings) as consumer:
        consumer.assign(partitions)
        ends = await end_offsets(consumer, partitions)
        return sum([end - (await consumer.committed(each) or 0) for each, end in ends.items()])


@asynccontextmanager
async def _connected(settings: KafkaSettings) -> AsyncIterator[AIOKafkaConsumer]:
    quieten_driver()
    consumer = AIOKafkaConsumer(
        bootstrap_servers=settings.bootstrap,
        group_id=settings.group,
        enable_auto_commit=False,
        fetch_max_wait_ms=FETCH_WAIT_MS,
        request_timeout_ms=int(settings.request_timeout_s * 1000),
    )
    with translated("read the group's offsets"):
        try:
            async with asyncio.timeout(settings.request_timeout_s):
                await consumer.start()
                yield consumer
        finally:
            await consumer.stop()
