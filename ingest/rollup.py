"""The roll-up inside one record: the usage of each span and everything below it (reference §3.3), each model call once.

Tokens, costs and errors of a span count if nothing below it reports them; tokens and costs also if they are its own by
their meaning. If a report lacks a member, that of the nearest span above with the member counts (ADR 0010). Only spans
of one record are added, so the sums of a root are computed again when it is read, over its whole trace (ADR 0005); the
sums here serve inner spans. Parents are found by id, in any order of spans or times.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from operator import add
from typing import Final, NamedTuple

from common.span import NO_METRICS, Metrics, Span, Usage, is_more_than_parts

_NONE = -1


def roll_up(spans: Sequence[Span], own: Sequence[Metrics], always: Collection[int] = ()) -> list[Metrics]:
    """Return, for each span, the usage of it and its descendants in ``spans``; ``own`` is the usage of each alone.

    ``always`` are the indexes of spans whose usage counts whatever is below them. Takes linear time at any depth. A
    span whose parent is missing is a root. A cycle is cut above its earliest span. If a span is in ``spans`` twice,
    only the last is added to its parent.
    """
    parents = _parents(spans)
    order = _children_first(parents)
    if len(order) < len(spans):  # no span on a cycle comes after all its children
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
    """The usage of the spans below a span, and whether one of them reports a total that is more than its parts."""

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
    """Return every span after all its children; spans on a cycle, and above one, are left out."""
    missing = [0] * len(parents)
    for parent in parents:
        if parent != _NONE:
            missing[parent] += 1
    complete = [index for index, count in enumerate(missing) if count == 0]
    for index in complete:  # grows during the loop
        parent = parents[index]
        if parent != _NONE:
            missing[parent] -= 1
            if missing[parent] == 0:
                complete.append(parent)
    return complete


def _added(one: Metrics, other: Metrics) -> Metrics:
    return Metrics._make(map(add, one, other))


def _joined(own: Metrics, below: _Below, *, is_always: bool) -> Metrics:
    """Return the usage of a span with what is below it."""
    errors = below.metrics.errors or own.errors
    if is_always:
        return _added(own, below.metrics)._replace(errors=errors)
    tokens = _usage(own[0:3], below.metrics[0:3], exceeds_parts=below.tokens_exceed_parts)
    costs = _usage(own[3:6], below.metrics[3:6], exceeds_parts=below.costs_exceed_parts)
    return Metrics(*tokens, *costs, errors=errors)


def _usage(own: Usage, below: Usage, *, exceeds_parts: bool) -> Usage:
    """Return, for one unit, what is reported below, plus the span's own parts that nothing below reports."""
    if not any(below):
        return own
    prompt, completion, total = below
    if not exceeds_parts:  # otherwise the total includes the parts already
        total += (0 if prompt else own[0]) + (0 if completion else own[1])
    return prompt or own[0], completion or own[1], total


def _parents(spans: Sequence[Span]) -> list[int]:
    """Return the index of each span's parent."""
    places = {(span.trace_id, span.span_id): index for index, span in enumerate(spans)}
    return [
        places.get((span.trace_id, span.parent_id), _NONE)
        if span.parent_id is not None and places[span.trace_id, span.span_id] == index
        else _NONE
        for index, span in enumerate(spans)
    ]


def _cut_cycles(parents: list[int], spans: Sequence[Span]) -> None:
    first_pass = [_NONE] * len(parents)  # the start of the pass that came here first
    for start in range(len(parents)):
        path = []
        index = start
        while index != _NONE and first_pass[index] == _NONE:
            first_pass[index] = start
            path.append(index)
            index = parents[index]
        if index != _NONE and first_pass[index] == start:  # it came back to its own path
            cycle = path[path.index(index) :]
            top = min(cycle, key=lambda member: (spans[member].start_ns, spans[member].span_id))
            parents[top] = _NONE
