"""Refused records and spans, published to the dead-letter topic with everything needed to understand and replay them.

The value is the original: of the record, or one record of the rejected spans cut from it (``ingest/cut.py``). Original key and headers stay
under their names; ours begin with ``clearspan-`` (contract §4). Read back in ``ingest/replay.py``.
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import Awaitable, Callable
from typing import Final

from common.clock import Clock
from common.errors import RejectionCode
from common.kafka.record import Header, Publisher, Record
from common.record_headers import CONTENT_TYPE_HEADER, CONTENT_TYPES
from common.settings import Encoding
from common.telemetry import DEAD_LETTERS, get_logger
from common.times import format_us
from ingest.bulk import BulkPublisher, Letter
from ingest.cut import CutDeadLetter
from ingest.readiness import Readiness

PREFIX: Final = "clearspan-"
TOPIC_HEADER: Final = "clearspan-topic"
PARTITION_HEADER: Final = "clearspan-partition"
OFFSET_HEADER: Final = "clearspan-offset"
TIMESTAMP_HEADER: Final = "clearspan-timestamp"
SPAN_INDEX_HEADER: Final = "clearspan-span-index"
CODE_HEADER: Final = "clearspan-code"
REASON_HEADER: Final = "clearspan-reason"
SPAN_COUNT_HEADER: Final = "clearspan-span-count"
CODES_HEADER: Final = "clearspan-codes"
TIME_HEADER: Final = "clearspan-time"

REASON_CHARACTERS_MAX: Final = 2_000

_log = get_logger(__name__)


class DeadLetters:
    """Dead-letters records and spans. A rejection is never dropped: what cannot be published is tried until it is."""

    def __init__(
        self,
        publisher: Publisher,
        *,
        topic: str,
        clock: Clock,
        readiness: Readiness,
        retry_delay_s_max: float,
        moved: Callable[[], None] = lambda: None,
        sleep: Callable[[float], Awaitable[None]] = asyncio.sleep,
    ) -> None:
        self._bulk = BulkPublisher(
            publisher, topic=topic, readiness=readiness, retry_delay_s_max=retry_delay_s_max, moved=moved, sleep=sleep
        )
        self._clock = clock

    async def bury(self, record: Record, letter: CutDeadLetter, *, encoding: Encoding) -> None:
        """Take a letter in; returns at once, or when a full window is acknowledged. ``flush`` makes it certain."""
        refusal = letter.refusal
        if refusal.code is RejectionCode.OUR_FAILURE:
            _log.error(refusal.reason, topic=record.topic, partition=record.partition, offset=record.offset)
        headers = _headers(record, letter, encoding=encoding, time_ns=self._clock.now_ns())
        await self._bulk.add(Letter(letter.value, record.key, headers))
        DEAD_LETTERS.labels(refusal.code.value).inc()

    async def flush(self) -> None:
        """Return when Kafka has acknowledged all that was taken in. Waits as long as it takes; safe to cancel."""
        await self._bulk.flush()


def _headers(record: Record, letter: CutDeadLetter, *, encoding: Encoding, time_ns: int) -> tuple[Header, ...]:
    refusal = letter.refusal
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
    if letter.codes:
        ours[SPAN_COUNT_HEADER] = str(sum(letter.codes.values()))
        ours[CODES_HEADER] = json.dumps(letter.codes)
    # The prefix is ours: a header of that name on the original would read as a coordinate of this letter.
    kept = [(name, value) for name, value in record.headers if not name.startswith(PREFIX)]
    if record.header(CONTENT_TYPE_HEADER) is None:
        kept.append((CONTENT_TYPE_HEADER, CONTENT_TYPES[encoding].encode()))
    return (*kept, *((name, text.encode("utf-8", "replace")) for name, text in ours.items()))
