"""What every codec gives back: the spans it could read, and each refusal with its reason."""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from itertools import repeat
from typing import NamedTuple

from common.errors import RejectionCode
from common.span import Span


class Refusal(NamedTuple):
    """A span, or a whole record where ``span_index`` is ``None``, that becomes a dead letter."""

    span_index: int | None
    code: RejectionCode
    reason: str


class Decoded(NamedTuple):
    """One record, decoded.

    ``spans`` and ``span_indexes`` go in parallel; an index is the position in wire order over the whole record, from 0,
    refused spans counted. ``base64_ids_count`` counts ids that came as base64 where the format wants hex.
    """

    spans: list[Span]
    span_indexes: list[int]
    refusals: list[Refusal]
    base64_ids_count: int = 0

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
