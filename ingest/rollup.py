"""The roll-up inside one record: what each span and everything below it used (reference §3.3), each model call once.

Tokens, costs and errors count where nothing below reports them; tokens and costs also where they are the span's own by their
meaning; of a report that lacks a member, the next one above that has it counts (ADR 0010). Only what came together is added, so a
root's sums are computed anew when it is read, over its whole trace (ADR 0005); these here serve the inner spans. Parents are found
by id, whatever the order of spans or their times.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from operator import add
from typing import Final, NamedTuple

from common.span import NO_METRICS, Metrics, Span, Usage, is_more_than_parts

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
    below = [_NOTHING] * len(spans)
    sums = list(own)
    for index in order:
        known = below[index]
        if known is not _NOTHING:
            sums[index] = _joined(own[index], known, is_always=index in always)
        parent = parents[index]
        if parent != _NONE and sums[index] is not NO_METRICS:
            below[parent] = _with_child(below[parent], sums[index], own[index], known)
    return sums


class _Below(NamedTuple):
    """What the spans below one used, and whether one of them reports a total that is more than its parts."""

    metrics: Metrics = NO_METRICS
    tokens_exceed_parts: bool = False
    costs_exceed_parts: bool = False


_NOTHING: Final = _Below()


def _with_child(siblings: _Below, sums: Metrics, own: Metrics, below_child: _Below) -> _Below:
    return _Below(
        _added(siblings.metrics, sums),
        siblings.tokens_exceed_parts or below_child.tokens_exceed_parts or is_more_than_parts(*own[0:3]),
        siblings.costs_exceed_parts or below_child.costs_exceed_parts or is_more_than_parts(*own[3:6]),
    )


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


def _joined(own: Metrics, below: _Below, *, is_always: bool) -> Metrics:
    """What a span used with what is below it."""
    errors = below.metrics.errors or own.errors
    if is_always:
        return _added(own, below.metrics)._replace(errors=errors)
    tokens = _usage(own[0:3], below.metrics[0:3], exceeds_parts=below.tokens_exceed_parts)
    costs = _usage(own[3:6], below.metrics[3:6], exceeds_parts=below.costs_exceed_parts)
    return Metrics(*tokens, *costs, errors=errors)


def _usage(own: Usage, below: Usage, *, exceeds_parts: bool) -> Usage:
    """Of one unit: what is reported below, and of the span's own the parts that nothing below reports."""
    if not any(below):
        return own
    prompt, completion, total = below
    if not exceeds_parts:  # else the parts are in the total already
        total += (0 if prompt else own[0]) + (0 if completion else own[1])
    return prompt or own[0], completion or own[1], total


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
