"""What a consumer group has not committed yet, asked from outside of it."""

from __future__ import annotations

import asyncio
from collections.abc import Collection

from aiokafka import AIOKafkaConsumer, TopicPartition

from common.kafka.driver import quieten_driver, translated
from common.kafka.ends import FETCH_WAIT_MS, end_offsets
from common.settings import KafkaSettings


async def uncommitted_count(settings: KafkaSettings, topics: Collection[str]) -> int:
    """Records of ``topics`` beyond what ``settings.group`` has committed. Raises ``Unavailable`` (transient)."""
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
                await consumer.topics()
                partitions = [
                    TopicPartition(topic, number)
                    for topic in topics
                    for number in consumer.partitions_for_topic(topic) or ()
                ]
                consumer.assign(partitions)
                ends = await end_offsets(consumer, partitions)
                return sum([ends[each] - (await consumer.committed(each) or 0) for each in partitions])
        finally:
            await consumer.stop()
