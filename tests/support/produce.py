"""Records into Kafka from a plain test: one producer, any compression, headers, acknowledged when it returns."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence

from aiokafka import AIOKafkaProducer


def produce(
    bootstrap: str,
    topic: str,
    values: Sequence[bytes | None],
    *,
    headers: Sequence[tuple[str, bytes | None]] = (),
    key: bytes | None = None,
    compression: str | None = None,
) -> None:
    """Publish the values in order; returns when all are acknowledged."""
    asyncio.run(_produce(bootstrap, topic, values, headers, key, compression))


async def _produce(bootstrap, topic, values, headers, key, compression):
    producer = AIOKafkaProducer(
        bootstrap_servers=bootstrap,
        compression_type=compression,
        max_request_size=16 * 1024 * 1024,
        enable_idempotence=False,
        linger_ms=2,
    )
    await producer.start()
    try:
        await asyncio.gather(*[await producer.send(topic, value, key=key, headers=list(headers)) for value in values])
    finally:
        await producer.stop()
