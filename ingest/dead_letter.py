"""Dead letters: cut from their records, stored as rows, then published to the dead-letter topic with headers.

The value of a dead letter is the original: the record, or a record of its rejected spans cut from the original on the
wire. A record makes at most ``IN_FULL_MAX`` + 1 dead letters (contract §4). The first rejected spans have one each,
until these together exceed twice the size of the record, because each carries the resource of its span. All further
spans share one, which holds each resource and scope once. The original key and headers stay; ours begin with
``clearspan-``. What lists and replays them are the rows (``common/clickhouse/dead_letters.py``).
"""

from __future__ import annotations

import asyncio
import json
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from itertools import chain
from types import MappingProxyType
from typing import Final, NamedTuple, Protocol
from uuid import UUID

from common.clickhouse.dead_letters import DeadLetter, DeadLetterContent, Envelope, dead_letter_id
from common.codec.decoded import REASONS_MAX, Rejection, Rejections
from common.codec.layout import Layout
from common.errors import Rejected, RejectionCode, TooLarge
from common.kafka.record import CONTENT_TYPE_HEADER, CONTENT_TYPES, PROJECT_HEADER, Header, Publisher, Record
from common.limits import MIB
from common.readiness import Retry
from common.settings import Encoding, TopicSettings
from common.telemetry import DEAD_LETTERS, get_logger
from common.times import Clock, format_us
from ingest.decode import encoding_of, lay_out
from ingest.masking.dead_letters import NO_MASKING, Masking, masked_dead_letter

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

GROWTH_MAX: Final = 2
"""Limit of the total size of a record's dead letters of single spans, as a multiple of the size of the record."""

COPIES_BYTES_MIN: Final = 64 * 1024
"""The copies of the record's key and headers have a separate limit: the same one, but at least this many bytes. Usual
headers are larger than small spans and must not make them share a dead letter.
"""

SHARED_REASON_CHARACTERS_MAX: Final = 180
"""Maximum length of each reason in a shared dead letter."""

REASON_CHARACTERS_MAX: Final = 2_000
PROJECT_CHARACTERS_MAX: Final = 100
WAITING_MAX: Final = 1_000
WAITING_BYTES_MAX: Final = 8 * MIB
COMPONENT: Final = "dead letters"
STORE: Final = "store"
"""What ``/readyz`` names while Kafka, or the engine, is waited for."""

_log = get_logger(__name__)


class CutDeadLetter(NamedTuple):
    """Rejection and value of one dead letter. ``codes`` counts the spans of a shared one by code; it is empty for
    others.
    """

    rejection: Rejection
    value: bytes
    codes: Mapping[RejectionCode, int] = {}
    envelope: tuple[bytes | None, tuple[Header, ...]] | None = None
    """Key and headers, if those of the record are masked."""


def cut_dead_letters(
    record: Record,
    rejections: Rejections,
    *,
    encoding: Encoding,
    layout: Layout | None = None,
    masking: Masking = NO_MASKING,
) -> list[CutDeadLetter]:
    """Return the dead letters of a record in the order of its spans; the shared one is last.

    ``layout`` is that of the record, if it is known already. Content of projects that have rules is masked.
    """
    dead_letters = _cut(record, rejections, encoding=encoding, layout=layout)
    if not masking.masks.text or not dead_letters:
        return dead_letters
    return [_masked(record, dead_letter, encoding=encoding, masking=masking) for dead_letter in dead_letters]


def _masked(record: Record, dead_letter: CutDeadLetter, *, encoding: Encoding, masking: Masking) -> CutDeadLetter:
    rejection = dead_letter.rejection
    try:
        known: Encoding | None = encoding_of(record, encoding)
    except Rejected:
        known = None
    masked = masked_dead_letter(record, dead_letter.value, rejection.code, encoding=known, masking=masking)
    if masked is None:
        return dead_letter
    if masked.reason is not None:
        rejection = rejection._replace(reason=masked.reason)
    return CutDeadLetter(rejection, masked.value, dead_letter.codes, (masked.key, masked.headers))


def _cut(record: Record, rejections: Rejections, *, encoding: Encoding, layout: Layout | None) -> list[CutDeadLetter]:
    whole = record.value or b""
    if not rejections:
        return []
    if rejections.is_of_record:
        return [CutDeadLetter(rejections.in_full[0], whole)]
    layout = layout or _laid_out(record, encoding)
    dead_letters: list[CutDeadLetter] = []
    copy_bytes = _key_and_headers_bytes(record)
    values_bytes_left = GROWTH_MAX * len(whole)
    copies_bytes_left = max(GROWTH_MAX * (copy_bytes + len(whole)), COPIES_BYTES_MIN)
    for rejection in rejections.in_full:
        value = whole if layout is None else layout.cut([_index(rejection)])
        values_bytes_left -= len(value)
        copies_bytes_left -= copy_bytes
        if values_bytes_left < 0 or copies_bytes_left < 0:
            break
        dead_letters.append(CutDeadLetter(rejection, value))
    if len(dead_letters) < len(rejections):
        dead_letters.append(_shared(whole, rejections, layout, alone_count=len(dead_letters)))
    return dead_letters


def _shared(whole: bytes, rejections: Rejections, layout: Layout | None, *, alone_count: int) -> CutDeadLetter:
    """Return the dead letter of all spans after the first ``alone_count``."""
    others = rejections.in_full[alone_count:]
    codes = rejections.further_codes + Counter(rejection.code for rejection in others)
    examples = [*others, *rejections.further_examples][:REASONS_MAX]
    value = whole
    if layout is not None:
        further = rejections.further_indexes
        value = layout.cut([*map(_index, others), *further] if others else further)
    reasons = " ".join(f"Span {index}: {reason[:SHARED_REASON_CHARACTERS_MAX]}" for index, _, reason in examples)
    return CutDeadLetter(Rejection(None, RejectionCode.MANY_SPANS, reasons), value, codes)


def _index(rejection: Rejection) -> int:
    assert rejection.span_index is not None  # noqa: S101 - narrows the type: checked by the caller
    return rejection.span_index


def _key_and_headers_bytes(record: Record) -> int:
    headers = chain.from_iterable((name, value or b"") for name, value in record.headers)
    return len(record.key or b"") + sum(map(len, headers))


def _laid_out(record: Record, encoding: Encoding) -> Layout | None:
    """Return ``None`` if the bytes cannot be parsed: then each dead letter holds the whole record, and none is lost."""
    try:
        return lay_out(record, encoding)
    except Rejected:
        return None


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
        topics: Mapping[str, TopicSettings] = MappingProxyType({}),
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
