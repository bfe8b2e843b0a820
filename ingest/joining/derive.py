"""What is derived from a stored span once it has further events (contract §3.6, ADR 0046).

The result is what it would have been if the events had come with the span. A row does not say what was sent as ``ag``
and what was derived, so that is found by deriving it again without the new events: what the row has besides was sent,
or follows from the spans that came in the same record. Pure.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Final, NamedTuple

from common.clickhouse.event_columns import identity_of
from common.dotted import dotted
from common.prices.table import PriceTable
from common.score import Score
from common.span import Attributes, Event, Metrics, NormalizedSpan, Span
from ingest.joining.stored_spans import StoredSpan, scores_of
from ingest.masking.planned import PlannedMask
from ingest.normalize import normalize, write_cumulative

EVENTS_MAX: Final = 1_000
"""Events of log records in one span; ``dropped_events_count`` says how many there are besides."""

_NOTHING: Final[dict[str, Any]] = {}


class AnnotationScores(NamedTuple):
    """What an annotation says now about a span: JSON text as responses show it; empty if it says nothing any more."""

    trace_id: bytes
    span_id: bytes
    scores: bytes


def with_additions(
    stored: StoredSpan,
    events: Sequence[Event],
    scores: Sequence[AnnotationScores],
    prices: PriceTable,
    mask: PlannedMask | None,
) -> tuple[Span, NormalizedSpan]:
    """Return the span with these events of log records and scores as well, and what is derived from it."""
    ag = stored.span.attributes.get("ag", _NOTHING)
    shown = _flat(stored.span.attributes)
    alone = stored.span._replace(attributes=shown)
    (derived,) = normalize([alone], prices, mask)
    sent = _beside(_without_sums(ag, cost_is_computed=stored.cost_is_computed), derived.ag)
    joined = stored.span._replace(
        attributes={**shown, "ag": sent} if sent else shown,
        events=merged(stored.span.events, events),
        scores=_with_scores(stored.span.scores, scores),
        dropped_scores_count=0,  # counted anew
    )
    (normalized,) = normalize([joined], prices, mask)
    if not joined.is_running:
        _write_sums_of_record(normalized, stored, ag)
    normalized.ag["type"]["trace"] = stored.trace_type
    return joined, normalized._replace(trace_type=stored.trace_type)


def _with_scores(known: Sequence[Score], scores: Sequence[AnnotationScores]) -> tuple[Score, ...]:
    """Return scores with those of these annotations instead of what was known of them."""
    judging = {(each.trace_id, each.span_id) for each in scores}
    kept = (score for score in known if (score.source.trace_id, score.source.span_id) not in judging)
    return (*kept, *(score for each in scores if each.scores for score in scores_of(each.scores)))


def _flat(attributes: Mapping[str, Any]) -> Attributes:
    """Return attributes as they may have been sent: instrumentations send dotted keys."""
    flat: Attributes = {}
    for key, value in attributes.items():
        if key != "ag":
            flat |= dotted(key, value)
    return flat


def merged(own: Sequence[Event], logged: Sequence[Event]) -> tuple[Event, ...]:
    """Return all events in the order of their times and names, equal ones once.

    An event of the span and a log record are equal if time, name, attributes and body are.
    """
    if not any(event.log for event in own) and not logged:
        return tuple(own)
    by_identity: dict[bytes, Event] = {}
    for event in (*own, *logged):
        by_identity.setdefault(identity_of(event), event)
    return tuple(
        event for _, event in sorted(by_identity.items(), key=lambda item: (item[1].time_ns, item[1].name, item[0]))
    )


def _without_sums(ag: Mapping[str, Any], *, cost_is_computed: bool) -> Attributes:
    """Return ``ag`` without what is computed whenever a span is normalized."""
    metrics = {
        name: {part: value for part, value in metric.items() if part != "cumulative"}
        for name, metric in ag.get("metrics", _NOTHING).items()
        if name != "duration" and not (name == "costs" and cost_is_computed)
    }
    kinds = {name: kind for name, kind in ag.get("type", _NOTHING).items() if name != "trace"}
    return {**ag, "metrics": metrics, "type": kinds}


def _beside(ag: Mapping[str, Any], derived: Mapping[str, Any]) -> Attributes:
    """Return the members of ``ag``, and the members of these, that differ from what was derived."""
    members = ((name, _differing(member, derived.get(name))) for name, member in ag.items())
    return {name: member for name, member in members if member}


def _differing(member: Any, derived: Any) -> Any:
    if isinstance(member, dict) and isinstance(derived, dict):
        return {key: value for key, value in member.items() if value and not _is_known(value, derived.get(key))}
    return None if member == derived else member


def _is_known(value: Any, derived: Any) -> bool:
    if isinstance(value, dict) and isinstance(derived, dict):
        return all(derived.get(key) == member for key, member in value.items())
    return bool(value == derived)


def _write_sums_of_record(normalized: NormalizedSpan, stored: StoredSpan, ag: Mapping[str, Any]) -> None:
    """Replace the sums of the span alone by those of its record, with what the events add to them."""
    known = ag.get("metrics", _NOTHING)
    own = zip(_cumulative(known), normalized.metrics, stored.metrics, strict=True)
    metrics = normalized.ag["metrics"]
    for name, metric in metrics.items():
        if name != "duration" and "cumulative" in known.get(name, _NOTHING):  # else an event may have sent sums
            metric.pop("cumulative", None)
    write_cumulative(metrics, Metrics._make(total + (now - before) for total, now, before in own))


def _cumulative(metrics: Mapping[str, Any]) -> Metrics:
    amounts = [
        metrics.get(name, _NOTHING).get("cumulative", _NOTHING).get(part, 0.0)
        for name in ("tokens", "costs")
        for part in ("prompt", "completion", "total")
    ]
    return Metrics._make([*amounts, metrics.get("errors", _NOTHING).get("cumulative", 0.0)])
