"""Rows of ``spans`` that match, in the order of pages of traces (``spans/bounded_search.py``).

The engine reads in the order of the table, by start and then by span, and stops early in no other order. So rows are asked
for in that one, whole microseconds of them, and put into the order of pages here; a microsecond with more rows than were
asked for is a statement of its own, in the order of pages.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from operator import itemgetter
from typing import Any, Final

from query_api.filter.sql.compile import Compiled
from query_api.pages.bounded_search import BoundedSearch, Bounds, Portion, statement_in_order
from query_api.pages.traces_window import TracePosition, TraceWindow
from query_api.spans.project_spans import ProjectSpans, StatementBudget
from query_api.spans.version import Version, versions_of
from query_api.spans.windowing import SAMPLED, Order

_TABLE_ORDER: Final = ("start_us", "span_id", "trace_id")
_PAGE_ORDER: Final = ("start_us", "trace_id")
_PLACE: Final = itemgetter(*map(Version._fields.index, _PAGE_ORDER))


class TraceCandidates(BoundedSearch[Version, TracePosition]):
    """Goes along the rows of a window that match, those of a trace with one start together."""

    def __init__(self, spans: ProjectSpans, matching: Compiled, window: TraceWindow) -> None:
        is_walk = window.after is not None and window.after.is_edge
        super().__init__(spans, matching, order=window.order, after=window.after, is_walk=is_walk)
        self._window = window

    def _statement(self, matching: Compiled, *, until_us: int | None = None) -> tuple[str, dict[str, Any]]:
        window = replace(self._window, after=self.position)
        return candidates_statement(matching, window, order=_TABLE_ORDER, until_us=until_us)

    async def _select(
        self, size: int, share: StatementBudget, *, until_us: int | None = None
    ) -> Portion[Version, TracePosition]:
        """Of whole microseconds, or of the first one if that has more than ``size``."""
        found = await self._rows(*self._statement(self._matching, until_us=until_us), size, share)
        if len(found) < size:
            return Portion(self._in_order(found), None)
        last_us = found[-1].start_us
        whole = self._in_order([version for version in found if version.start_us != last_us])
        if whole:
            return Portion(whole, self._edge(whole[-1].start_us))
        return await self._select_at(last_us, size)

    async def _select_at(self, start_us: int, size: int) -> Portion[Version, TracePosition]:
        """The first matches of one microsecond, those of a trace together."""
        instant = _instant(replace(self._window, after=self.position), start_us)
        statement = candidates_statement(self._matching, instant, order=_PAGE_ORDER)
        while True:
            found = await self._rows(*statement, size, self._budget.share())
            if len(found) < size:
                return Portion(found, self._edge(start_us))
            last = place_of(found[-1])
            whole = [version for version in found if place_of(version) != last]
            if whole:
                return Portion(whole, place_of(whole[-1]))
            size *= 2  # so many spans of one trace that start together

    async def _rows(self, sql: str, parameters: dict[str, Any], size: int, share: StatementBudget) -> list[Version]:
        values = {**parameters, "candidates": size}
        return versions_of(await self._spans.select(sql, values, step="candidates", share=share))

    def _in_order(self, versions: list[Version]) -> list[Version]:
        return sorted(versions, key=_PLACE, reverse=self._order is Order.DESCENDING)

    def _edge(self, start_us: int) -> TracePosition:
        return TracePosition.edge(start_us, self._order)


def place_of(version: Version) -> TracePosition:
    """Where its trace stands if this is its latest match."""
    return TracePosition(version.start_us, version.trace_id)


def candidates_statement(
    matching: Compiled, window: TraceWindow, *, order: Sequence[str], until_us: int | None = None
) -> tuple[str, dict[str, Any]]:
    """The statement of the first ``{candidates:UInt32}`` rows in the order of these columns, none behind ``until_us``, and its
    other values."""
    bounds = _bounds(window)
    return statement_in_order(Version._fields, matching, bounds, by=order, order=window.order, until_us=until_us)


def _instant(window: TraceWindow, start_us: int) -> TraceWindow:
    """The part of the window that is one microsecond."""
    return replace(window, oldest_us=start_us, newest_us=start_us + 1, newest_is_included=False)


def _bounds(window: TraceWindow) -> Bounds:
    """The window as conditions. The start alone beside the position prunes by the primary key."""
    bounds: list[str] = []
    parameters: dict[str, Any] = {}
    if window.after is not None:
        sign = "<" if window.order is Order.DESCENDING else ">"
        bounds.append(f"start_us {sign}= {{after_us:Int64}}")
        bounds.append(
            f"(start_us, trace_id) {sign} ({{after_us:Int64}}, toFixedString(unhex({{after_trace_id:String}}), 16))"
        )
        parameters |= {"after_us": window.after.latest_us, "after_trace_id": window.after.trace_id.hex()}
    if window.end_us is not None:
        bounds.append("start_us < {end_us:Int64}")
        parameters["end_us"] = window.end_us
    if window.oldest_us is not None:
        bounds.append("start_us >= {oldest_us:Int64}")
        parameters["oldest_us"] = window.oldest_us
    if window.rate_percent < 100:
        bounds.append(SAMPLED)
        parameters["rate_percent"] = window.rate_percent
    return Bounds(bounds, parameters)
