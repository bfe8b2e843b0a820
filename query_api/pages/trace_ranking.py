"""``windowing.sort`` of traces: the first traces with a match by a value (contract §3.5).

The engine computes the value of every such trace from visible spans (``spans/visible_spans.py``): the duration, tokens
and cost of the whole trace, or the largest value of an attribute of its matching spans.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any, Final, NamedTuple

from common.span import NO_METRICS
from query_api.filter.language import DURATION
from query_api.filter.sql.compile import EVERY_ROW
from query_api.pages.page import Batch
from query_api.pages.ranking import COST, TOKENS, Ranking, RankingScan, window_until
from query_api.pages.snapshot import TraceWindow
from query_api.pages.trace_search import FoundTrace
from query_api.spans.latest_versions import latest_of_traces
from query_api.spans.project_spans import ProjectSpans, StatementBudget
from query_api.spans.rows_ahead import RowsAhead
from query_api.spans.versions import Version, values_of
from query_api.spans.visible_spans import visible_spans
from query_api.spans.windowing import TracePosition

_AMOUNTS: Final[Mapping[str, Sequence[str]]] = {
    unit: [f"{metric}_{part}" for part in ("prompt", "completion", "total")]
    for unit, metric in ((TOKENS, "tokens"), (COST, "costs"))
}
"""The sums of a trace that must all be finite, as in responses; the last is the value."""


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

    async def _select(
        self, size: int, share: StatementBudget, *, until_us: int | None = None
    ) -> Batch[RankedTrace, TracePosition]:
        """Put the first traces of a part of the window into ``top``."""
        conditions, parameters = window_until(self._window, until_us)
        values = {**parameters, **self._matching.parameters, "candidates": size}
        rows = await self._spans.select(self._ranked_statement(conditions), values, step="candidates", share=share)
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

    def _take(self, found: Sequence[RankedTrace]) -> None:
        best = {trace.position.trace_id: trace for trace in self.top}
        for trace in found:
            known = best.get(trace.position.trace_id, trace)
            value = max(known.value, trace.value)
            best[trace.position.trace_id] = RankedTrace(value, max(known.position, trace.position))
        self.top = self._ranking.in_order(best.values(), self._window)

    def _ranked_statement(self, conditions: Sequence[str]) -> str:
        direction = "DESC" if self._window.is_descending else "ASC"
        return (
            f"SELECT trace_id, {self._value()} AS ranked_by, max(matched_us) AS latest_us\n"
            f"FROM ({self._rows([*conditions, self._matching.sql])})\nGROUP BY trace_id\nHAVING ranked_by IS NOT NULL\n"
            f"ORDER BY ranked_by {self._ranking.direction}, latest_us {direction}, trace_id {direction}\n"
            "LIMIT {candidates:UInt32}\n"
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

    def _rows(self, conditions: Sequence[str]) -> str:
        """Return the visible spans that decide about the value of a trace, with the start of a match."""
        field, are_many = self._ranking.place.field, self._matching.sql == EVERY_ROW.sql
        if field in _AMOUNTS:
            columns: dict[str, Any] = {"matched_us": "start_us"}
            return visible_spans(columns, conditions, are_many=are_many, with_sums=True)
        if field != DURATION:
            columns = {"matched_us": "start_us", "ranked": self._ranking.number}
            return visible_spans(columns, conditions, are_many=are_many)
        if list(conditions) == [EVERY_ROW.sql]:
            return visible_spans({"matched_us": "start_us", "ended_us": "end_us"}, conditions, are_many=True)
        matches = visible_spans({}, conditions, are_many=are_many)
        places = f"SELECT trace_id, max(start_us) AS matched_us FROM ({matches}) GROUP BY trace_id"
        whole = visible_spans({"ended_us": "end_us"}, [f"trace_id IN (SELECT trace_id FROM ({matches}))"])
        return (
            "SELECT whole.trace_id AS trace_id, start_us, ended_us, matched_us\n"
            f"FROM ({whole}) AS whole\nINNER JOIN ({places}) AS places ON places.trace_id = whole.trace_id"
        )
