"""Scan the rows of ``spans`` that match, in the order of time, with bounded work (contract §3.3).

The first statement covers the whole rest of the window, with a share of the budget: the engine reads in order and
stops when it has enough rows, so nearly every page needs only this statement. If it exceeds its share, the window is
scanned in *time slices*. Each slice begins at the next existing row and is twice as long as the one before, or
shorter if the engine estimates that it would read more rows than a share. If the budget ends, the scan stops between
two slices, and the next page continues there.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import replace
from typing import Any, Final, Generic, NamedTuple, TypeVar

from common.errors import DeadlineExceeded
from query_api.filter.sql.compile import EVERY_ROW, Compiled
from query_api.pages.window import At, Window, edge, is_edge
from query_api.spans.project_spans import ProjectSpans, StatementBudget, Table, read_from

SHARES: Final = 5
"""Shares of the budget. One statement may use one share, and one share is kept for what follows the scan."""

FIRST_SLICE_US: Final = 3600 * 1_000_000
"""An hour."""

Row = TypeVar("Row")


class ScanBudget:
    """The time and rows that a scan may still use. ``slice_us`` is the length of the next time slice."""

    def __init__(self, spans: ProjectSpans) -> None:
        self._spans = spans
        self._rows_share = spans.budget_rows // SHARES
        self._rows_left = spans.budget_rows
        self.slice_us = FIRST_SLICE_US
        self.has_moved = False
        self.is_spent = False

    def share(self) -> StatementBudget:
        """Return the time that a statement may take now.

        Raises ``DeadlineExceeded`` if the scan has used its part of the budget, which then is spent.
        """
        share_s = self._spans.budget_s / SHARES
        left_s = self._spans.remaining_s - share_s
        if left_s <= 0:
            self.is_spent = True
            raise DeadlineExceeded(f"The query did not end within its budget of {self._spans.budget_s:g} s.")
        return StatementBudget(min(left_s, share_s))

    def single_shot_share(self) -> StatementBudget:
        """Return the time and rows of the statement over the whole window. Raises like ``share``."""
        return replace(self.share(), rows_max=self._rows_share)

    def single_shot_failed(self) -> None:
        """Subtract the rows that the failed statement over the whole window read."""
        self._rows_left -= self._rows_share

    def moved(self) -> None:
        """Note progress. Without any, rows do not end the scan: every page makes progress, whatever that costs."""
        self.has_moved = True

    def slice_scanned(self) -> None:
        """Double the next slice: this one was scanned to its end."""
        self.slice_us *= 2

    def slice_failed(self) -> None:
        """Halve the slice: a statement about it exceeded its share."""
        self._shorten(to_us=self.slice_us // 2)

    def admits(self, rows_count: int) -> bool:
        """Return whether to scan a slice of ``rows_count`` rows now, and subtract them.

        Otherwise shorten the slice, or declare the budget spent.
        """
        if self.has_moved and rows_count > self._rows_left:
            self.is_spent = True
            return False
        if rows_count > self._rows_share and self.slice_us > 1:  # the shortest slice is scanned, whatever it costs
            # By halves, because an explanation shows the bounds, and the estimate counts rows of other projects in
            # granules at the border.
            self._shorten(to_us=self.slice_us >> (rows_count // self._rows_share).bit_length())
            return False
        self._rows_left -= rows_count
        return True

    def _shorten(self, *, to_us: int) -> None:
        self.slice_us = max(1, min(to_us, self.slice_us // 2))


class Batch(NamedTuple, Generic[Row, At]):
    """Rows in the order of the scan. ``through``: none is missing up to this place; ``None`` if no more rows follow."""

    rows: list[Row]
    through: At | None


def candidates_statement(
    columns: Sequence[str],
    matching: Compiled,
    window: Window,
    *,
    order_by: Sequence[str],
    until_us: int | None = None,
    at_us: int | None = None,
) -> tuple[str, dict[str, Any]]:
    """Return the statement of the first ``{candidates:UInt32}`` rows in the order of ``order_by``, and its other
    values.

    ``until_us`` is the last start that it returns, ``at_us`` the only one.
    """
    direction, sign = ("DESC", ">=") if window.is_descending else ("ASC", "<=")
    conditions, parameters = window.conditions()
    for name, value, comparison in (("until_us", until_us, sign), ("at_us", at_us, "=")):
        if value is not None:
            conditions.append(f"start_us {comparison} {{{name}:Int64}}")
            parameters[name] = value
    rows = read_from(Table.SPANS, *conditions, matching.sql)
    in_order = ", ".join(f"{column} {direction}" for column in order_by)
    sql = f"SELECT {', '.join(columns)}\n{rows}\nORDER BY {in_order}\nLIMIT {{candidates:UInt32}}\n"
    return sql, {**parameters, **matching.parameters}


class Scan(ABC, Generic[Row, At]):
    """Scans rows batch by batch, until the end of the window or of the budget."""

    columns: Sequence[str]
    """The columns of ``spans`` that a row needs."""

    place: type[At]
    """The type of its places."""

    def __init__(self, spans: ProjectSpans, matching: Compiled, window: Window) -> None:
        self._spans = spans
        self._matching = matching
        self._window = window
        self._budget = ScanBudget(spans)
        self._is_sliced = window.after is not None and is_edge(window.after)
        """Whether to scan in time slices: an earlier request had to."""

        self.is_at_end = False

    @property
    def position(self) -> At | None:
        """Where the scan is: everything up to here was returned; ``None`` at the beginning."""
        return self._window.after  # type: ignore[return-value] # a window of this scan has places of its type

    @property
    def is_out_of_budget(self) -> bool:
        """Whether the scan cannot continue in this request."""
        return self._budget.is_spent

    async def batch(self, size: int) -> list[Row]:
        """Return about ``size`` more rows that match: fewer at the end of a slice, none at the end or without budget.

        The caller examines the rows of a slice before the scan continues, so they are not lost if the budget ends.
        Raises ``DeadlineExceeded`` if the budget ended before anything was scanned.
        """
        if not self._is_sliced:
            try:
                return await self._from_window(size)
            except DeadlineExceeded:
                self._budget.single_shot_failed()
                self._is_sliced = True
        found: list[Row] = []
        while not found and not self.is_at_end and not self.is_out_of_budget:
            found = await self._from_slice(size)
        if self.is_out_of_budget and not self._budget.has_moved:
            raise DeadlineExceeded(f"The query did not end within its budget of {self._spans.budget_s:g} s.")
        return found

    @abstractmethod
    async def _select(self, size: int, share: StatementBudget, *, until_us: int | None = None) -> Batch[Row, At]:
        """Return about ``size`` rows after the position, none after ``until_us``; none only if there are no more."""

    def _statement(self, matching: Compiled, *, until_us: int | None = None) -> tuple[str, dict[str, Any]]:
        # The order of the table: in another one the engine does not stop early.
        columns = ("start_us", "span_id", "trace_id")
        return candidates_statement(self.columns, matching, self._window, order_by=columns, until_us=until_us)

    def _edge(self, start_us: int) -> At:
        return edge(self.place, start_us, self._window.order)

    async def _from_window(self, size: int) -> list[Row]:
        """Return rows from the whole rest of the window."""
        found, through = await self._select(size, self._budget.single_shot_share())
        self.is_at_end = through is None
        self._move(through or self.position)
        return found

    async def _from_slice(self, size: int) -> list[Row]:
        """Return rows from the next time slice; none if the slice must be shortened first."""
        try:
            until_us = await self._next_slice()
            if until_us is None:
                return []
            found, through = await self._select(size, self._budget.share(), until_us=until_us)
        except DeadlineExceeded:
            self._budget.slice_failed()
            return []
        if through is None:
            self._budget.slice_scanned()
        self._move(through or self._edge(until_us))
        return found

    async def _next_slice(self) -> int | None:
        """Return the last start of a slice that begins at the next row and whose rows are within a share.

        ``None`` if there is no next row, or no budget left.
        """
        first_us = await self._next_start_us()
        if first_us is None:
            self.is_at_end = True
            return None
        while not self._budget.is_spent:
            reach_us = self._budget.slice_us - 1
            until_us = first_us - reach_us if self._window.is_descending else first_us + reach_us
            if self._budget.admits(await self._rows_until(until_us)):
                return until_us
        return None

    async def _next_start_us(self) -> int | None:
        """Return the start of the next row, whether it matches or not."""
        sql, parameters = self._statement(EVERY_ROW)
        rows = await self._spans.select(
            sql, {**parameters, "candidates": 1}, step="next row", share=self._budget.share()
        )
        starts: list[int] = rows.column("start_us").to_pylist()
        return starts[0] if starts else None

    async def _rows_until(self, until_us: int) -> int:
        """Return how many rows the engine would read for the matches of a slice, as its indexes estimate."""
        sql, parameters = self._statement(self._matching, until_us=until_us)
        return await self._spans.rows_estimated(sql, {**parameters, "candidates": 1}, share=self._budget.share())

    def _move(self, position: At | None) -> None:
        self._window = replace(self._window, after=position)
        self._budget.moved()
