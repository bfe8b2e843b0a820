"""What every codec gives back: the spans it could read, and each refusal with its reason."""

from __future__ import annotations

from array import array
from collections import Counter
from collections.abc import Hashable, Iterable, Sequence
from dataclasses import dataclass, field
from itertools import repeat
from typing import Final, NamedTuple

from common.codec.layout import Layout
from common.errors import RejectionCode
from common.span import Span

IN_FULL_MAX: Final = 100
"""Rejected spans of a record that are kept with a reason each, as each has a dead letter of its own (contract §4)."""

REASONS_MAX: Final = 10
"""Reasons that are kept of all further ones."""


def _no_indexes() -> array[int]:
    return array("I")


class Rejection(NamedTuple):
    """A span, or a whole record where ``span_index`` is ``None``, that becomes a dead letter."""

    span_index: int | None
    code: RejectionCode
    reason: str


@dataclass(slots=True)
class Rejections:
    """What is rejected of one record, in bounded memory: a record of 10 MiB may hold five million bad spans.

    ``in_full`` are the first ``IN_FULL_MAX``. Of all further ones there are their indexes, how many have which code, and
    the first ``REASONS_MAX`` in full.
    """

    in_full: list[Rejection] = field(default_factory=list)
    further_indexes: array[int] = field(default_factory=_no_indexes)
    further_codes: Counter[RejectionCode] = field(default_factory=Counter)
    further_examples: list[Rejection] = field(default_factory=list)

    @classmethod
    def of_record(cls, code: RejectionCode, reason: str) -> Rejections:
        """The rejection of a whole record."""
        return cls([Rejection(None, code, reason)])

    def __len__(self) -> int:
        """How many spans are rejected; a whole record counts as one."""
        return len(self.in_full) + len(self.further_indexes)

    @property
    def is_of_record(self) -> bool:
        """Whether the record is rejected as a whole."""
        return bool(self.in_full) and self.in_full[0].span_index is None

    def add(self, span_index: int, code: RejectionCode, reason: str) -> None:
        """Reject one span."""
        if len(self.in_full) < IN_FULL_MAX:
            self.in_full.append(Rejection(span_index, code, reason))
            return
        self.further_indexes.append(span_index)
        self.further_codes[code] += 1
        if len(self.further_examples) < REASONS_MAX:
            self.further_examples.append(Rejection(span_index, code, reason))

    def plus(self, more: Iterable[Rejection]) -> Rejections:
        """These and further spans, as another value."""
        both = Rejections(
            [*self.in_full], self.further_indexes[:], Counter(self.further_codes), [*self.further_examples]
        )
        for span_index, code, reason in more:
            assert span_index is not None  # noqa: S101 - narrows the type: a whole record is not one of several
            both.add(span_index, code, reason)
        return both

    def with_hint(self, hint: str) -> Rejections:
        """The same with a sentence behind each reason."""
        return Rejections(
            [each._replace(reason=each.reason + hint) for each in self.in_full],
            self.further_indexes,
            self.further_codes,
            [each._replace(reason=each.reason + hint) for each in self.further_examples],
        )


class Decoded(NamedTuple):
    """One record, decoded.

    ``spans`` and ``span_indexes`` go in parallel; an index is the position in wire order over the whole record, from 0,
    refused spans counted. ``base64_ids_count`` counts ids that came as base64 where the format wants hex. ``layout`` is there
    where it had to be made to decode the record.
    """

    spans: list[Span]
    span_indexes: list[int]
    rejections: Rejections
    base64_ids_count: int = 0
    layout: Layout | None = None

    def without_repeats(self) -> Decoded:
        """Of spans with the same ids the last alone, as if it had come in a later record: for spans that are all of one project."""
        if len({(span.trace_id, span.span_id) for span in self.spans}) == len(self.spans):
            return self
        kept = last_of_each(self.spans)
        return self._replace(spans=[self.spans[at] for at in kept], span_indexes=[self.span_indexes[at] for at in kept])


def last_of_each(spans: Sequence[Span], projects: Sequence[Hashable] | None = None) -> list[int]:
    """The positions of the spans, but for those that a later one replaces: of the same ids, and of the same project."""
    placed = zip(range(len(spans)), projects or repeat(None), spans, strict=False)
    return sorted({(project, span.trace_id, span.span_id): at for at, project, span in placed}.values())
