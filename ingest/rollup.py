"""The roll-up inside one record: what each span and everything below it used (reference §3.3), each model call once.

A span's tokens count where nothing below it reports tokens, or where they are its own by their meaning, and its costs
likewise; errors always (ADR 0010). Only what came together is added, so a root's sums are computed anew when it is read,
over its whole trace (ADR 0005); these here serve the inner spans. Parents are found by id, whatever the order of spans or their times.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from operator import add

from common.span import NO_METRICS, Metrics, Span

_NONE = -1


def roll_up(spans: Sequence[Span], own: Sequence[Metrics], always: Collection[int] = ()) -> list[Metrics]:
    """For each span what it and its descendants in ``spans`` used, of which each has its ``own``; in linear time, at any depth.

    ``always`` are the indexes of spans whose usage counts whatever is below them.

    A span without its parent here is a root of its own. A cycle is cut above its earliest span. Of a span that is in
    ``spans`` twice only the last is added to its parent.
    """
    parents = _parents(spans)
    order = _children_first(parents)
    if len(order) < len(spans):  # nobody on a cycle comes after all its children
        _cut_cycles(parents, spans)
        order = _children_first(parents)
    below = [NO_METRICS] * len(spans)
    sums = list(own)
    for index in order:
        if below[index] is not NO_METRICS:
            is_added = index in always
            sums[index] = _added(own[index], below[index]) if is_added else _joined(own[index], below[index])
        parent = parents[index]
        if parent != _NONE and sums[index] is not NO_METRICS:
            below[parent] = _added(below[parent], sums[index])
    return sums


def _children_first(parents: Sequence[int]) -> list[int]:
    """Every span after all its children; those on a cycle, and above one, are left out."""
    missing = [0] * len(parents)
    for parent in parents:
        if parent != _NONE:
            missing[parent] += 1
    complete = [index for index, count in enumerate(missing) if count == 0]
    for index in complete:  # grows while it is walked
        parent = parents[index]
        if parent != _NONE:
            missing[parent] -= 1
            if missing[parent] == 0:
                complete.append(parent)
    return complete


def _added(one: Metrics, other: Metrics) -> Metrics:
    return Metrics._make(map(add, one, other))


def _joined(own: Metrics, below: Metrics) -> Metrics:
    """What a span used with what is below it: usage that is reported there is not added to a report of its own."""
    tokens = below[0:3] if any(below[0:3]) else own[0:3]
    costs = below[3:6] if any(below[3:6]) else own[3:6]
    return Metrics(*tokens, *costs, errors=own.errors + below.errors)


def _parents(spans: Sequence[Span]) -> list[int]:
    """The index of each span's parent."""
    places = {(span.trace_id, span.span_id): index for index, span in enumerate(spans)}
    return [
        places.get((span.trace_id, span.parent_id), _NONE)
        if span.parent_id is not None and places[span.trace_id, span.span_id] == index
        else _NONE
        for index, span in enumerate(spans)
    ]


def _cut_cycles(parents: list[int], spans: Sequence[Span]) -> None:
    walk_of = [_NONE] * len(parents)  # the walk that passed here first
    for walk in range(len(parents)):
        path = []
        index = walk
        while index != _NONE and walk_of[index] == _NONE:
            walk_of[index] = walk
            path.append(index)
            index = parents[index]
        if index != _NONE and walk_of[index] == walk:  # back on its own path
            cycle = path[path.index(index) :]
            top = min(cycle, key=lambda member: (spans[member].start_ns, spans[member].span_id))
            parents[top] = _NONE
