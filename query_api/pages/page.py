"""Search the spans of a page, with bounded work (contract §3.3).

Pages of spans, of traces and of the feed are found in rounds. A round finds *candidates* (rows of ``spans`` that match,
in order), decides which of them are visible, and takes as many as the page can hold by count and by bytes.

A ``Scan`` finds candidates in the order of time. Its first statement covers the whole rest of the window, with a share
of the budget: the engine reads in order and stops when it has enough rows, so nearly every page needs only this
statement. If it exceeds its share, the window is scanned in *time slices*. Each slice begins at the next existing row
and is twice as long as the one before, or shorter if the engine estimates that it would read more rows than a share. If
the budget ends, the scan stops between two slices, and the next page continues there.
"""

from __future__ import annotations

import asyncio
from abc import ABC, abstractmethod
from collections.abc import Awaitable, Callable, Collection, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from itertools import accumulate, chain, takewhile
from typing import Any, Final, Generic, NamedTuple, TypeVar
from uuid import UUID

import pyarrow as pa

from common.clickhouse.select import Select, Table
from common.clickhouse.span_columns import NO_PARENT
from common.errors import DeadlineExceeded
from common.fair_share import in_thread
from query_api.filter.sql.compile import EVERY_ROW, Compiled
from query_api.spans.latest_versions import LatestAndSums, latest_and_sums
from query_api.spans.project_spans import STOPPING_EARLY, ProjectSpans, StatementBudget
from query_api.spans.rows import LARGE_BYTES, LARGE_SPANS, Layout, Rendered, fetch_rows, render_versions
from query_api.spans.versions import Version, rows_as, standing_in, values_of, versions_of
from query_api.spans.window import At, Window, edge, is_edge

CANDIDATE_COLUMNS: Final = (*Version._fields, "parent_id", "response_bytes", "members")

SHARES: Final = 5
"""Shares of the budget. One statement may use one share, and one share is kept for what follows the scan."""

FIRST_SLICE_US: Final = 3600 * 1_000_000
"""An hour."""

Item = TypeVar("Item")
Row = TypeVar("Row")


@dataclass(frozen=True, slots=True)
class Page(Generic[Item]):
    """Items in order, and what the response says besides them."""

    items: Sequence[Item]
    cursor: str | None
    """The cursor of the next page; ``None`` if there is none."""

    is_complete: bool
    """False if the budget ended before the page was full, or if all its items were deleted while it was read."""

    explanation: bytes | None
    """The member ``explain``, if the request asked for it."""

    @property
    def members(self) -> bytes:
        """The members of the response after its items, each with a comma before it."""
        cursor = b"" if self.cursor is None else b',"windowing":{"next":"%b"}' % self.cursor.encode()
        complete = b"" if self.is_complete else b',"complete":false'
        explanation = b"" if self.explanation is None else b',"explain":%b' % self.explanation
        return cursor + complete + explanation


def spans_json(page: Page[Rendered]) -> bytes:
    """Return the response of a page of spans."""
    spans = b",".join([span.json for span in page.items])
    return b'{"count":%d,"spans":[%b]%b}' % (len(page.items), spans, page.members)


async def run_rounds(run_round: Callable[[], Awaitable[bool]]) -> None:
    """Run rounds until one returns true: the page is full, nothing is left, or the budget does not suffice for another.

    A round that raises ``DeadlineExceeded`` adds nothing to the page. Raises it if the first round does.
    """
    is_done = await run_round()
    with suppress(DeadlineExceeded):
        while not is_done:
            is_done = await run_round()


class Capacity:
    """How much a page may still take. Its first item always fits."""

    def __init__(self, *, limit: int | None, bytes_max: int) -> None:
        self._limit = limit
        self._bytes_max = bytes_max
        self.count = 0
        self.bytes_count = 0
        self.is_exceeded = False
        """Whether an item did not fit: then more follow."""

    @property
    def is_at_limit(self) -> bool:
        """Whether the page holds as many items as were asked for."""
        return self.count == self._limit

    def takes(self, bytes_count: int) -> bool:
        """Return whether an item fits, and count it. After the first that does not fit, none does."""
        is_too_large = self.bytes_count + bytes_count > self._bytes_max
        if self.is_exceeded or (self.count and (self.is_at_limit or is_too_large)):
            self.is_exceeded = True
            return False
        self.count += 1
        self.bytes_count += bytes_count
        return True

    def expected(self, candidates: Sequence[Candidate]) -> list[Candidate]:
        """Return the candidates that fit if all of them are visible, without those that others have replaced."""
        last = {each.version[:-1]: each.version for each in sorted(candidates)}
        current = [each for each in candidates if last[each.version[:-1]] == each.version]
        sizes = (candidate.response_bytes for candidate in current)
        so_far = zip(current, accumulate(sizes, initial=self.bytes_count), strict=False)
        fitting = [candidate for candidate, _ in takewhile(lambda pair: pair[1] < self._bytes_max, so_far)]
        return fitting if self._limit is None else fitting[: self._limit - self.count]


class Candidate(NamedTuple):
    """A row that matches. Whether it is visible is not known yet."""

    version: Version
    is_root: bool
    response_bytes: int
    members: int
    """Which of ``OPTIONAL_MEMBERS`` it has, as bits."""


def candidates_of(rows: pa.Table) -> list[Candidate]:
    """Return the rows of a table with ``CANDIDATE_COLUMNS``."""
    are_roots = [parent_id == NO_PARENT for parent_id in values_of(rows, "parent_id")]
    others = (values_of(rows, name) for name in ("response_bytes", "members"))
    return rows_as(Candidate, versions_of(rows), are_roots, *others)


class SpansInProgress:
    """The spans of a page so far: their versions in order, and what is needed to render them."""

    def __init__(self, spans: ProjectSpans, matching: Compiled, *, limit: int, bytes_max: int) -> None:
        self._spans = spans
        self._matching = matching
        self.capacity = Capacity(limit=limit, bytes_max=bytes_max)
        self.versions: dict[Version, None] = {}
        self._rows: list[Layout] = []
        self._sums: dict[bytes, Any] = {}

    async def look_up(self, candidates: Sequence[Candidate]) -> LatestAndSums:
        """Return which of the candidates are visible. Meanwhile fetch the rows of those that the page would take."""
        expected = self.capacity.expected(candidates)
        found, rows = await asyncio.gather(
            latest_and_sums(
                self._spans,
                [candidate.version for candidate in candidates],
                self._matching,
                traces_to_sum={candidate.version.trace_id for candidate in candidates if candidate.is_root},
            ),
            fetch_rows(
                self._spans,
                [candidate.version for candidate in expected],
                members=[candidate.members for candidate in expected],
            ),
        )
        self._rows.append(rows)
        self._sums.update(found.sums)
        return found

    def add(self, version: Version, response_bytes: int) -> bool:
        """Return whether a version fits, and add it if so. The same row may occur twice."""
        if version not in self.versions:
            if not self.capacity.takes(response_bytes):
                return False
            self.versions[version] = None
        return True

    def missing(self) -> list[Version]:
        """Return the versions without a row: they were not expected on the page, or were replaced since."""
        read = set(chain.from_iterable(rows.versions for rows in self._rows))
        return [version for version in self.versions if version not in read]

    def add_rows(self, rows: Layout, *, of: Collection[Version], are_current: bool) -> None:
        """Add rows of missing versions. If ``are_current``, a row that replaced a version takes its place."""
        self._rows.append(rows)
        if are_current:
            current = standing_in(of, set(rows.versions))
            self.versions = dict.fromkeys(current.get(version, version) for version in self.versions)

    async def rendered(self) -> list[Rendered]:
        """Return the spans; versions without a row are left out."""
        versions = list(self.versions)
        if len(versions) > LARGE_SPANS or self.capacity.bytes_count > LARGE_BYTES:
            return await in_thread(render_versions, self._rows, versions, self._sums)
        return render_versions(self._rows, versions, self._sums)


class ScanBudget:
    """The time and rows that a scan may still use."""

    def __init__(self, spans: ProjectSpans) -> None:
        self._spans = spans
        self._rows_share = spans.budget_rows // SHARES
        self._rows_left = spans.budget_rows
        self.slice_us = FIRST_SLICE_US
        """The length of the next time slice. It doubles when a slice was scanned to its end."""

        self.has_moved = False
        """Whether the scan has made progress. Until then rows do not end it: every page moves on, whatever it costs."""

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


def candidates_of_window(
    project_id: UUID,
    columns: Sequence[str],
    matching: Compiled,
    window: Window,
    *,
    count: int,
    order_by: Sequence[str],
    until_us: int | None = None,
    at_us: int | None = None,
) -> Select:
    """Return the query of the first ``count`` rows in the order of ``order_by``.

    ``until_us`` is the last start that it returns, ``at_us`` the only one.
    """
    direction, sign = ("DESC", ">=") if window.is_descending else ("ASC", "<=")
    conditions, parameters = window.conditions()
    for name, value, comparison in (("until_us", until_us, sign), ("at_us", at_us, "=")):
        if value is not None:
            conditions.append(f"start_us {comparison} {{{name}:Int64}}")
            parameters[name] = value
    return Select(
        project_id,
        Table.SPANS,
        columns,
        where=[*conditions, matching.sql],
        order_by=[f"{column} {direction}" for column in order_by],
        limit="{candidates:UInt32}",
        parameters={**parameters, **matching.parameters, "candidates": count},
    )


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
    def is_out_of_budget(self) -> bool:
        """Whether the scan cannot continue in this request."""
        return self._budget.is_spent

    @property
    def position(self) -> At | None:
        """Where the scan is: everything up to here was returned; ``None`` at the beginning."""
        return self._window.after  # type: ignore[return-value] # a window of this scan has places of its type

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

    def _query(self, matching: Compiled, count: int, *, until_us: int | None = None) -> Select:
        # The order of the table: in another one the engine does not stop early.
        of = (self._spans.project_id, self.columns, matching, self._window)
        return candidates_of_window(*of, count=count, order_by=("start_us", "span_id", "trace_id"), until_us=until_us)

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
            self._budget.slice_us *= 2
        self._move(through or edge(self.place, until_us, self._window.order))
        return found

    async def _next_slice(self) -> int | None:
        """Return the last start of a slice that begins at the next row and whose rows are within a share.

        ``None`` if there is no next row, or no budget left.
        """
        query, share = self._query(EVERY_ROW, 1), self._budget.share()
        rows = await self._spans.select(query, step="next row", share=share, settings=STOPPING_EARLY)
        if not rows.num_rows:
            self.is_at_end = True
            return None
        first_us: int = rows.column("start_us")[0].as_py()
        while not self._budget.is_spent:
            reach_us = self._budget.slice_us - 1
            until_us = first_us - reach_us if self._window.is_descending else first_us + reach_us
            query, share = self._query(self._matching, 1, until_us=until_us), self._budget.share()
            rows_count = await self._spans.rows_estimated(query, share=share)
            if self._budget.admits(rows_count):
                return until_us
        return None

    def _move(self, position: At | None) -> None:
        self._window = replace(self._window, after=position)
        self._budget.has_moved = True
