"""Rows of ``spans`` that match, in the order of pages, found with bounded work (contract §3.3).

First one statement is asked of all that is left of the window, with a share of the budget: the engine reads in order and
stops when it has enough, so that is the whole work of nearly every page. When it ends past its share, the window is walked
in stretches of time (``search_budget.py``), each from the next row there is. A walk that runs out of budget stands between
two stretches, and the next page begins there.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any, NamedTuple

import pyarrow as pa

from common.clickhouse.span_columns import NO_PARENT
from common.errors import DeadlineExceeded
from query_api.spans.columns import rows_as, values_of
from query_api.spans.compile import EVERY_ROW, Compiled
from query_api.spans.models import Order
from query_api.spans.position import Position
from query_api.spans.project_spans import ProjectSpans, Share
from query_api.spans.sampling import SAMPLED
from query_api.spans.search_budget import SearchBudget
from query_api.spans.version import Version, versions_of


@dataclass(frozen=True, slots=True)
class Window:
    """Which spans can be on a page, and in which order.

    Bounds are microseconds; reference §6.2 decides which is part of the window. ``after`` is where the last page ended.
    ``rate_percent`` keeps so many of a hundred traces.
    """

    order: Order = Order.DESCENDING
    newest_us: int | None = None
    oldest_us: int | None = None
    rate_percent: int = 100
    after: Position | None = None


class Candidate(NamedTuple):
    """A row that matches. Whether it is shown is not known yet."""

    version: Version
    is_root: bool
    answer_bytes: int
    members: int
    """Which of ``OPTIONAL_MEMBERS`` it has."""


class Candidates:
    """Goes along the rows of a window that match, batch by batch, until the end or until the budget is spent."""

    def __init__(self, spans: ProjectSpans, matching: Compiled, window: Window) -> None:
        self._spans = spans
        self._matching = matching
        self._window = window
        self._budget = SearchBudget(spans)
        self._is_walking = window.after is not None and window.after.is_edge
        self.is_at_end = False

    @property
    def position(self) -> Position | None:
        """Everything up to here, in the order of the window, has been given; ``None``: nothing yet."""
        return self._window.after

    @property
    def is_out_of_budget(self) -> bool:
        """Whether there is no going on in this request."""
        return self._budget.is_spent

    async def batch(self, size: int) -> list[Candidate]:
        """The next rows that match, about ``size`` of them, all versions of a key together; fewer at the end and when the
        budget is spent.

        Raises ``DeadlineExceeded`` when it was spent before anything was looked at.
        """
        if not self._is_walking:
            try:
                return await self._straight(size)
            except DeadlineExceeded:
                self._budget.failed_straight()
                self._is_walking = True
        found: list[Candidate] = []
        while len(found) < size and not self.is_at_end and not self.is_out_of_budget:
            found += await self._walked(size - len(found))
        if self.is_out_of_budget and not self._budget.has_moved:
            raise DeadlineExceeded(f"The query did not end within its budget of {self._spans.budget_s:g} s.")
        return found

    async def _straight(self, size: int) -> list[Candidate]:
        """From all that is left of the window."""
        found, is_all = await self._select(size, self._budget.straight_share())
        self.is_at_end = is_all
        self._move(found[-1].version.position if found else self.position)
        return found

    async def _walked(self, size: int) -> list[Candidate]:
        """From the next stretch; nothing when it has to be made shorter first."""
        try:
            end_us = await self._next_stretch()
            if end_us is None:
                return []
            found, is_all = await self._select(size, self._budget.share(), until_us=end_us)
        except DeadlineExceeded:
            self._budget.failed_stretch()
            return []
        if is_all:
            self._move(Position.edge(end_us, self._window.order))
            self._budget.walked_through()
        else:
            self._move(found[-1].version.position)
        return found

    async def _next_stretch(self) -> int | None:
        """The end of a stretch that begins at the next row there is, and that a share of the rows is enough for; ``None``
        when there is no such row, or no budget for it.
        """
        first_us = await self._next_start_us()
        if first_us is None:
            self.is_at_end = True
            return None
        while not self._budget.is_spent:
            end_us = _end_us(first_us, self._budget.stretch_us, self._window.order)
            if self._budget.admits(await self._rows_until(end_us)):
                return end_us
        return None

    async def _next_start_us(self) -> int | None:
        """Where the next row starts, whether it matches or not."""
        sql, parameters = candidates_statement(EVERY_ROW, self._window)
        rows = await self._spans.select(
            sql, {**parameters, "candidates": 1}, step="next row", share=self._budget.share()
        )
        starts: list[int] = rows.column("start_us").to_pylist()
        return starts[0] if starts else None

    async def _rows_until(self, end_us: int) -> int:
        """How many rows the engine would read for the matches of a stretch, as it knows from its indexes."""
        sql, parameters = candidates_statement(self._matching, self._window, until_us=end_us)
        return await self._spans.rows_estimated(sql, {**parameters, "candidates": 1}, share=self._budget.share())

    async def _select(self, size: int, share: Share, *, until_us: int | None = None) -> tuple[list[Candidate], bool]:
        """The next matches, all versions of a key together, and whether these are all."""
        while True:
            sql, parameters = candidates_statement(self._matching, self._window, until_us=until_us)
            rows = await self._spans.select(sql, {**parameters, "candidates": size}, step="candidates", share=share)
            found = _candidates_of(rows)
            if len(found) < size:
                return found, True
            last = found[-1].version.position
            while found and found[-1].version.position == last:  # of this key there may be more
                found.pop()
            if found:
                return found, False
            size *= 2  # one key with so many versions

    def _move(self, position: Position | None) -> None:
        self._window = replace(self._window, after=position)
        self._budget.moved()


def _candidates_of(rows: pa.Table) -> list[Candidate]:
    are_roots = [parent_id == NO_PARENT for parent_id in values_of(rows, "parent_id")]
    others = (values_of(rows, name) for name in ("answer_bytes", "members"))
    return rows_as(Candidate, versions_of(rows), are_roots, *others)


def _end_us(first_us: int, length_us: int, order: Order) -> int:
    return first_us - length_us + 1 if order is Order.DESCENDING else first_us + length_us - 1


def candidates_statement(
    matching: Compiled, window: Window, *, until_us: int | None = None
) -> tuple[str, dict[str, Any]]:
    """The statement of the first ``{candidates:UInt32}`` rows, none behind ``until_us``, and its other values."""
    direction = "DESC" if window.order is Order.DESCENDING else "ASC"
    bounds, parameters = _bounds(window)
    if until_us is not None:
        bounds.append(f"start_us {'>=' if window.order is Order.DESCENDING else '<='} {{until_us:Int64}}")
        parameters["until_us"] = until_us
    conditions = "\n    AND ".join(["{of_project}", *bounds, matching.sql])
    order = ", ".join(f"{column} {direction}" for column in Position._fields)
    sql = (
        "SELECT start_us, span_id, trace_id, log, log_offset, parent_id, answer_bytes, members\nFROM spans\n"
        f"WHERE {conditions}\nORDER BY {order}\nLIMIT {{candidates:UInt32}}\n"
    )
    return sql, {**parameters, **matching.parameters}


def _bounds(window: Window) -> tuple[list[str], dict[str, Any]]:
    """The window as conditions. A position is inside its leading bound, and stands for it: a hand-made one lies on it."""
    is_descending = window.order is Order.DESCENDING
    bounds: list[str] = []
    parameters: dict[str, Any] = {}
    if window.after is not None:
        sign = "<" if is_descending else ">"
        bounds.append(f"start_us {sign}= {{after_start_us:Int64}}")  # alone it prunes by the primary key
        bounds.append(
            f"(start_us, span_id, trace_id) {sign} ({{after_start_us:Int64}},"
            " toFixedString(unhex({after_span_id:String}), 16), toFixedString(unhex({after_trace_id:String}), 16))"
        )
        parameters |= {
            "after_start_us": window.after.start_us,
            "after_span_id": window.after.span_id.hex(),
            "after_trace_id": window.after.trace_id.hex(),
        }
    if window.newest_us is not None and (window.after is None or not is_descending):
        bounds.append(f"start_us {'<' if is_descending else '<='} {{newest_us:Int64}}")
        parameters["newest_us"] = window.newest_us
    if window.oldest_us is not None and (window.after is None or is_descending):
        bounds.append(f"start_us {'>=' if is_descending else '>'} {{oldest_us:Int64}}")
        parameters["oldest_us"] = window.oldest_us
    if window.rate_percent < 100:
        bounds.append(SAMPLED)
        parameters["rate_percent"] = window.rate_percent
    return bounds, parameters
