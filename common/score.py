"""Scores: what an evaluation or an annotation says about a span (contract §3.6).

Plain values, immutable, no I/O. A score has a value, a label, or both. Times are shown to the microsecond, so nothing
below it is kept or compared.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, Final, NamedTuple

SCORES_MAX: Final = 1_000
"""Scores of one span. Of more, the newest are kept."""

NAME_LENGTH_MAX: Final = 500
"""The longest name, in characters."""

SOURCE_KINDS: Final = ("event", "annotation")


class ScoreSource(NamedTuple):
    """Where a score comes from. ``trace_id`` and ``span_id``, as in ``Span``, are those of an annotation; an event
    belongs to the span that it judges.
    """

    kind: str = "event"
    trace_id: bytes | None = None
    span_id: bytes | None = None
    evaluator: str | None = None


EVENT_SOURCE: Final = ScoreSource()


class Score(NamedTuple):
    """One score of a span. ``value`` is a finite JSON-ready number. ``at_ns`` is when it was given, a whole number of
    microseconds.
    """

    name: str
    value: float | None
    label: str | None
    explanation: str | None
    source: ScoreSource
    at_ns: int


def newest_scores(scores: Iterable[Score]) -> tuple[Score, ...]:
    """Return the newest score of each name and source, newest first.

    The result does not depend on the order of the scores: if times are equal, the other fields decide.
    """
    newest: dict[tuple[str, ScoreSource], Score] = {}
    for score in sorted(scores, key=_rank):
        newest[score.name, score.source] = score
    return tuple(sorted(newest.values(), key=_rank, reverse=True))


def newest_by_name(scores: Iterable[Score]) -> dict[str, Score]:
    """Return the newest score of each name, whatever its source; ``scores`` are newest first."""
    by_name: dict[str, Score] = {}
    for score in scores:
        by_name.setdefault(score.name, score)
    return by_name


def _rank(score: Score) -> tuple[Any, ...]:
    name, value, label, explanation, (kind, *ids, evaluator), at_ns = score
    texts = ((text is not None, text or "") for text in (evaluator, label, explanation))
    return (at_ns // 1_000, name, kind, *(each or b"" for each in ids), value is not None, value or 0, *texts)
