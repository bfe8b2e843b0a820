"""Publish records to Kafka from a synchronous test, with any compression and headers."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence

from aiokafka import AIOKafkaProducer

from common.kafka.record import Coordinates


def produce(
    bootstrap: str,
    topic: str,
    values: Sequence[bytes | None],
    *,
    headers: Sequence[tuple[str, bytes | None]] = (),
    key: bytes | None = None,
    compression: str | None = None,
) -> list[Coordinates]:
    """Publish the values in order; return their coordinates after all are acknowledged."""
    return asyncio.run(_produce(bootstrap, topic, values, headers, key, compression))


async def _produce(bootstrap, topic, values, headers, key, compression):
    producer = AIOKafkaProducer(
        bootstrap_servers=bootstrap,
        compression_type=compression,
        max_request_size=16 * 1024 * 1024,
        enable_idempotence=False,
        linger_ms=2,
    )
    try:
        await producer.start()
        sent = [await producer.send(topic, value, key=key, headers=list(headers)) for value in values]
        return [Coordinates(each.topic, each.partition, each.offset) for each in await asyncio.gather(*sent)]
    finally:
        await producer.stop()
