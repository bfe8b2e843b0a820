"""Reading a topic outside of any group: a ``RecordLog`` on the driver's consumer."""

from __future__ import annotations

from collections.abc import AsyncGenerator, AsyncIterator, Mapping, Sequence
from typing import Final

from aiokafka import AIOKafkaConsumer, TopicPartition

from common.errors import Unavailable
from common.kafka.cluster import partitions_of
from common.kafka.consumer import as_record
from common.kafka.driver import open_reader, translated
from common.kafka.record import Record
from common.settings import KafkaSettings

CHUNK_RECORDS: Final = 500
SILENCE_S_MAX: Final = 10.0
"""A broker that sends nothing for this long, although the end is not reached, counts as unavailable."""

TAIL_QUIET_S: Final = 1.0
"""How long a tail waits for records before it yields an empty chunk."""

TAIL_FETCH_WAIT_MS: Final = 250
"""The interval of fetches while nothing arrives. A new record ends the wait: at once on Apache Kafka."""


class KafkaLog:
    """Reads topics of one cluster, over one connection per call."""

    def __init__(self, settings: KafkaSettings) -> None:
        self._settings = settings

    async def read(self, topic: str) -> AsyncIterator[Sequence[Record]]:
        """Yield everything that was in the topic when the reading began, in chunks, in offset order per partition."""
        async for records in self.read_ranges(topic, await self.extent(topic)):
            yield records

    async def extent(self, topic: str) -> Mapping[int, range]:
        """Return the offsets that each partition holds now. Raises ``Unavailable`` (transient)."""
        async with open_reader(self._settings) as reader:
            with translated("ask for offsets"):
                partitions = await partitions_of(self._settings, [topic])
                reader.assign(partitions)
                firsts = await reader.beginning_offsets(partitions)
                ends = await reader.end_offsets(partitions)
        return {at.partition: range(firsts[at], ends[at]) for at in partitions}

    async def read_ranges(self, topic: str, ranges: Mapping[int, range]) -> AsyncGenerator[Sequence[Record], None]:
        """Yield the records at these offsets, in chunks, in offset order per partition."""
        wanted = {TopicPartition(topic, number): offsets for number, offsets in ranges.items() if offsets}
        if not wanted:
            return
        async with open_reader(self._settings) as reader:
            with translated("read the topic"):
                reader.assign(list(wanted))
                for at, offsets in wanted.items():
                    reader.seek(at, offsets.start)
            async for records in _read_until(reader, topic, {at: offsets.stop for at, offsets in wanted.items()}):
                yield records

    async def tail(self, topic: str) -> AsyncIterator[Sequence[Record]]:
        """Yield what is published from now on; an empty chunk at the beginning, and while nothing arrives."""
        async with open_reader(self._settings, fetch_wait_ms=TAIL_FETCH_WAIT_MS) as reader:
            with translated("follow the topic"):
                partitions = await partitions_of(self._settings, [topic])
                if not partitions:
                    raise Unavailable(f"The topic {topic} does not exist yet.")
                reader.assign(partitions)
                await reader.seek_to_end(*partitions)
            yield []
            while True:
                with translated("follow the topic"):
                    fetched = await reader.getmany(
                        *partitions, timeout_ms=int(TAIL_QUIET_S * 1000), max_records=CHUNK_RECORDS
                    )
                    for partition in partitions:
                        end = reader.highwater(partition)
                        if end is not None and end < await reader.position(partition):
                            raise Unavailable(f"The topic {topic} was deleted and created again.")
                yield [as_record(record) for records in fetched.values() for record in records]


async def _read_until(
    reader: AIOKafkaConsumer, topic: str, ends: Mapping[TopicPartition, int]
) -> AsyncIterator[Sequence[Record]]:
    """Yield the records from the reader's positions to these offsets. Raises ``Unavailable`` (transient)."""
    unread = list(ends)
    while True:
        with translated("read the topic"):
            unread = [partition for partition in unread if await reader.position(partition) < ends[partition]]
            if not unread:
                return
            fetched = await reader.getmany(*unread, timeout_ms=int(SILENCE_S_MAX * 1000), max_records=CHUNK_RECORDS)
        if not fetched:
            raise Unavailable(f"Kafka sent no records of {topic} for {SILENCE_S_MAX:g} s.")
        yield [as_record(record) for at, records in fetched.items() for record in records if record.offset < ends[at]]
