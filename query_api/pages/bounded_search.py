"""Along the rows of ``spans`` that match, in an order of time, with bounded work (contract §3.3).

First one statement is asked of all that is left of the window, with a share of the budget: the engine reads in order and
stops when it has enough, so that is the whole work of nearly every page. When it ends past its share, the window is walked
in stretches of time (``search_budget.py``), each from the next row there is. A walk that runs out of budget stands between
two stretches, and the next page begins there.

In which order, and which rows are given together, is the concern of the two searches there are: ``candidates.py`` here, and
the one of traces.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from typing import Any, Generic, NamedTuple, TypeVar

from common.errors import DeadlineExceeded
from query_api.filter.sql.compile import EVERY_ROW, Compiled
from query_api.pages.search_budget import SearchBudget
from query_api.spans.project_spans import ProjectSpans, StatementBudget
from query_api.spans.tables import Table, read_from
from query_api.spans.windowing import Order

Row = TypeVar("Row")
Place = TypeVar("Place")


class Portion(NamedTuple, Generic[Row, Place]):
    """Rows in the order of the search. ``through``: none up to there is missing; ``None`` where these are all."""

    rows: list[Row]
    through: Place | None


class Bounds(NamedTuple):
    """What of a window is left, as conditions on rows of ``spans``, and the values in them."""

    conditions: list[str]
    parameters: dict[str, Any]


def statement_in_order(
    columns: Sequence[str],
    matching: Compiled,
    bounds: Bounds,
    *,
    by: Sequence[str],
    order: Order,
    until_us: int | None,
) -> tuple[str, dict[str, Any]]:
    """The statement of the first ``{candidates:UInt32}`` rows in the order of the columns ``by``, none behind ``until_us``, and its other
    values."""
    direction, sign = ("DESC", ">=") if order is Order.DESCENDING else ("ASC", "<=")
    stretch = (
        Bounds([], {}) if until_us is None else Bounds([f"start_us {sign} {{until_us:Int64}}"], {"until_us": until_us})
    )
    rows = read_from(Table.SPANS, *bounds.conditions, *stretch.conditions, matching.sql)
    in_order = [f"{column} {direction}" for column in by]
    sql = f"SELECT {', '.join(columns)}\n{rows}\nORDER BY {', '.join(in_order)}\nLIMIT {{candidates:UInt32}}\n"
    return sql, {**bounds.parameters, **stretch.parameters, **matching.parameters}


class BoundedSearch(ABC, Generic[Row, Place]):
    """Goes along rows batch by batch, until the end or until the budget is spent."""

    def __init__(
        self, spans: ProjectSpans, matching: Compiled, *, order: Order, after: Place | None, is_walk: bool
    ) -> None:
        """Begin behind ``after``; ``is_walk``: an earlier request had to walk that far."""
        self._spans = spans
        self._matching = matching
        self._order = order
        self._budget = SearchBudget(spans)
        self._is_walk = is_walk
        self.position = after
        """Everything up to here has been given; ``None``: nothing yet."""

        self.is_at_end = False

    @property
    def is_out_of_budget(self) -> bool:
        """Whether there is no going on in this request."""
        return self._budget.is_spent

    async def batch(self, size: int) -> list[Row]:
        """The next rows that match, about ``size`` of them; fewer at the end of a stretch, none at the end of all and when the
        budget is spent. So what a walk found is made use of before it goes on, and is not lost with the rest of the budget.

        Raises ``DeadlineExceeded`` when it was spent before anything was looked at.
        """
        if not self._is_walk:
            try:
                return await self._straight(size)
            except DeadlineExceeded:
                self._budget.failed_straight()
                self._is_walk = True
        found: list[Row] = []
        while not found and not self.is_at_end and not self.is_out_of_budget:
            found = await self._walked(size)
        if self.is_out_of_budget and not self._budget.has_moved:
            raise DeadlineExceeded(f"The query did not end within its budget of {self._spans.budget_s:g} s.")
        return found

    @abstractmethod
    def _statement(self, matching: Compiled, *, until_us: int | None = None) -> tuple[str, dict[str, Any]]:
        """The statement of the first ``{candidates:UInt32}`` rows behind the position, none behind ``until_us``; its other values."""

    @abstractmethod
    async def _select(self, size: int, share: StatementBudget, *, until_us: int | None = None) -> Portion[Row, Place]:
        """About ``size`` rows behind the position, none behind ``until_us``; at least one unless these are all."""

    @abstractmethod
    def _edge(self, start_us: int) -> Place:
        """Behind everything that starts then, and before that in the order."""

    async def _straight(self, size: int) -> list[Row]:
        """From all that is left of the window."""
        found, through = await self._select(size, self._budget.straight_share())
        self.is_at_end = through is None
        self._move(through or self.position)
        return found

    async def _walked(self, size: int) -> list[Row]:
        """From the next stretch; nothing when it has to be made shorter first."""
        try:
            until_us = await self._next_stretch()
            if until_us is None:
                return []
            found, through = await self._select(size, self._budget.share(), until_us=until_us)
        except DeadlineExceeded:
            self._budget.failed_stretch()
            return []
        if through is None:
            self._budget.walked_through()
        self._move(through or self._edge(until_us))
        return found

    async def _next_stretch(self) -> int | None:
        """The last start of a stretch that begins at the next row there is, and that a share of the rows is enough for; ``None``
        when there is no such row, or no budget for it.
        """
        first_us = await self._next_start_us()
        if first_us is None:
            self.is_at_end = True
            return None
        while not self._budget.is_spent:
            reach_us = self._budget.stretch_us - 1
            until_us = first_us - reach_us if self._order is Order.DESCENDING else first_us + reach_us
            if self._budget.admits(await self._rows_until(until_us)):
                return until_us
        return None

    async def _next_start_us(self) -> int | None:
        """Where the next row starts, whether it matches or not."""
        sql, parameters = self._statement(EVERY_ROW)
        rows = await self._spans.select(
            sql, {**parameters, "candidates": 1}, step="next row", share=self._budget.share()
        )
        starts: list[int] = rows.column("start_us").to_pylist()
        return starts[0] if starts else None

    async def _rows_until(self, until_us: int) -> int:
        """How many rows the engine would read for the matches of a stretch, as it knows from its indexes."""
        sql, parameters = self._statement(self._matching, until_us=until_us)
        return await self._spans.rows_estimated(sql, {**parameters, "candidates": 1}, share=self._budget.share())

    def _move(self, position: Place | None) -> None:
        self.position = position
        self._budget.moved()
