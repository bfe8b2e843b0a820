"""The usage of the spans of one record: each model call once, and sums over descendants (reference §3.3, ADR 0010).

Which reports count is the rule of ``common/usage.py``. Only spans of one record are added, so the sums of a root are
computed again when it is read, over its whole trace (ADR 0005); the sums here serve inner spans. Parents are found by
id, in any order of spans or times.

Two traces may report one model call: the client's own span, and that of the instrumentation around it. Anthropic's
client makes a span for each call. If it is below the span of an instrumentation, the rule counts the call once. The
span of a streamed call is a trace of its own, and only the record shows that both are one call: the same process, the
same usage, one inside the other in time. Then the client's span keeps what it reports and adds it to no sum, and
``ag.meta.counted_in`` names the span that does. If the two come in different records nothing connects them.
"""

from __future__ import annotations

from bisect import bisect_right
from collections import defaultdict
from collections.abc import Callable, Collection, Sequence
from operator import add
from typing import Any, Final, TypeAlias

from common.ids import span_id_hex, trace_id_hex
from common.span import NO_METRICS, Metrics, NormalizedSpan, Span
from common.usage import counted_of_each, dollars, units

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
            normalized_spans[index].ag["meta"] = {**_meta(normalized_spans[index]), COUNTED_IN: counted_in}
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


def _meta(normalized: NormalizedSpan) -> dict[str, Any]:
    meta: dict[str, Any] = normalized.ag.get("meta", {})
    return meta


def roll_up(
    spans: Sequence[Span], own: Sequence[Metrics], always: Collection[int] = (), computed: Collection[int] = ()
) -> list[Metrics]:
    """Return, for each span, the usage of it and its descendants in ``spans``; ``own`` is the usage of each alone.

    ``always`` are the indexes of spans whose usage counts whatever is below them, ``computed`` of those whose costs
    are list prices. Takes linear time at any depth. A
    span whose parent is missing is a root. A cycle is cut above its earliest span. If a span is in ``spans`` twice,
    only the last is added to its parent.
    """
    parents = _parents(spans)
    parents_first = _cut_cycles(parents, spans)
    reports = {index: metrics for index, metrics in enumerate(own) if metrics is not NO_METRICS}
    counted = counted_of_each(reports, dict(enumerate(parents)), always, computed)
    sums = [NO_METRICS] * len(spans)
    for index, metrics in counted.items():
        sums[index] = _with_costs(units, metrics)
    for index in reversed(parents_first):
        parent = parents[index]
        if parent is not None and sums[index] is not NO_METRICS:
            sums[parent] = Metrics._make(map(add, sums[parent], sums[index]))
    return [_with_costs(dollars, metrics) for metrics in sums]


def _with_costs(convert: Callable[[Any], float], metrics: Metrics) -> Metrics:
    """Return the metrics with other costs: in units, which are exact, while they are added."""
    prompt, completion, total = metrics[3:6]
    if not (prompt or completion or total):
        return metrics
    return Metrics._make((*metrics[0:3], convert(prompt), convert(completion), convert(total), metrics.errors))


def _parents(spans: Sequence[Span]) -> list[int | None]:
    """Return the index of each span's parent."""
    places: dict[tuple[bytes, bytes | None], int]
    places = {(span.trace_id, span.span_id): index for index, span in enumerate(spans)}
    if len(places) == len(spans):
        return [places.get((span.trace_id, span.parent_id)) for span in spans]
    return [
        places.get((span.trace_id, span.parent_id))
        if span.parent_id is not None and places[span.trace_id, span.span_id] == index
        else None
        for index, span in enumerate(spans)
    ]


def _cut_cycles(parents: list[int | None], spans: Sequence[Span]) -> list[int]:
    """Make the earliest span of each cycle a root; return all spans, each after its parent."""
    if all(parent is None or parent < index for index, parent in enumerate(parents)):
        return list(range(len(parents)))
    if all(parent is None or parent > index for index, parent in enumerate(parents)):  # the order in which spans end
        return list(reversed(range(len(parents))))
    parents_first: list[int] = []
    path_of: dict[int, int] = {}  # span → the start of the path that came to it first
    for start in range(len(parents)):
        path: list[int] = []
        index: int | None = start
        while index is not None and index not in path_of:
            path_of[index] = start
            path.append(index)
            index = parents[index]
        if index is not None and path_of[index] == start:  # it came back to its own path
            tail, cycle = path[: path.index(index)], path[path.index(index) :]
            top = min(cycle, key=lambda member: (spans[member].start_ns, spans[member].span_id))
            parents[top] = None
            last = cycle.index(top) + 1
            path = [*tail, *cycle[last:], *cycle[:last]]
        parents_first += reversed(path)
    return parents_first
