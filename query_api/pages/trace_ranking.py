"""``windowing.sort`` of traces: the first traces with a match by a value (contract §3.5).

The engine computes the value of every such trace from visible spans (``spans/visible_spans.py``): the duration, tokens
and cost of the whole trace, or the largest value of an attribute of its matching spans.

For all traces of a window by tokens or cost that takes a second for a million spans. So traces are first ordered by
what all versions of their spans report, which is at least their value: those below the last of a full ranking are not
examined.
"""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any, Final, NamedTuple

from common.clickhouse.select import Select, Table
from common.span import NO_METRICS
from common.usage import exact_total_sql
from query_api.filter.language import COST, DURATION
from query_api.filter.sql.compile import EVERY_ROW
from query_api.pages.page import Batch
from query_api.pages.ranking import TOKENS, Ranking, RankingScan, bits_of, double, window_until
from query_api.pages.snapshot import TraceWindow
from query_api.pages.trace_search import FoundTrace
from query_api.spans.latest_versions import latest_of_traces
from query_api.spans.project_spans import ProjectSpans, StatementBudget
from query_api.spans.rows_ahead import RowsAhead
from query_api.spans.versions import AMOUNTS_SQL, TracePosition, Version, values_of
from query_api.spans.visible_spans import visible_spans

_AMOUNTS: Final[Mapping[str, Sequence[str]]] = {
    unit: [f"{metric}_{part}" for part in ("prompt", "completion", "total")]
    for unit, metric in ((TOKENS, "tokens"), (COST, "costs"))
}
"""The sums of a trace that must all be finite, as in responses; the last is the value."""


BOUNDED_MAX: Final = 8_192
"""Traces to examine one by one; beyond it, a statement over all of them takes less."""

GROWTH: Final = 8
"""From one round of traces to examine to the next: a round takes 50 ms for a million spans, however few traces."""


class RankedTrace(NamedTuple):
    """A trace with its value, and its place among equal values."""

    value: float
    position: TracePosition


@dataclass(frozen=True, slots=True)
class RankedTraces:
    """Traces in the order of the ranking. ``is_complete`` is false if the budget ended before the window did."""

    traces: Sequence[FoundTrace]
    is_complete: bool


async def rank_traces(
    spans: ProjectSpans, ranking: Ranking, window: TraceWindow, *, rows: RowsAhead | None
) -> RankedTraces:
    """Return the first traces that have a match in the window; ``rows``, if any, prefetches them.

    Raises ``DeadlineExceeded`` if nothing could be examined.
    """
    scan = TraceRankingScan(spans, ranking, window)
    await scan.run()
    trace_ids = [trace.position.trace_id for trace in scan.top]
    prefetch = None if rows is None else partial(rows.begin, trace_ids=trace_ids)
    latest, sums = await latest_of_traces(spans, trace_ids, on_sent=prefetch)
    versions: dict[bytes, list[Version]] = defaultdict(list)
    for version in latest:
        versions[version.trace_id].append(version)
    traces = [
        FoundTrace(position, versions[position.trace_id], sums.get(position.trace_id, NO_METRICS))
        for _, position in scan.top
        if position.trace_id in versions  # it was not deleted meanwhile
    ]
    return RankedTraces(traces, scan.is_at_end and scan.is_exact)


class TraceRankingScan(RankingScan[RankedTrace, TracePosition]):
    """Finds the first traces of a window by a value: ``top``, in order."""

    columns = ("start_us", "span_id", "trace_id")
    place = TracePosition
    is_exact = True
    """Whether ``top`` is that of all that was examined: spans of one trace in several slices may have the attribute."""

    def __init__(self, spans: ProjectSpans, ranking: Ranking, window: TraceWindow) -> None:
        super().__init__(spans, ranking, window)
        self._ranking_window = window

    async def _select(
        self, size: int, share: StatementBudget, *, until_us: int | None = None
    ) -> Batch[RankedTrace, TracePosition]:
        """Put the first traces of a part of the window into ``top``."""
        conditions, parameters = window_until(self._window, until_us)
        if self._has_bound and await self._take_bounded(conditions, parameters, size, share):
            return Batch([], None)
        values = {**parameters, **self._matching.parameters, "candidates": size}
        rows = await self._spans.select(self._ranked(conditions, values), step="candidates", share=share)
        columns = (values_of(rows, name) for name in ("ranked_by", "latest_us", "trace_id"))
        self._take(
            [
                RankedTrace(value, TracePosition(start_us, trace_id))
                for value, start_us, trace_id in zip(*columns, strict=True)
            ]
        )
        is_whole_trace = self._ranking.place.field in (DURATION, TOKENS, COST)
        self.is_exact = self.is_exact and (until_us is None or is_whole_trace)
        return Batch([], None)

    @property
    def _has_bound(self) -> bool:
        """Whether the latest versions alone decide, and what the versions of a trace report bounds its value."""
        is_unfiltered = self._matching.sql == EVERY_ROW.sql
        return is_unfiltered and self._ranking.is_descending and self._ranking.place.field in _AMOUNTS

    async def _take_bounded(
        self, conditions: Sequence[str], parameters: Mapping[str, Any], size: int, share: StatementBudget
    ) -> bool:
        """Examine traces by the bound of their values until no other can be among the first; return whether they are.

        ``top`` then has them. False after ``BOUNDED_MAX`` traces.
        """
        last_bound: float | None = None
        while size <= BOUNDED_MAX:
            values = {**parameters, "candidates": size}
            rows = await self._spans.select(
                self._bounds(conditions, values, last_bound), step="candidates", share=share
            )
            trace_ids, bounds = values_of(rows, "trace_id"), rows.column("bound").to_pylist()
            await self._take_exact(trace_ids)
            is_full = len(self.top) == self._ranking.limit
            if len(bounds) < size or (is_full and self.top[-1].value > bounds[-1]):
                return True
            last_bound, size, share = bounds[-1], size * GROWTH, self._budget.share()
        return False

    def _bounds(self, conditions: Sequence[str], values: Mapping[str, Any], last_bound: float | None) -> Select:
        """Return the query of traces by their bounds, from ``last_bound`` on: what all versions of spans report."""
        prompt, completion, total = (AMOUNTS_SQL[name] for name in _AMOUNTS[self._ranking.place.field])
        bound = f"greatest({total}, {prompt} + {completion}, {prompt}, {completion}, 0.)"
        bound = f"{exact_total_sql(bound) if self._ranking.place.is_cost else f'sum({bound})'} AS bound"
        having = [f"countIf({total} != 0 OR {prompt} != 0 OR {completion} != 0) > 0"]
        if conditions:
            having.append(f"countIf({' AND '.join(conditions)}) > 0")
        if last_bound is not None:
            having.append(f"bound <= {double('last_bound')}")
            values = {**values, "last_bound": bits_of(last_bound)}
        return Select(
            self._spans.project_id,
            Table.VERSIONS,
            ["trace_id", bound],
            group_by=["trace_id"],
            having=having,
            order_by=["bound DESC"],
            limit="{candidates:UInt32}",
            parameters=values,
        )

    async def _take_exact(self, trace_ids: Sequence[bytes]) -> None:
        """Put those of the traces that have a visible span in the window, and a value, into ``top``."""
        latest, sums = await latest_of_traces(self._spans, trace_ids)
        places: dict[bytes, TracePosition] = {}
        for version in latest:
            if self._ranking_window.includes(version.start_us):
                place = TracePosition(version.start_us, version.trace_id)
                places[version.trace_id] = max(places.get(version.trace_id, place), place)
        self._take(
            [
                RankedTrace(used[-1], places[trace_id])
                for trace_id, metrics in sums.items()
                if trace_id in places
                and (used := [getattr(metrics, amount) for amount in _AMOUNTS[self._ranking.place.field]])[-1]
                and all(map(math.isfinite, used))
            ]
        )

    def _take(self, found: Sequence[RankedTrace]) -> None:
        best = {trace.position.trace_id: trace for trace in self.top}
        for trace in found:
            known = best.get(trace.position.trace_id, trace)
            value = max(known.value, trace.value)
            best[trace.position.trace_id] = RankedTrace(value, max(known.position, trace.position))
        self.top = self._ranking.in_order(best.values(), self._window)

    def _ranked(self, conditions: Sequence[str], values: Mapping[str, Any]) -> Select:
        direction = "DESC" if self._window.is_descending else "ASC"
        return Select(
            self._spans.project_id,
            self._rows([*conditions, self._matching.sql], values),
            ["trace_id", f"{self._value()} AS ranked_by", "max(matched_us) AS latest_us"],
            group_by=["trace_id"],
            having=["ranked_by IS NOT NULL", "latest_us IS NOT NULL"],
            order_by=[f"ranked_by {self._ranking.direction}", f"latest_us {direction}", f"trace_id {direction}"],
            limit="{candidates:UInt32}",
        )

    def _value(self) -> str:
        """Return the value of a trace as an aggregate over the rows of ``_rows``; null if it has none."""
        field = self._ranking.place.field
        if field == DURATION:
            return "toNullable((max(ended_us) - min(start_us)) / 1000)"
        if field in _AMOUNTS:
            total, are_finite = _AMOUNTS[field][-1], [f"isFinite({amount})" for amount in _AMOUNTS[field]]
            return f"any(if({' AND '.join([f'{total} != 0', *are_finite])}, toNullable({total}), NULL))"
        return "max(ranked)"

    def _rows(self, conditions: Sequence[str], values: Mapping[str, Any]) -> Select:
        """Return the visible spans that decide about the value of a trace, with the start of those that match."""
        field = self._ranking.place.field
        project_id = self._spans.project_id
        window = conditions if self._matching.sql == EVERY_ROW.sql else None
        if field in _AMOUNTS:
            columns: dict[str, Any] = {"matched_us": "start_us"}
            return visible_spans(project_id, columns, conditions, values, window=window, with_sums=True)
        if field != DURATION:
            columns = {"matched_us": "start_us", "ranked": self._ranking.number}
            return visible_spans(project_id, columns, conditions, values, window=window)
        is_match = " AND ".join(f"({condition})" for condition in conditions)
        columns = {"ended_us": "end_us", "matched_us": f"if({is_match}, start_us, NULL)"}
        if list(conditions) == [EVERY_ROW.sql]:
            return visible_spans(project_id, columns, conditions, values, window=[])
        in_traces = f"trace_id IN ({Select(project_id, Table.SPANS, ['trace_id'], where=conditions)})"
        return visible_spans(project_id, columns, [in_traces], values, window=None if window is None else [in_traces])
