"""Dead letters: cut from their records, given headers, published to the dead-letter topic.

The value of a dead letter is the original: the record, or a record of its rejected spans cut from the original on the
wire. A record makes at most ``IN_FULL_MAX`` + 1 dead letters (contract §4). The first rejected spans have one each,
until these together exceed twice the size of the record, because each carries the resource of its span. All further
spans share one, which holds each resource and scope once. The original key and headers stay; ours begin with
``clearspan-``. They are read back in ``common/kafka/dead_letters.py``.
"""

from __future__ import annotations

import asyncio
import json
from collections import Counter
from collections.abc import Callable, Mapping
from functools import partial
from itertools import chain
from typing import Final, NamedTuple

from common.codec.decoded import REASONS_MAX, Rejection, Rejections
from common.codec.layout import Layout
from common.errors import Rejected, RejectionCode, TooLarge
from common.kafka.dead_letters import (
    CODE_HEADER,
    CODES_HEADER,
    OFFSET_HEADER,
    PARTITION_HEADER,
    PREFIX,
    REASON_HEADER,
    SPAN_COUNT_HEADER,
    SPAN_INDEX_HEADER,
    TIME_HEADER,
    TIMESTAMP_HEADER,
    TOPIC_HEADER,
)
from common.kafka.record import CONTENT_TYPE_HEADER, CONTENT_TYPES, Header, Publisher, Record
from common.limits import MIB
from common.readiness import Retry
from common.settings import Encoding
from common.telemetry import DEAD_LETTERS, get_logger
from common.times import Clock, format_us
from ingest.decode import encoding_of, lay_out
from ingest.masking.dead_letters import NO_MASKING, Masking, masked_dead_letter

GROWTH_MAX: Final = 2
"""Limit of the total size of a record's dead letters of single spans, as a multiple of the size of the record."""

COPIES_BYTES_MIN: Final = 64 * 1024
"""The copies of the record's key and headers have a separate limit: the same one, but at least this many bytes. Usual
headers are larger than small spans and must not make them share a dead letter.
"""

SHARED_REASON_CHARACTERS_MAX: Final = 180
"""Maximum length of each reason in a shared dead letter."""

REASON_CHARACTERS_MAX: Final = 2_000
WAITING_MAX: Final = 1_000
WAITING_BYTES_MAX: Final = 8 * MIB
COMPONENT: Final = "dead letters"

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


class DeadLetterMessage(NamedTuple):
    """What is published to the dead-letter topic."""

    value: bytes
    key: bytes | None
    headers: tuple[Header, ...]

    @staticmethod
    def of(record: Record) -> DeadLetterMessage:
        """Return the message that a record of the topic holds."""
        return DeadLetterMessage(record.value or b"", record.key, record.headers)

    @property
    def size(self) -> int:
        """Bytes of value, key and headers."""
        headers = sum(len(name) + len(value or b"") for name, value in self.headers)
        return len(self.value) + len(self.key or b"") + headers


class BulkPublisher:
    """Publishes messages to one topic, up to ``WAITING_MAX`` or ``WAITING_BYTES_MAX`` at once. Never drops one."""

    def __init__(
        self,
        publisher: Publisher,
        *,
        topic: str,
        retry: Retry,
        moved: Callable[[], None] = lambda: None,
    ) -> None:
        """``moved`` is called each time Kafka acknowledges a message."""
        self._publisher = publisher
        self._topic = topic
        self._retry = retry
        self._moved = moved
        self._waiting: list[DeadLetterMessage] = []
        self._waiting_bytes = 0

    async def add(self, message: DeadLetterMessage) -> bool:
        """Queue a message; a full window is flushed. Return whether Kafka has acknowledged all queued messages."""
        self._waiting.append(message)
        self._waiting_bytes += message.size
        is_full = len(self._waiting) >= WAITING_MAX or self._waiting_bytes >= WAITING_BYTES_MAX
        if is_full:
            await self.flush()
        return is_full

    async def flush(self) -> None:
        """Return when Kafka has acknowledged every queued message. Waits without limit; safe to cancel."""
        messages, self._waiting, self._waiting_bytes = self._waiting, [], 0
        async with asyncio.TaskGroup() as tasks:
            for message in messages:
                tasks.create_task(self._publish(message), name="dead-letter")

    async def _publish(self, message: DeadLetterMessage) -> None:
        publish = partial(self._publisher.publish, self._topic, message.value, key=message.key, headers=message.headers)
        # Too large is not transient, but still no reason to drop: wait until the limit of the topic is raised.
        await self._retry.until_done(publish, component=COMPONENT, also=(TooLarge,))
        self._moved()


class DeadLetters:
    """Publishes dead letters with the headers that locate and explain them."""

    def __init__(self, bulk: BulkPublisher, *, clock: Clock) -> None:
        self._bulk = bulk
        self._clock = clock

    async def add(self, record: Record, dead_letter: CutDeadLetter, *, encoding: Encoding) -> None:
        """Queue a dead letter of ``record``; see ``BulkPublisher.add``."""
        rejection = dead_letter.rejection
        if rejection.code is RejectionCode.OUR_FAILURE:
            _log.error(rejection.reason, topic=record.topic, partition=record.partition, offset=record.offset)
        if dead_letter.envelope is not None:
            key, kept = dead_letter.envelope
            record = record._replace(key=key, headers=kept)
        headers = _headers(record, dead_letter, encoding=encoding, time_ns=self._clock.now_ns())
        await self._bulk.add(DeadLetterMessage(dead_letter.value, record.key, headers))
        DEAD_LETTERS.labels(rejection.code.value).inc()

    async def flush(self) -> None:
        """Return when Kafka has acknowledged every dead letter; see ``BulkPublisher.flush``."""
        await self._bulk.flush()


def _headers(record: Record, dead_letter: CutDeadLetter, *, encoding: Encoding, time_ns: int) -> tuple[Header, ...]:
    rejection = dead_letter.rejection
    ours = {
        TOPIC_HEADER: record.topic,
        PARTITION_HEADER: str(record.partition),
        OFFSET_HEADER: str(record.offset),
        TIMESTAMP_HEADER: str(record.timestamp_ms),
        CODE_HEADER: rejection.code.value,
        REASON_HEADER: rejection.reason[:REASON_CHARACTERS_MAX],
        TIME_HEADER: format_us(time_ns // 1_000),
    }
    if rejection.span_index is not None:
        ours[SPAN_INDEX_HEADER] = str(rejection.span_index)
    if dead_letter.codes:
        ours[SPAN_COUNT_HEADER] = str(sum(dead_letter.codes.values()))
        ours[CODES_HEADER] = json.dumps(dead_letter.codes)
    # A header with our prefix on the original record would read as a coordinate of this dead letter.
    kept = [(name, value) for name, value in record.headers if not name.startswith(PREFIX)]
    if record.header(CONTENT_TYPE_HEADER) is None:
        kept.append((CONTENT_TYPE_HEADER, CONTENT_TYPES[encoding].encode()))
    return (*kept, *((name, text.encode("utf-8", "replace")) for name, text in ours.items()))
