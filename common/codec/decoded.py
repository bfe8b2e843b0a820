"""What every codec gives back: the spans it could read, and each refusal with its reason."""

from __future__ import annotations

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
