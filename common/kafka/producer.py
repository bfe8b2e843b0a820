"""Producing records: a ``Publisher`` on the driver's producer. Acknowledged by all in-sync replicas, never by fewer."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from typing import Final

from aiokafka import AIOKafkaProducer

from common.errors import Unavailable
from common.fair_share import shielded
from common.kafka.driver import ended, prepare_driver, started, translated
from common.kafka.record import Coordinates, Header
from common.kafka.security import LastFailure, client_options
from common.settings import KafkaSettings

LINGER_MS: Final = 2
"""Long enough that concurrent publishes share a request, short compared with a round trip that waits for replicas."""

BATCH_BYTES: Final = 256 * 1024

FRAME_BYTES: Final = 16 * 1024
"""Added to ``message_bytes_max`` for the batch header, the key and the headers."""


class KafkaPublisher:
    """Publishes to one cluster. It connects with the first record, so it can be created while the broker is down.

    A publish that missed its deadline may still have arrived: delivery is at least once. The worker stores a record
    that arrives twice once (contract §4), so the producer is not idempotent.
    """

    def __init__(self, settings: KafkaSettings) -> None:
        self._settings = settings
        self._producer: AIOKafkaProducer | None = None
        self._connecting = asyncio.Lock()
        self._closed = False
        self._last_failure = LastFailure(settings)

    async def publish(
        self,
        topic: str,
        value: bytes,
        *,
        key: bytes | None = None,
        headers: Sequence[Header] = (),
        partition: int | None = None,
    ) -> Coordinates:
        """Publish and wait for the acknowledgement. Raises ``Unavailable`` (transient) or ``TooLarge``."""
        with translated("publish", self._last_failure):
            async with asyncio.timeout(self._settings.request_timeout_s):
                producer = await self._connected()
                if partition is not None and partition not in await producer.partitions_for(topic):
                    raise Unavailable(f"The topic {topic} has no partition {partition} any more.")
                delivery = await producer.send(topic, value, key=key, partition=partition, headers=list(headers))
                # Shielded: cancelling the future of one record would fail the other records of its batch.
                where = await shielded(delivery)
        return Coordinates(where.topic, where.partition, where.offset)

    def partitions_count(self, topic: str) -> int | None:
        """Return how many partitions the topic had when the broker was asked last; ``None`` before it was asked.

        The driver asks again every five minutes, as Kafka's own clients do.
        """
        if self._producer is None:
            return None
        partitions: set[int] | None = self._producer.client.cluster.partitions_for_topic(topic)
        return len(partitions) if partitions else None

    async def close(self) -> None:
        """Flush and disconnect. Safe to call twice."""
        self._closed = True
        producer, self._producer = self._producer, None
        if producer is not None:
            with translated("close"):
                async with asyncio.timeout(self._settings.request_timeout_s):
                    await ended(producer.stop())

    async def _connected(self) -> AIOKafkaProducer:
        async with self._connecting:
            if self._closed:
                raise Unavailable("The publisher is closed.")
            if self._producer is None:
                self._producer = await self._connect()
            return self._producer

    async def _connect(self) -> AIOKafkaProducer:
        prepare_driver()
        producer = AIOKafkaProducer(
            **client_options(self._settings),
            acks="all",
            linger_ms=LINGER_MS,
            max_batch_size=BATCH_BYTES,
            max_request_size=self._settings.message_bytes_max + FRAME_BYTES,
            request_timeout_ms=int(self._settings.request_timeout_s * 1000),
        )
        try:
            await started(producer.start())
        except BaseException:
            await ended(producer.stop())
            raise
        return producer
