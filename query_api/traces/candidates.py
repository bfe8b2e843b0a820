"""Rows of ``spans`` that match, in the order of pages of traces, found with bounded work (contract §3.3).

The way of ``spans/candidates.py`` in another order: first all that is left of the window in one statement, which the engine
ends as soon as it has enough rows; when that takes more than its share of the budget, in stretches of time
(``spans/search_budget.py``), each from the next row there is. When the budget ends, the page ends where the last stretch did.

The engine reads in the order of the table, by start and then by span, and stops early in no other order. So rows are asked
for in that one, whole microseconds of them, and put into the order of pages here; a microsecond with more rows than were
asked for is a statement of its own, in the order of pages.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from operator import itemgetter
from typing import Any, Final

from common.errors import DeadlineExceeded
from query_api.spans.compile import EVERY_ROW, Compiled
from query_api.spans.models import Order
from query_api.spans.project_spans import ProjectSpans, Share
from query_api.spans.sampling import SAMPLED
from query_api.spans.search_budget import SearchBudget
from query_api.spans.version import Version, versions_of
from query_api.traces.window import TracePosition, TraceWindow

_TABLE_ORDER: Final = ("start_us", "span_id", "trace_id")
_PAGE_ORDER: Final = ("start_us", "trace_id")
_PLACE: Final = itemgetter(*map(Version._fields.index, _PAGE_ORDER))


@dataclass(frozen=True, slots=True)
class _Rows:
    """Matches in the order of pages. ``through``: nothing up to there is missing; ``None`` where it is all of them."""

    versions: list[Version]
    is_all: bool
    through: TracePosition | None = None


class TraceCandidates:
    """Goes along the rows of a window that match, batch by batch, until the end or until the budget is spent."""

    def __init__(self, spans: ProjectSpans, matching: Compiled, window: TraceWindow) -> None:
        self._spans = spans
        self._matching = matching
        self._window = window
        self._budget = SearchBudget(spans)
        self._is_walking = False
        self.is_at_end = False

    @property
    def position(self) -> TracePosition | None:
        """Everything up to here, in the order of the window, has been given; ``None``: nothing yet."""
        return self._window.after

    @property
    def is_out_of_budget(self) -> bool:
        """Whether there is no going on in this request."""
        return self._budget.is_spent

    async def batch(self, size: int) -> list[Version]:
        """The next rows that match, about ``size`` of them, those of a trace with one start together."""
        if not self._is_walking:
            try:
                found = await self._select(self._window, size, self._budget.straight_share())
            except DeadlineExceeded:
                self._budget.failed_straight()
                self._is_walking = True
            else:
                self.is_at_end = found.is_all
                self._move(found.through or self.position)
                return found.versions
        return await self._walked(size)

    async def _walked(self, size: int) -> list[Version]:
        """From the next stretch; nothing when the budget is spent, or when the stretch was too long and is now shorter."""
        try:
            first_us = await self._next_start_us()
            if first_us is None:
                self.is_at_end = True
                return []
            edge = self._edge(first_us)
            stretch = _until(self._window, edge)
            if not await self._is_admitted(stretch):
                return []
            found = await self._select(stretch, size, self._budget.share())
        except DeadlineExceeded:
            self._budget.failed_stretch()
            return []
        if found.is_all:
            self._budget.walked_through()
        self._move(found.through or edge)
        return found.versions

    async def _is_admitted(self, stretch: TraceWindow) -> bool:
        """Whether the budget is enough for a stretch; else it is too long, or the budget is spent."""
        sql, parameters = candidates_statement(self._matching, stretch, order=_TABLE_ORDER)
        values = {**parameters, "candidates": 1}
        return self._budget.admits(await self._spans.rows_estimated(sql, values, share=self._budget.share()))

    def _edge(self, first_us: int) -> TracePosition:
        """Where the stretch ends that begins at a start: behind all of its last microsecond."""
        sign = -1 if self._window.order is Order.DESCENDING else 1
        return TracePosition.edge(first_us + sign * (self._budget.stretch_us - 1), self._window.order)

    async def _next_start_us(self) -> int | None:
        """Where the next row starts, whether it matches or not."""
        sql, parameters = candidates_statement(EVERY_ROW, self._window, order=_TABLE_ORDER)
        rows = await self._spans.select(
            sql, {**parameters, "candidates": 1}, step="next row", share=self._budget.share()
        )
        starts: list[int] = rows.column("start_us").to_pylist()
        return starts[0] if starts else None

    async def _select(self, window: TraceWindow, size: int, share: Share) -> _Rows:
        """The first matches of a window: of whole microseconds, or of the first one if that has more of them."""
        found = await self._rows(window, size, share, order=_TABLE_ORDER)
        if len(found) < size:
            return _Rows(self._in_order(found), is_all=True)
        last_us = found[-1].start_us
        whole = self._in_order([version for version in found if version.start_us != last_us])
        if whole:
            return _Rows(whole, is_all=False, through=TracePosition.edge(whole[-1].start_us, window.order))
        return await self._select_at(last_us, window, size)

    async def _select_at(self, start_us: int, window: TraceWindow, size: int) -> _Rows:
        """The first matches of one microsecond of the window, those of a trace together."""
        instant = _instant(window, start_us)
        while True:
            found = await self._rows(instant, size, self._budget.share(), order=_PAGE_ORDER)
            if len(found) < size:
                return _Rows(found, is_all=False, through=TracePosition.edge(start_us, window.order))
            last = place_of(found[-1])
            whole = [version for version in found if place_of(version) != last]
            if whole:
                return _Rows(whole, is_all=False, through=place_of(whole[-1]))
            size *= 2  # so many spans of one trace that start together

    async def _rows(self, window: TraceWindow, size: int, share: Share, *, order: Sequence[str]) -> list[Version]:
        sql, parameters = candidates_statement(self._matching, window, order=order)
        values = {**parameters, "candidates": size}
        return versions_of(await self._spans.select(sql, values, step="candidates", share=share))

    def _in_order(self, versions: list[Version]) -> list[Version]:
        return sorted(versions, key=_PLACE, reverse=self._window.order is Order.DESCENDING)

    def _move(self, position: TracePosition | None) -> None:
        self._window = replace(self._window, after=position)
        self._budget.moved()


def place_of(version: Version) -> TracePosition:
    """Where its trace stands if this is its latest match."""
    return TracePosition(version.start_us, version.trace_id)


def candidates_statement(
    matching: Compiled, window: TraceWindow, *, order: Sequence[str]
) -> tuple[str, dict[str, Any]]:
    """The statement of the first ``{candidates:UInt32}`` rows in the order of these columns, and its other values."""
    direction = "DESC" if window.order is Order.DESCENDING else "ASC"
    bounds, parameters = _bounds(window)
    in_order = ", ".join(f"{column} {direction}" for column in order)
    conditions = "\n    AND ".join(["{of_project}", *bounds, matching.sql])
    sql = (
        "SELECT start_us, span_id, trace_id, log, log_offset\nFROM spans\n"
        f"WHERE {conditions}\nORDER BY {in_order}\nLIMIT {{candidates:UInt32}}\n"
    )
    return sql, {**parameters, **matching.parameters}


def _instant(window: TraceWindow, start_us: int) -> TraceWindow:
    """The part of the window that is one microsecond."""
    return replace(window, oldest_us=start_us, newest_us=start_us + 1, newest_is_included=False)


def _until(window: TraceWindow, edge: TracePosition) -> TraceWindow:
    """The part of the window up to the edge."""
    if window.order is Order.DESCENDING:
        low_us = edge.latest_us if window.oldest_us is None else max(edge.latest_us, window.oldest_us)
        return replace(window, oldest_us=low_us)
    end_us = edge.latest_us + 1 if window.end_us is None else min(edge.latest_us + 1, window.end_us)
    return replace(window, newest_us=end_us, newest_is_included=False)


def _bounds(window: TraceWindow) -> tuple[list[str], dict[str, Any]]:
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
    return bounds, parameters
