"""An idempotent producer to any cluster: what a try publishes is in order and without duplicates in its partitions."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from typing import Final, NamedTuple

from aiokafka import AIOKafkaProducer
from aiokafka.errors import UnknownError

from common.errors import Unavailable
from common.kafka.driver import ended, prepare_driver, started, translated
from common.kafka.producer import BATCH_BYTES, FRAME_BYTES
from common.kafka.record import Header
from common.kafka.security import LastFailure, client_options
from common.settings import KafkaSettings

LINGER_MS: Final = 5
STOP_S: Final = 5.0
"""How long the end of a producer whose records failed may take."""


class Message(NamedTuple):
    """A record to publish."""

    key: bytes
    value: bytes
    headers: Sequence[Header] = ()


class IdempotentProducer:
    """Publishes to one cluster; connects with the first record. Acknowledged by all in-sync replicas.

    When a record fails, the connection is closed with everything that it still held, so that nothing of a failed try
    arrives between the records of the next one.
    """

    def __init__(self, settings: KafkaSettings) -> None:
        self._settings = settings
        self._timeout_s = settings.request_timeout_s
        self._producer: AIOKafkaProducer | None = None
        self._last_failure = LastFailure(settings)

    async def publish_all(self, topic: str, messages: Sequence[Message]) -> None:
        """Publish records and wait for all acknowledgements. Raises ``Unavailable``, ``TooLarge``, ``ServiceError``."""
        try:
            with translated("publish", self._last_failure):
                async with asyncio.timeout(self._timeout_s):
                    producer = await self._connected()
                    sent = [
                        await producer.send(topic, value, key=key, headers=list(headers))
                        for key, value, headers in messages
                    ]
                    await asyncio.gather(*sent)
        except BaseException:
            await self._drop()
            raise

    async def partitions_count(self, topic: str) -> int:
        """Return how many partitions a topic has; 0 if there is no such topic. Raises ``Unavailable``."""
        with translated("describe the topic", self._last_failure):
            async with asyncio.timeout(self._timeout_s):
                producer = await self._connected()
                # `partitions_for` waits for a topic that does not exist until its timeout.
                metadata = await producer.client.fetch_all_metadata()
                return len(metadata.partitions_for_topic(topic) or ())

    async def close(self) -> None:
        """Flush and disconnect. Safe to call twice."""
        await self._drop()

    async def _connected(self) -> AIOKafkaProducer:
        if self._producer is None:
            self._producer = await self._connect()
        return self._producer

    async def _connect(self) -> AIOKafkaProducer:
        prepare_driver()
        producer = AIOKafkaProducer(
            **client_options(self._settings),
            enable_idempotence=True,
            acks="all",
            linger_ms=LINGER_MS,
            max_batch_size=BATCH_BYTES,
            max_request_size=self._settings.message_bytes_max + FRAME_BYTES,
            request_timeout_ms=int(self._timeout_s * 1000),
        )
        try:
            await started(producer.start())
        except UnknownError as exc:
            await ended(producer.stop())
            detail = f"The cluster gives no id to an idempotent producer ({type(exc).__name__}); Apache Kafka does."
            raise Unavailable(detail) from exc
        except BaseException:
            await ended(producer.stop())
            raise
        return producer

    async def _drop(self) -> None:
        producer, self._producer = self._producer, None
        if producer is not None:
            stopping = asyncio.ensure_future(ended(producer.stop()))
            done, _ = await asyncio.wait({stopping}, timeout=STOP_S)
            if not done:
                stopping.cancel()
                raise Unavailable("The producer did not end in time.")
