"""Where partitions end, asked so that the embedded broker tells the truth too.

Its answer to ListOffsets counts batches where Kafka counts records: it names an offset somewhere before the end. The high
watermark that comes with a fetch is right on both, so a fetch from the named offset settles it.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from aiokafka import AIOKafkaConsumer, TopicPartition

from common.errors import Unavailable

FETCH_WAIT_MS: Final = 50
"""How long the broker holds a fetch that finds nothing; consumers that ask for ends are made with it."""

FETCH_BYTES_MAX: Final = 1
"""For who asks for ends and reads nothing: the broker sends one batch a partition, and it does not send less."""

TRIES_MAX: Final = 20
POLL_MS: Final = 200


async def end_offsets(consumer: AIOKafkaConsumer, partitions: Sequence[TopicPartition]) -> dict[TopicPartition, int]:
    """The offset behind the last record of each partition. Moves the positions of ``consumer``, which is assigned to them.

    Raises ``Unavailable`` (transient) when the broker does not say it in time: half an answer would name an end too early.
    """
    named: dict[TopicPartition, int] = await consumer.end_offsets(partitions)
    for partition, offset in named.items():
        consumer.seek(partition, offset)
    tries = 0
    while unknown := [each for each in partitions if consumer.highwater(each) is None]:
        if tries == TRIES_MAX:
            raise Unavailable(f"Kafka does not say where {unknown[0].topic}/{unknown[0].partition} ends.")
        tries += 1
        await consumer.getmany(*unknown, timeout_ms=POLL_MS, max_records=1)
    return {each: max(offset, consumer.highwater(each)) for each, offset in named.items()}
