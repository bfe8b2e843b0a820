"""Refused records and spans, published to the dead-letter topic with everything needed to understand and replay them.

The value is the original: of the record, or one record of the refused span cut from it. Original key and headers stay
under their names; ours begin with ``clearspan-`` (contract §4). Read back in ``ingest/replay.py``.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import Final, NamedTuple

from common.backoff import Backoff
from common.clock import Clock
from common.codec.decoded import Refusal
from common.errors import RejectionCode, ServiceError, TooLarge
from common.kafka.record import Publisher, Record
from common.limits import MIB
from common.record_headers import CONTENT_TYPE_HEADER, CONTENT_TYPES
from common.settings import Encoding
from common.telemetry import DEAD_LETTERS, get_logger
from common.times import format_us
from ingest.readiness import Readiness

PREFIX: Final = "clearspan-"
TOPIC_HEADER: Final = "clearspan-topic"
PARTITION_HEADER: Final = "clearspan-partition"
OFFSET_HEADER: Final = "clearspan-offset"
TIMESTAMP_HEADER: Final = "clearspan-timestamp"
SPAN_INDEX_HEADER: Final = "clearspan-span-index"
CODE_HEADER: Final = "clearspan-code"
REASON_HEADER: Final = "clearspan-reason"
TIME_HEADER: Final = "clearspan-time"

WAITING_MAX: Final = 64
WAITING_BYTES_MAX: Final = 8 * MIB
REASON_CHARACTERS_MAX: Final = 2_000
COMPONENT: Final = "dead letters"

_log = get_logger(__name__)


class _Letter(NamedTuple):
    value: bytes
    key: bytes | None
    headers: tuple[tuple[str, bytes], ...]
    code: str


class DeadLetters:
    """Buries, a window at a time. A refusal is never dropped: what cannot be published is tried until it is."""

    def __init__(
        self,
        publisher: Publisher,
        *,
        topic: str,
        clock: Clock,
        readiness: Readiness,
        retry_delay_s_max: float,
        sleep: Callable[[float], Awaitable[None]] = asyncio.sleep,
    ) -> None:
        self._publisher = publisher
        self._topic = topic
        self._clock = clock
        self._readiness = readiness
        self._retry_delay_s_max = retry_delay_s_max
        self._sleep = sleep
        self._waiting: list[_Letter] = []
        self._waiting_bytes = 0

    async def bury(self, record: Record, refusal: Refusal, value: bytes, *, encoding: Encoding) -> None:
        """Take a letter in; returns at once, or when a full window is acknowledged. ``flush`` makes it certain.

        ``value`` is the record's own when ``refusal.span_index`` is ``None``, else the span cut from it.
        """
        if refusal.code is RejectionCode.OUR_FAILURE:
            _log.error(refusal.reason, topic=record.topic, partition=record.partition, offset=record.offset)
        headers = _headers(record, refusal, encoding=encoding, time_ns=self._clock.now_ns())
        self._waiting.append(_Letter(value, record.key, headers, refusal.code.value))
        self._waiting_bytes += len(value)
        if len(self._waiting) >= WAITING_MAX or self._waiting_bytes >= WAITING_BYTES_MAX:
            await self.flush()

    async def flush(self) -> None:
        """Return when Kafka has acknowledged all that was taken in. Waits as long as it takes; safe to cancel."""
        letters, self._waiting, self._waiting_bytes = self._waiting, [], 0
        async with asyncio.TaskGroup() as tasks:
            for letter in letters:
                tasks.create_task(self._publish(letter), name="bury")

    async def _publish(self, letter: _Letter) -> None:
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
                DEAD_LETTERS.labels(letter.code).inc()
                return


def _headers(record: Record, refusal: Refusal, *, encoding: Encoding, time_ns: int) -> tuple[tuple[str, bytes], ...]:
    ours = {
        TOPIC_HEADER: record.topic,
        PARTITION_HEADER: str(record.partition),
        OFFSET_HEADER: str(record.offset),
        TIMESTAMP_HEADER: str(record.timestamp_ms),
        CODE_HEADER: refusal.code.value,
        REASON_HEADER: refusal.reason[:REASON_CHARACTERS_MAX],
        TIME_HEADER: format_us(time_ns // 1_000),
    }
    if refusal.span_index is not None:
        ours[SPAN_INDEX_HEADER] = str(refusal.span_index)
    # The prefix is ours: a header of that name on the original would read as a coordinate of this letter.
    kept = [(name, value) for name, value in record.headers if not name.startswith(PREFIX)]
    if record.header(CONTENT_TYPE_HEADER) is None:
        kept.append((CONTENT_TYPE_HEADER, CONTENT_TYPES[encoding].encode()))
    return (*kept, *((name, text.encode("utf-8", "replace")) for name, text in ours.items()))
