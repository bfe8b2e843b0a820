"""What is rejected of a record, cut into the values of dead letters: never more than ``IN_FULL_MAX`` and one (contract §4).

The first rejected spans have a dead letter each, until these together exceed twice the record's size: each carries the whole
resource of its span. All further spans share one, in which each resource and scope is once.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from itertools import chain
from typing import Final, NamedTuple

from common.codec.decoded import REASONS_MAX, Rejection, Rejections
from common.codec.layout import Layout
from common.errors import Rejected, RejectionCode
from common.kafka.record import Record
from common.settings import Encoding
from ingest.decode import lay_out

GROWTH_MAX: Final = 2
"""How many times the size of a record the dead letters of single spans may have together."""

COPIES_BYTES_MIN: Final = 64 * 1024
"""Each dead letter has the key and the headers of its record, too. These copies have a bound of their own, the same but for this: usual
headers are larger than small spans, and must not make them share a letter."""

REASON_CHARACTERS_MAX: Final = 180
"""Of one reason among those of a shared dead letter."""


class CutDeadLetter(NamedTuple):
    """What one dead letter holds. ``codes`` says how many spans of a shared one have which code; of others it is empty."""

    refusal: Rejection
    value: bytes
    codes: Mapping[RejectionCode, int] = {}


def cut_dead_letters(
    record: Record, rejections: Rejections, *, encoding: Encoding, layout: Layout | None = None
) -> list[CutDeadLetter]:
    """The dead letters of a record, in the order of its spans but for the shared one, which is the last.

    ``layout`` is that of the record, if it is known already.
    """
    whole = record.value or b""
    if not rejections:
        return []
    if rejections.is_of_record:
        return [CutDeadLetter(rejections.refusals[0], whole)]
    layout = layout or _laid_out(record, encoding)
    letters: list[CutDeadLetter] = []
    around = _size_around(record)
    values_room = GROWTH_MAX * len(whole)
    copies_room = max(GROWTH_MAX * (around + len(whole)), COPIES_BYTES_MIN)
    for refusal in rejections.refusals:
        value = whole if layout is None else layout.cut([_index(refusal)])
        values_room -= len(value)
        copies_room -= around
        if values_room < 0 or copies_room < 0:
            break
        letters.append(CutDeadLetter(refusal, value))
    if len(letters) < len(rejections):
        letters.append(_shared(whole, rejections, layout, alone_count=len(letters)))
    return letters


def _shared(whole: bytes, rejections: Rejections, layout: Layout | None, *, alone_count: int) -> CutDeadLetter:
    """The dead letter of all spans behind the first ``alone_count``."""
    others = rejections.refusals[alone_count:]
    codes = rejections.further_codes + Counter(each.code for each in others)
    examples = [*others, *rejections.further_examples][:REASONS_MAX]
    value = whole
    if layout is not None:
        further = rejections.further_indexes
        value = layout.cut([*map(_index, others), *further] if others else further)
    reasons = " ".join(f"Span {each.span_index}: {each.reason[:REASON_CHARACTERS_MAX]}" for each in examples)
    return CutDeadLetter(Rejection(None, RejectionCode.MANY_SPANS, reasons), value, codes)


def _index(refusal: Rejection) -> int:
    assert refusal.span_index is not None  # noqa: S101 - narrows the type: a whole record went the other way
    return refusal.span_index


def _size_around(record: Record) -> int:
    """What each dead letter of a record carries beside its value: key and headers."""
    headers = chain.from_iterable((name, value or b"") for name, value in record.headers)
    return len(record.key or b"") + sum(map(len, headers))


def _laid_out(record: Record, encoding: Encoding) -> Layout | None:
    """``None`` where the bytes cannot be followed: a dead letter is never lost to them, so each has the whole record."""
    try:
        return lay_out(record, encoding)
    except Rejected:
        return None
