"""What Kafka's log holds of a round. Each record of good spans carries a header that says what it is."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Collection, Iterable
from typing import Final, NamedTuple

from aiokafka import AIOKafkaConsumer, TopicPartition
from aiokafka.admin import RecordsToDelete

from common.kafka.cluster import ensure_topics, open_admin, partitions_of
from common.kafka.driver import open_reader
from common.settings import KafkaSettings

MARK: Final = "x-fault-record"
FETCH_MS: Final = 200
DELETED_S: Final = 1.0
"""How long the broker needs to delete a topic."""


class Mark(NamedTuple):
    """What a record says about itself: the numbers of its good spans, their attempt, and what must be refused.

    ``refused`` has the indexes of bad spans; ``None`` in it is the record as a whole.
    """

    numbers: range
    attempt: int
    refused: tuple[int | None, ...]


class LoggedRecord(NamedTuple):
    """A record in the log, and where it is."""

    mark: Mark
    partition: TopicPartition
    offset: int


def header_of(round_name: str, mark: Mark) -> tuple[str, bytes]:
    """Return the header of a record of a round."""
    numbers = {"start": mark.numbers.start, "stop": mark.numbers.stop}
    members = {"round": round_name, **numbers, "attempt": mark.attempt, "refused": mark.refused}
    return MARK, json.dumps(members).encode()


async def read_log(bootstrap: str, topics: Collection[str], round_name: str, *, since_ms: int) -> list[LoggedRecord]:
    """Return the records of a round that the log holds now; none is older than ``since_ms``."""
    partitions = await partitions_of(KafkaSettings(bootstrap=bootstrap), topics)
    reader = AIOKafkaConsumer(bootstrap_servers=bootstrap, enable_auto_commit=False)
    await reader.start()
    try:
        reader.assign(partitions)
        ends = await reader.end_offsets(partitions)
        for each, begin in (await reader.offsets_for_times(dict.fromkeys(partitions, since_ms))).items():
            reader.seek(each, ends[each] if begin is None else begin.offset)
        found: list[LoggedRecord] = []
        while any([await reader.position(each) < ends[each] for each in partitions]):
            for partition, records in (await reader.getmany(timeout_ms=FETCH_MS)).items():
                found += [
                    LoggedRecord(mark, partition, record.offset)
                    for record in records
                    if (mark := _mark_in(record.headers, round_name)) is not None
                ]
        return found
    finally:
        await reader.stop()


def numbers_of(records: Iterable[LoggedRecord]) -> set[int]:
    """Return the numbers of the good spans of records."""
    return {number for record in records for number in record.mark.numbers}


async def delete_half(bootstrap: str, records: Collection[LoggedRecord]) -> dict[TopicPartition, int]:
    """Delete the first half of these records in each partition, as retention does; return the first offsets left."""
    offsets: dict[TopicPartition, list[int]] = {}
    for record in records:
        offsets.setdefault(record.partition, []).append(record.offset)
    halves = {partition: (min(found) + max(found)) // 2 + 1 for partition, found in offsets.items()}
    async with open_admin(KafkaSettings(bootstrap=bootstrap)) as admin:
        await admin.delete_records({each: RecordsToDelete(before_offset=half) for each, half in halves.items()})
    return halves


async def create_again(settings: KafkaSettings, topic: str) -> None:
    """Delete a topic, and create it under the same name."""
    async with open_admin(settings) as admin:
        await admin.delete_topics([topic])
    await asyncio.sleep(DELETED_S)
    await ensure_topics(settings)


async def committed_offsets(bootstrap: str, topics: Collection[str]) -> dict[TopicPartition, int]:
    """Return the offset before which the consumer group has committed every record, by partition."""
    settings = KafkaSettings(bootstrap=bootstrap)
    partitions = await partitions_of(settings, topics)
    async with open_reader(settings, group=settings.group) as reader:
        return {each: await reader.committed(each) or 0 for each in partitions}


def _mark_in(headers: Collection[tuple[str, bytes | None]], round_name: str) -> Mark | None:
    """Return the mark of a record of this round."""
    for name, value in headers:
        if name == MARK and value is not None:
            members = json.loads(value)
            if members["round"] == round_name:
                return Mark(range(members["start"], members["stop"]), members["attempt"], tuple(members["refused"]))
    return None
