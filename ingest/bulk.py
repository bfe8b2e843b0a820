"""Dead letters into their topic in bulk: many at once, each tried until Kafka has it, bounded in memory."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Iterable
from typing import Final, NamedTuple

from common.backoff import Backoff
from common.errors import ServiceError, TooLarge
from common.kafka.record import Header, Publisher, Record
from common.limits import MIB
from common.telemetry import get_logger
from ingest.readiness import Readiness

WAITING_MAX: Final = 1_000
WAITING_BYTES_MAX: Final = 8 * MIB
COMPONENT: Final = "dead letters"

_log = get_logger(__name__)


class Letter(NamedTuple):
    """What is published to the dead-letter topic."""

    value: bytes
    key: bytes | None
    headers: tuple[Header, ...]

    @staticmethod
    def of(record: Record) -> Letter:
        """The letter that a record of the topic is."""
        return Letter(record.value or b"", record.key, record.headers)

    @property
    def size(self) -> int:
        """Bytes of value, key and headers."""
        headers = sum(len(name) + len(value or b"") for name, value in self.headers)
        return len(self.value) + len(self.key or b"") + headers


class BulkPublisher:
    """Publishes letters to one topic, up to ``WAITING_MAX`` or ``WAITING_BYTES_MAX`` at once. None is ever dropped."""

    def __init__(
        self,
        publisher: Publisher,
        *,
        topic: str,
        readiness: Readiness,
        retry_delay_s_max: float,
        moved: Callable[[], None] = lambda: None,
        sleep: Callable[[float], Awaitable[None]] = asyncio.sleep,
    ) -> None:
        """``moved`` is called whenever Kafka has acknowledged a letter."""
        self._publisher = publisher
        self._topic = topic
        self._readiness = readiness
        self._retry_delay_s_max = retry_delay_s_max
        self._moved = moved
        self._sleep = sleep
        self._waiting: list[Letter] = []
        self._waiting_bytes = 0

    async def add(self, letter: Letter) -> None:
        """Take a letter; returns at once, or when a full window is acknowledged. ``flush`` makes it certain."""
        self._waiting.append(letter)
        self._waiting_bytes += letter.size
        if len(self._waiting) >= WAITING_MAX or self._waiting_bytes >= WAITING_BYTES_MAX:
            await self.flush()

    async def flush(self) -> None:
        """Return when Kafka has acknowledged all that was taken. Waits as long as it takes; safe to cancel."""
        letters, self._waiting, self._waiting_bytes = self._waiting, [], 0
        await self.publish(letters)

    async def publish(self, letters: Iterable[Letter]) -> None:
        """Publish all of these at once; return when Kafka has acknowledged them. Safe to cancel."""
        async with asyncio.TaskGroup() as tasks:
            for letter in letters:
                tasks.create_task(self._publish(letter), name="dead-letter")

    async def _publish(self, letter: Letter) -> None:
        backoff = Backoff(delay_s_max=self._retry_delay_s_max)
        while True:
            try:
                await self._publisher.publish(self._topic, letter.value, key=letter.key, headers=letter.headers)
            except ServiceError as exc:
                # Too large is not transient, and still no reason to drop: it waits until the topic's limit is raised.
                if not (exc.transient or isinstance(exc, TooLarge)):
                    raise
                self._readiness.red(COMPONENT, exc.detail)
                _log.warning("A dead letter could not be published; trying again.", topic=self._topic, error=exc.detail)
                await self._sleep(backoff.next_delay_s())
            else:
                self._readiness.green(COMPONENT)
                self._moved()
                return
