"""What Kafka's log holds of a round. Each record of good spans carries a header that says what it is."""

from __future__ import annotations

import asyncio
from collections.abc import Collection
from typing import Final, NamedTuple

from aiokafka import AIOKafkaConsumer, TopicPartition
from aiokafka.admin import RecordsToDelete

from common.kafka.cluster import ensure_topics, open_admin, partitions_of
from common.settings import KafkaSettings

MARK: Final = "x-fault-record"
FETCH_MS: Final = 200
DELETED_S: Final = 1.0
"""How long the broker needs to delete a topic."""


class LoggedRecord(NamedTuple):
    """A record in the log: the numbers of its good spans, their attempt, and where it is."""

    numbers: range
    attempt: int
    partition: TopicPartition
    offset: int


def mark_of(round_name: str, numbers: range, attempt: int) -> list[tuple[str, bytes]]:
    """Return the header of a record of a round."""
    return [(MARK, f"{round_name}|{numbers.start}|{numbers.stop}|{attempt}".encode())]


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
                    LoggedRecord(*mark, partition, record.offset)
                    for record in records
                    if (mark := _mark_in(record.headers, round_name)) is not None
                ]
        return found
    finally:
        await reader.stop()


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


def _mark_in(headers: Collection[tuple[str, bytes | None]], round_name: str) -> tuple[range, int] | None:
    """Return numbers and attempt of a record of this round."""
    for name, value in headers:
        if name == MARK and value is not None:
            owner, start, stop, attempt = value.decode().split("|")
            if owner == round_name:
                return range(int(start), int(stop)), int(attempt)
    return None
