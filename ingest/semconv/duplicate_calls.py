"""Model calls that two traces report: the client's own span, and that of the instrumentation around it (ADR 0010).

Anthropic's client makes a span for each call. If it is below the span of an instrumentation, the rule of roll-ups
counts the call once. The span of a streamed call is a trace of its own, and only the record shows that both are one
call: the same process, the same usage, one inside the other in time. Then the client's span keeps what it reports and
adds it to no sum, and ``ag.meta.counted_in`` names the span that does. If the two come in different records nothing
connects them.
"""

from __future__ import annotations

from bisect import bisect_right
from collections import defaultdict
from collections.abc import Sequence
from typing import Any, Final, TypeAlias

from common.ids import span_id_hex, trace_id_hex
from common.span import NO_METRICS, Metrics, NormalizedSpan, Span

CLIENTS: Final = frozenset({"com.anthropic.sdk.python"})
"""Scopes of the spans that model clients make themselves."""

COUNTED_IN: Final = "counted_in"

_Calls: TypeAlias = dict[tuple[float, ...], list[tuple[int, int]]]
"""Usage → start and index of each span that reports it."""


def without_duplicate_usage(spans: Sequence[Span], normalized_spans: list[NormalizedSpan]) -> list[NormalizedSpan]:
    """Return the same, except that a span whose usage counts in another trace adds only its errors.

    A span that is published again says so itself, in attributes that it keeps.
    """
    duplicates = [
        index for index, span in enumerate(spans) if span.scope.name in CLIENTS and _reports(normalized_spans[index])
    ]
    if not duplicates:
        return normalized_spans
    calls = _calls_around(spans, normalized_spans)
    kept = list(normalized_spans)
    for index in sorted(duplicates, key=lambda at: spans[at].start_ns):
        original = None if spans[index].parent_id else _original(spans, index, calls[_usage(normalized_spans[index])])
        if original is not None:
            counted_in = {"trace_id": trace_id_hex(original.trace_id), "span_id": span_id_hex(original.span_id)}
            _ag(normalized_spans[index])["meta"] = {**_meta(normalized_spans[index]), COUNTED_IN: counted_in}
        if COUNTED_IN in _meta(normalized_spans[index]):
            kept[index] = _without_usage(normalized_spans[index])
    return kept


def _calls_around(spans: Sequence[Span], normalized_spans: Sequence[NormalizedSpan]) -> _Calls:
    """Return the other reports, which may be of the same calls, by usage and start."""
    calls: _Calls = defaultdict(list)
    for index, (span, normalized) in enumerate(zip(spans, normalized_spans, strict=True)):
        if span.scope.name not in CLIENTS and _reports(normalized):
            calls[_usage(normalized)].append((span.start_ns, index))
    for starts in calls.values():
        starts.sort()
    return calls


def _original(spans: Sequence[Span], duplicate: int, calls: list[tuple[int, int]]) -> Span | None:
    """Take from ``calls`` the last span that begins before the duplicate, if it is of the same process and ends after
    it.
    """
    place = bisect_right(calls, (spans[duplicate].start_ns, len(spans))) - 1
    if place < 0:
        return None
    span = spans[calls[place][1]]
    if span.end_ns < spans[duplicate].end_ns or span.resource != spans[duplicate].resource:
        return None
    del calls[place]
    return span


def _reports(normalized: NormalizedSpan) -> bool:
    return normalized.metrics is not NO_METRICS and any(_usage(normalized))


def _usage(normalized: NormalizedSpan) -> tuple[float, ...]:
    return normalized.metrics[0:3]


def _without_usage(normalized: NormalizedSpan) -> NormalizedSpan:
    errors = normalized.metrics.errors
    return normalized._replace(metrics=Metrics(errors=errors) if errors else NO_METRICS)


def _ag(normalized: NormalizedSpan) -> dict[str, Any]:
    ag: dict[str, Any] = normalized.attributes["ag"]
    return ag


def _meta(normalized: NormalizedSpan) -> dict[str, Any]:
    meta: dict[str, Any] = _ag(normalized).get("meta", {})
    return meta
