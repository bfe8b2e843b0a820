"""What a consumer group has not committed yet, asked from outside of it."""

from __future__ import annotations

import asyncio
from collections.abc import Collection

from aiokafka import TopicPartition

from common.kafka.cluster import partitions_of
from common.kafka.driver import translated
from common.kafka.reader import open_reader
from common.kafka.record import Partition
from common.kafka.watermarks import FETCH_BYTES_MAX, end_offsets
from common.settings import KafkaSettings


async def uncommitted_count(settings: KafkaSettings, topics: Collection[str]) -> int:
    """Records of ``topics`` beyond what ``settings.group`` has committed. Raises ``Unavailable`` (transient)."""
    return sum((await uncommitted(settings, topics)).values())


async def uncommitted(settings: KafkaSettings, topics: Collection[str]) -> dict[Partition, int]:
    """The same by partition; those without any are absent."""
    partitions = [TopicPartition(topic, each) for topic in topics for each in await partitions_of(settings, topic)]
    async with open_reader(settings, group=settings.group, partition_bytes_max=FETCH_BYTES_MAX) as reader:
        with translated("read the group's offsets"):
            async with asyncio.timeout(settings.request_timeout_s):
                reader.assign(partitions)
                ends = await end_offsets(reader, partitions)
                counts = {each: end - (await reader.committed(each) or 0) for each, end in ends.items()}
    return {Partition(each.topic, each.partition): count for each, count in counts.items() if count > 0}
