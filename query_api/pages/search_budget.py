"""What the search for a page may still use: its part of the request's time and rows, given out share by share (contract §3.3).

A window is walked in *stretches* of time, each twice as long as the one before, shorter where the engine says that it would
read more than its share. When that is done, and what is read, is ``bounded_search.py``'s concern.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Final

from common.errors import DeadlineExceeded
from query_api.spans.project_spans import ProjectSpans, StatementBudget

SHARES: Final = 5
"""Of the budget. One is the most that a statement may use, and one is kept for what comes after the search."""

FIRST_STRETCH_US: Final = 3600 * 1_000_000
"""An hour."""


class SearchBudget:
    """The budget of one search. ``stretch_us`` is how long the next stretch of its walk is to be, in microseconds."""

    def __init__(self, spans: ProjectSpans) -> None:
        self._spans = spans
        self._rows_share = spans.budget_rows // SHARES
        self._rows_left = spans.budget_rows
        self.stretch_us = FIRST_STRETCH_US
        self.has_moved = False
        self.is_spent = False

    def share(self) -> StatementBudget:
        """The time that a statement may take now. Raises ``DeadlineExceeded`` when the search has had its part, and then is spent."""
        share_s = self._spans.budget_s / SHARES
        left_s = self._spans.remaining_s - share_s
        if left_s <= 0:
            self.is_spent = True
            raise DeadlineExceeded(f"The query did not end within its budget of {self._spans.budget_s:g} s.")
        return StatementBudget(min(left_s, share_s))

    def straight_share(self) -> StatementBudget:
        """Time and rows for the statement that is asked of the whole window; raises as ``share`` does."""
        return replace(self.share(), rows_max=self._rows_share)

    def failed_straight(self) -> None:
        """That statement ended past its share: what it read is gone."""
        self._rows_left -= self._rows_share

    def moved(self) -> None:
        """The search got on. One that did not is not ended by its rows: a page gets on, whatever that costs."""
        self.has_moved = True

    def walked_through(self) -> None:
        """A stretch was walked to its end, so the next one may be longer."""
        self.stretch_us *= 2

    def failed_stretch(self) -> None:
        """A statement about a stretch ended past its share."""
        self._shorten(to_us=self.stretch_us // 2)

    def admits(self, rows_count: int) -> bool:
        """Whether a stretch of which so many rows would be read is walked now, and takes them; else it is shorter from here on, or
        the budget is spent.
        """
        if self.has_moved and rows_count > self._rows_left:
            self.is_spent = True
            return False
        if rows_count > self._rows_share and self.stretch_us > 1:  # the shortest one is walked, whatever it costs
            # By halves, because an explanation shows the bounds, and the estimate counts rows of neighbours in granules at the border.
            self._shorten(to_us=self.stretch_us >> (rows_count // self._rows_share).bit_length())
            return False
        self._rows_left -= rows_count
        return True

    def _shorten(self, *, to_us: int) -> None:
        self.stretch_us = max(1, min(to_us, self.stretch_us // 2))
