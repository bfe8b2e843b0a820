"""What Kafka's log holds of a round. Each record of good spans carries a header that says what it is."""

from __future__ import annotations

from collections.abc import Collection
from typing import Final, NamedTuple

from aiokafka import AIOKafkaConsumer, TopicPartition

from common.kafka.cluster import partitions_of
from common.settings import KafkaSettings

MARK: Final = "x-fault-record"
FETCH_MS: Final = 200


class LoggedRecord(NamedTuple):
    """A record in the log: which one of its producer, from which attempt, and where."""

    at: int
    attempt: int
    partition: TopicPartition
    offset: int


def mark_of(round_name: str, at: int, attempt: int) -> list[tuple[str, bytes]]:
    """Return the header of the record ``at`` of a round."""
    return [(MARK, f"{round_name}|{at}|{attempt}".encode())]


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


def _mark_in(headers: Collection[tuple[str, bytes | None]], round_name: str) -> tuple[int, int] | None:
    """Return number and attempt of a record of this round."""
    for name, value in headers:
        if name == MARK and value is not None:
            owner, at, attempt = value.decode().split("|")
            if owner == round_name:
                return int(at), int(attempt)
    return None
