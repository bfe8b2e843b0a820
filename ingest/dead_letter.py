"""Dead letters: stored as rows, then published to the dead-letter topic with headers.

The value of a dead letter is the original: the record, or a record of its rejected spans cut from the original on the
wire (``rejected_spans.py``). The original key and headers stay; ours begin with ``clearspan-``. What lists and replays
them are the rows (``common/clickhouse/dead_letters.py``).
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from types import MappingProxyType
from typing import Final, NamedTuple, Protocol
from uuid import UUID

from common.clickhouse.dead_letters import DeadLetter, DeadLetterContent, Envelope, dead_letter_id
from common.errors import RejectionCode, TooLarge
from common.kafka.record import (
    CONTENT_TYPE_HEADER,
    CONTENT_TYPES,
    PROJECT_HEADER,
    Encoding,
    Header,
    Publisher,
    Record,
)
from common.limits import MIB
from common.readiness import Retry
from common.telemetry import DEAD_LETTERS, get_logger
from common.times import Clock, format_us
from ingest.decode import ReadTopic
from ingest.rejected_spans import CutDeadLetter

PREFIX: Final = "clearspan-"
ID_HEADER: Final = "clearspan-id"
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
PROJECT_CHARACTERS_MAX: Final = 100
WAITING_MAX: Final = 1_000
WAITING_BYTES_MAX: Final = 8 * MIB
COMPONENT: Final = "dead letters"
STORE: Final = "store"
"""What ``/readyz`` names while Kafka, or the engine, is waited for."""

_log = get_logger(__name__)


class DeadLetterStore(Protocol):
    """Keeps dead letters as rows (``common/clickhouse/dead_letters.py``)."""

    async def insert(self, dead_letters: Sequence[tuple[DeadLetter, DeadLetterContent]], /) -> None:
        """Return when these are durable. Raises transient errors; calling it again changes nothing."""
        ...


class _QueuedDeadLetter(NamedTuple):
    """A dead letter that is not stored and published yet."""

    dead_letter: DeadLetter
    content: DeadLetterContent
    headers: tuple[Header, ...]
    """Of the message to the topic: those of the content, and ours."""


class DeadLetters:
    """Stores dead letters, then publishes them to the topic, ``WAITING_MAX`` or ``WAITING_BYTES_MAX`` together. Never
    drops one: a restart between the two stores the same row and publishes again.
    """

    def __init__(
        self,
        store: DeadLetterStore,
        publisher: Publisher,
        *,
        topic: str,
        retry: Retry,
        clock: Clock,
        topics: Mapping[str, ReadTopic] = MappingProxyType({}),
        moved: Callable[[], None] = lambda: None,
    ) -> None:
        """``topics`` are those of the original records. ``moved`` is called each time something is acknowledged."""
        self._store = store
        self._publisher = publisher
        self._topic = topic
        self._topics = topics
        self._retry = retry
        self._clock = clock
        self._moved = moved
        self._waiting: list[_QueuedDeadLetter] = []
        self._waiting_bytes = 0

    async def add(
        self, record: Record, dead_letter: CutDeadLetter, *, partition_id: str = "", encoding: Encoding
    ) -> None:
        """Queue a dead letter of ``record``; flush if the queue is full."""
        rejection = dead_letter.rejection
        if rejection.code is RejectionCode.OUR_FAILURE:
            _log.error(rejection.reason, topic=record.topic, partition=record.partition, offset=record.offset)
        waiting = self._prepared(record, dead_letter, partition_id, encoding)
        self._waiting.append(waiting)
        headers_bytes = sum(len(name) + len(value or b"") for name, value in waiting.headers)
        self._waiting_bytes += len(dead_letter.value) + len(waiting.content.envelope.key or b"") + headers_bytes
        DEAD_LETTERS.labels(rejection.code.value).inc()
        if len(self._waiting) >= WAITING_MAX or self._waiting_bytes >= WAITING_BYTES_MAX:
            await self.flush()

    async def flush(self) -> None:
        """Return when every queued dead letter is stored and acknowledged by Kafka. Waits without limit; safe to
        cancel.
        """
        waiting, self._waiting, self._waiting_bytes = self._waiting, [], 0
        if not waiting:
            return
        rows = [(each.dead_letter, each.content) for each in waiting]
        await self._retry.until_done(lambda: self._store.insert(rows), component=STORE)
        self._moved()
        async with asyncio.TaskGroup() as tasks:
            for each in waiting:
                tasks.create_task(self._publish(each), name="dead-letter")

    async def _publish(self, waiting: _QueuedDeadLetter) -> None:
        content = waiting.content
        publish = partial(
            self._publisher.publish, self._topic, content.value, key=content.envelope.key, headers=waiting.headers
        )
        # Too large is not transient, but still no reason to drop: wait until the limit of the topic is raised.
        await self._retry.until_done(publish, component=COMPONENT, also=(TooLarge,))
        self._moved()

    def _prepared(self, record: Record, cut: CutDeadLetter, partition_id: str, encoding: Encoding) -> _QueuedDeadLetter:
        key, sent_headers = cut.envelope or (record.key, record.headers)
        # A header with our prefix on the original record would read as a coordinate of this dead letter.
        kept = [(name, value) for name, value in sent_headers if not name.startswith(PREFIX)]
        if record._replace(headers=tuple(kept)).header(CONTENT_TYPE_HEADER) is None:
            kept.append((CONTENT_TYPE_HEADER, CONTENT_TYPES[encoding].encode()))
        span_index = cut.rejection.span_index
        dead_letter = DeadLetter(
            dead_letter_id(partition_id, record.partition, record.offset, record.timestamp_ms, span_index),
            record.topic,
            record.partition,
            record.offset,
            span_index,
            cut.rejection.code.value,
            cut.rejection.reason[:REASON_CHARACTERS_MAX],
            self._clock.now_ns() // 1_000,
            len(cut.value),
            {code.value: count for code, count in cut.codes.items()} or None,
            self._project_of(record.topic, dict(kept).get(PROJECT_HEADER)),
        )
        content = DeadLetterContent(Envelope(key, tuple(kept)), cut.value)
        return _QueuedDeadLetter(dead_letter, content, (*kept, *_headers(dead_letter, record.timestamp_ms)))

    def _project_of(self, topic: str, header: bytes | None) -> str | None:
        """Return the project that the header names, with ids in their usual spelling, else that of the topic."""
        named = (header or b"").decode("utf-8", "replace")[:PROJECT_CHARACTERS_MAX]
        if not named:
            settings = self._topics.get(topic)
            return None if settings is None or settings.project_id is None else str(settings.project_id)
        try:
            return str(UUID(named))
        except ValueError:
            return named


def _headers(dead_letter: DeadLetter, record_ms: int) -> list[Header]:
    ours = {
        ID_HEADER: dead_letter.id,
        TOPIC_HEADER: dead_letter.topic,
        PARTITION_HEADER: str(dead_letter.partition),
        OFFSET_HEADER: str(dead_letter.offset),
        TIMESTAMP_HEADER: str(record_ms),
        CODE_HEADER: dead_letter.code,
        REASON_HEADER: dead_letter.reason,
        TIME_HEADER: format_us(dead_letter.created_us),
    }
    if dead_letter.span_index is not None:
        ours[SPAN_INDEX_HEADER] = str(dead_letter.span_index)
    if dead_letter.codes:
        ours[SPAN_COUNT_HEADER] = str(sum(dead_letter.codes.values()))
        ours[CODES_HEADER] = json.dumps(dead_letter.codes)
    return [(name, text.encode("utf-8", "replace")) for name, text in ours.items()]
