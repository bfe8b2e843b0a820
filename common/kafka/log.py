"""A topic read from end to end, outside of any group: a ``RecordLog`` on the driver's consumer."""

from __future__ import annotations

from collections.abc import AsyncIterator, Sequence
from typing import Final

from aiokafka import AIOKafkaConsumer, TopicPartition

from common.errors import Unavailable
from common.kafka.cluster import partitions_of
from common.kafka.consumer import as_record
from common.kafka.driver import translated
from common.kafka.reader import open_reader
from common.kafka.record import Coordinates, Record
from common.kafka.watermarks import end_offsets
from common.settings import KafkaSettings

CHUNK_RECORDS: Final = 500
SILENCE_S_MAX: Final = 10.0
"""A broker that sends nothing for so long, although the end is not reached, counts as away."""

TAIL_QUIET_S: Final = 1.0
"""How long a tail waits for something before it says that all is quiet."""

TAIL_FETCH_WAIT_MS: Final = 250
"""What comes ends the fetch at once on Kafka, and within 80 ms on the embedded broker; this is what idling costs."""


class KafkaLog:
    """Reads topics of one cluster; a connection for each call."""

    def __init__(self, settings: KafkaSettings) -> None:
        self._settings = settings

    async def read(self, topic: str) -> AsyncIterator[Sequence[Record]]:
        """Everything that was there when the reading began, in chunks, in offset order per partition."""
        async with open_reader(self._settings) as consumer:
            with translated("read the topic"):
                partitions = [TopicPartition(topic, each) for each in await partitions_of(self._settings, topic)]
                if not partitions:
                    return
                consumer.assign(partitions)
                ends = await end_offsets(consumer, partitions)
                await consumer.seek_to_beginning(*partitions)
            left = {each for each in partitions if ends[each] > 0}
            while left := await self._unread(consumer, left, ends):
                with translated("read the topic"):
                    taken = await consumer.getmany(
                        *left, timeout_ms=int(SILENCE_S_MAX * 1000), max_records=CHUNK_RECORDS
                    )
                if not taken:
                    raise Unavailable(f"Kafka sent nothing of {topic} for {SILENCE_S_MAX:g} s.")
                yield [as_record(each) for at, records in taken.items() for each in records if each.offset < ends[at]]

    async def tail(self, topic: str) -> AsyncIterator[Sequence[Record]]:
        """What is published from now on; the first chunk is empty, and one now and then while all is quiet."""
        async with open_reader(self._settings, fetch_wait_ms=TAIL_FETCH_WAIT_MS) as consumer:
            with translated("follow the topic"):
                partitions = [TopicPartition(topic, each) for each in await partitions_of(self._settings, topic)]
                if not partitions:
                    raise Unavailable(f"There is no topic {topic} yet.")
                consumer.assign(partitions)
                for partition, end in (await end_offsets(consumer, partitions)).items():
                    consumer.seek(partition, end)
            yield []
            while True:
                with translated("follow the topic"):
                    taken = await consumer.getmany(
                        *partitions, timeout_ms=int(TAIL_QUIET_S * 1000), max_records=CHUNK_RECORDS
                    )
                    for partition in partitions:
                        end = consumer.highwater(partition)
                        if end is not None and end < await consumer.position(partition):
                            raise Unavailable(f"The topic {topic} has begun anew.")
                yield [as_record(each) for records in taken.values() for each in records]

    async def fetch(self, where: Coordinates) -> Record | None:
        """The record at these coordinates, or ``None``. Raises ``Unavailable`` (transient)."""
        async with open_reader(self._settings) as consumer:
            with translated("fetch a record"):
                if where.partition not in await partitions_of(self._settings, where.topic):
                    return None
                at = TopicPartition(where.topic, where.partition)
                consumer.assign([at])
                first = (await consumer.beginning_offsets([at]))[at]
                end = (await end_offsets(consumer, [at]))[at]
                if not first <= where.offset < end:
                    return None
                consumer.seek(at, where.offset)
                taken = await consumer.getmany(at, timeout_ms=int(SILENCE_S_MAX * 1000), max_records=1)
        found = [each for each in taken.get(at, []) if each.offset == where.offset]
        return as_record(found[0]) if found else None

    async def _unread(
        self, consumer: AIOKafkaConsumer, left: set[TopicPartition], ends: dict[TopicPartition, int]
    ) -> set[TopicPartition]:
        with translated("read the topic"):
            return {each for each in left if await consumer.position(each) < ends[each]}
