"""The roll-up inside one record: the usage of each span and everything below it (reference §3.3), each model call once.

Which reports count is the rule of ``common/usage.py``. Only spans of one record are added, so the sums of a root are
computed again when it is read, over its whole trace (ADR 0005); the sums here serve inner spans. Parents are found by
id, in any order of spans or times.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from operator import add

from common.span import NO_METRICS, Metrics, Span
from common.usage import counted_of_each


def roll_up(spans: Sequence[Span], own: Sequence[Metrics], always: Collection[int] = ()) -> list[Metrics]:
    """Return, for each span, the usage of it and its descendants in ``spans``; ``own`` is the usage of each alone.

    ``always`` are the indexes of spans whose usage counts whatever is below them. Takes linear time at any depth. A
    span whose parent is missing is a root. A cycle is cut above its earliest span. If a span is in ``spans`` twice,
    only the last is added to its parent.
    """
    parents = _parents(spans)
    parents_first = _cut_cycles(parents, spans)
    reports = {index: metrics for index, metrics in enumerate(own) if metrics is not NO_METRICS}
    counted = counted_of_each(reports, dict(enumerate(parents)), always)
    sums = [counted.get(index, NO_METRICS) for index in range(len(spans))]
    for index in reversed(parents_first):
        parent = parents[index]
        if parent is not None and sums[index] is not NO_METRICS:
            sums[parent] = Metrics._make(map(add, sums[parent], sums[index]))
    return sums


def _parents(spans: Sequence[Span]) -> list[int | None]:
    """Return the index of each span's parent."""
    places = {(span.trace_id, span.span_id): index for index, span in enumerate(spans)}
    return [
        places.get((span.trace_id, span.parent_id))
        if span.parent_id is not None and places[span.trace_id, span.span_id] == index
        else None
        for index, span in enumerate(spans)
    ]


def _cut_cycles(parents: list[int | None], spans: Sequence[Span]) -> list[int]:
    """Make the earliest span of each cycle a root; return all spans, each after its parent."""
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
