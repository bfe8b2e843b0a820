"""Cut dead letters from their records: what is rejected, and its bytes. Pure: a decoder does it in its own process.

A record makes at most ``IN_FULL_MAX`` + 1 dead letters (contract §4). The first rejected spans have one each, until
these together exceed twice the size of the record, because each carries the resource of its span. All further spans
share one, which holds each resource and scope once.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping
from functools import partial
from itertools import chain
from typing import Final, NamedTuple

from common.codec.decoded import REASONS_MAX, Rejection, Rejections
from common.codec.layout import Layout
from common.errors import Rejected, RejectionCode
from common.kafka.record import Encoding, Header, Record, Signal
from ingest.codecs import encoding_of, lay_out
from ingest.masking.dead_letters import NO_MASKING, Masking, masked_dead_letter

GROWTH_MAX: Final = 2
"""Limit of the total size of a record's dead letters of single spans, as a multiple of the size of the record."""

COPIES_BYTES_MIN: Final = 64 * 1024
"""The copies of the record's key and headers have a separate limit: the same one, but at least this many bytes. Usual
headers are larger than small spans and must not make them share a dead letter.
"""

SHARED_REASON_CHARACTERS_MAX: Final = 180
"""Maximum length of each reason in a shared dead letter."""


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
    signal: Signal = Signal.TRACES,
    layout: Layout | None = None,
    masking: Masking = NO_MASKING,
) -> list[CutDeadLetter]:
    """Return the dead letters of a record in the order of its spans; the shared one is last.

    ``layout`` is that of the record, if it is known already. Content of projects that have rules is masked.
    """
    dead_letters = _cut(record, rejections, layout or partial(_laid_out, record, encoding, signal))
    if not masking.masks.text or not dead_letters:
        return dead_letters
    return [
        _masked(record, dead_letter, encoding=encoding, signal=signal, masking=masking) for dead_letter in dead_letters
    ]


def _masked(
    record: Record, dead_letter: CutDeadLetter, *, encoding: Encoding, signal: Signal, masking: Masking
) -> CutDeadLetter:
    rejection = dead_letter.rejection
    try:
        known: Encoding | None = encoding_of(record, encoding)
    except Rejected:
        known = None
    masked = masked_dead_letter(
        record, dead_letter.value, rejection.code, encoding=known, signal=signal, masking=masking
    )
    if masked is None:
        return dead_letter
    if masked.reason is not None:
        rejection = rejection._replace(reason=masked.reason)
    return CutDeadLetter(rejection, masked.value, dead_letter.codes, (masked.key, masked.headers))


def _cut(record: Record, rejections: Rejections, found: Layout | Callable[[], Layout | None]) -> list[CutDeadLetter]:
    whole = record.value or b""
    if not rejections:
        return []
    if rejections.is_of_record:
        return [CutDeadLetter(rejections.in_full[0], whole)]
    layout = found if isinstance(found, Layout) else found()
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


def _laid_out(record: Record, encoding: Encoding, signal: Signal) -> Layout | None:
    """Return ``None`` if the bytes cannot be parsed: then each dead letter holds the whole record, and none is lost."""
    try:
        return lay_out(record, encoding, signal)
    except Rejected:
        return None
