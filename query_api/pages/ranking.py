"""``windowing.sort``: the first spans by a value (contract §3.5).

A ranking is found in rounds, like a page:

1. *candidates*: the light columns of rows that match and have the value, in the order of the ranking;
2. which of them are visible (``spans/versions.py``);
3. again after the last candidate, while the ranking is not full.

The first candidates come from the whole window. If that exceeds its share of the budget, the window is scanned in time
slices (``page.py``), and the first of each are merged: if the budget ends then, the ranking is that of these slices.
"""

from __future__ import annotations

import struct
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final, NamedTuple, Protocol, TypeVar

from common.clickhouse.select import Select, Table
from common.errors import DeadlineExceeded, InvalidFilter, InvalidInput
from query_api.explain.explain import explained
from query_api.filter.language import ATTRIBUTES, COST, DURATION, FIELDS, Node, ValuePlace
from query_api.filter.parse import parse_place
from query_api.filter.sql.compile import Compiled, compile_node
from query_api.filter.sql.expressions import Parameters
from query_api.filter.sql.values import value_of
from query_api.pages.page import (
    CANDIDATE_COLUMNS,
    Batch,
    Candidate,
    Page,
    Scan,
    SpansInProgress,
    candidates_of,
)
from query_api.request.json_body import LIMIT_AT, number_up_to
from query_api.request.route import Request
from query_api.spans.latest_versions import latest_and_sums
from query_api.spans.project_spans import ProjectSpans, StatementBudget, project_spans
from query_api.spans.rows import Rendered, fetch_matching_rows
from query_api.spans.versions import Position, TracePosition, Version
from query_api.spans.window import At, Conditions, Window
from query_api.spans.windowing import Order, Sort, SortedScore, Windowing

RANKED_MAX: Final = 1_000
"""Spans or traces of a ranking."""

SPARE_CANDIDATES: Final = 16
"""Candidates beyond what a ranking needs, so that a few stale versions do not cost a second round."""

CANDIDATES_MAX: Final = 50_000
"""In one round: about 5 MB of light columns."""

SORT_AT: Final = "windowing.sort"
TOKENS: Final = "tokens"
RANKED_FIELDS: Final = (DURATION, TOKENS, COST)
"""The fields to sort by; any other text is the path of an attribute."""


class RankedItem(Protocol):
    """A span or trace with its value."""

    @property
    def value(self) -> float:
        """The value that is ranked."""
        ...

    @property
    def position(self) -> Position | TracePosition:
        """The place that decides between equal values."""
        ...


Item = TypeVar("Item", bound=RankedItem)


@dataclass(frozen=True, slots=True)
class Ranking:
    """What is ranked, and by which value.

    ``number`` is a nullable double over a row of ``spans``; the values of both expressions are those of ``matching``.
    """

    place: ValuePlace
    number: str
    is_descending: bool
    matching: Compiled
    limit: int

    @property
    def valued(self) -> Compiled:
        """The condition on a row that matches and has a number."""
        return Compiled(f"({self.matching.sql}) AND ({self.number}) IS NOT NULL", self.matching.parameters)

    def in_order(self, items: Iterable[Item], window: Window) -> list[Item]:
        """Return the first items of the ranking; equal values are in the order of pages."""
        by_place = sorted(items, key=lambda item: item.position, reverse=window.is_descending)
        return sorted(by_place, key=lambda item: item.value, reverse=self.is_descending)[: self.limit]

    @property
    def direction(self) -> str:
        """How the engine sorts by the number."""
        return "DESC" if self.is_descending else "ASC"


def ranked_place(sort: Sort, *, at: str = SORT_AT) -> ValuePlace:
    """Return where the value is that a ranking sorts by. ``at`` is the path of ``sort`` in the request.

    Raises ``InvalidFilter`` for a field that is no number, and for a path that no attribute can have.
    """
    if isinstance(sort.by, SortedScore):
        return parse_place(sort.by.field, sort.by.key, path=f"{at}.by")
    if sort.by in RANKED_FIELDS:
        return ValuePlace(sort.by)
    allowed = (
        f"allowed: {', '.join(RANKED_FIELDS)}, the path of an attribute with numbers, and {{field: scores, key: NAME}}"
    )
    if sort.by in FIELDS:
        raise InvalidFilter(f"{at}.by", f"spans cannot be sorted by '{sort.by}'; {allowed}.")
    try:
        return parse_place(ATTRIBUTES, sort.by, path=at)
    except InvalidFilter as exc:
        raise InvalidFilter(f"{at}.by", f"{exc.detail.removeprefix(f'{exc.path}: ')} Here {allowed}.") from exc


def check_ranking(windowing: Windowing, *, at: str) -> None:
    """Raise ``InvalidInput`` if a window asks for a ranking that cannot run. ``at`` is its path in the request."""
    if windowing.sort is not None:
        ranked_place(windowing.sort, at=f"{at}.sort")
        if windowing.limit is not None and windowing.limit > RANKED_MAX:
            raise InvalidInput(f"{at}.limit: a ranking has at most {RANKED_MAX:,} spans or traces.")


async def ranking_of(request: Request, filtering: Node, windowing: Windowing, sort: Sort, *, now_us: int) -> Ranking:
    """Return what a request ranks; its relative times count from ``now_us``.

    Raises ``InvalidFilter``, and ``InvalidRequest`` (422) if the limit is too large.
    """
    settings = request.context.settings.query
    limit_max = min(RANKED_MAX, settings.page_limit_max)
    limit = number_up_to(limit_max, windowing.limit, default=settings.page_limit_default, at=LIMIT_AT)
    place = ranked_place(sort)
    matching = await compile_node(filtering, now_us=now_us)
    parameters = Parameters()
    parameters.values.update(matching.parameters)
    number = value_of(place, parameters).number
    is_descending = sort.order is not Order.ASCENDING
    return Ranking(place, number, is_descending, Compiled(matching.sql, parameters.values), limit)


async def ranked_spans(request: Request, filtering: Node, windowing: Windowing, sort: Sort) -> Page[Rendered]:
    """Return the first spans by the value that ``sort`` names. The page has no cursor.

    It is incomplete if the budget ended before the whole window was examined, or if the spans of the ranking are
    larger than a page. Raises ``DeadlineExceeded`` if nothing was examined.
    """
    settings = request.context.settings.query
    now_us = request.context.clock.now_ns() // 1_000
    ranking = await ranking_of(request, filtering, windowing, sort, now_us=now_us)
    spans = project_spans(request)
    scan = SpanRankingScan(spans, ranking, Window.of(windowing, now_us=now_us))
    await scan.run()
    page = SpansInProgress(spans, ranking.valued, limit=ranking.limit, bytes_max=settings.page_bytes_max)
    candidates = [ranked.candidate for ranked in scan.top]
    found = await page.look_up(candidates)
    for candidate in candidates:
        if candidate.version in found.latest:
            page.add(candidate.version, candidate.response_bytes)
        elif (row := found.replacements.get(candidate.version.position)) is not None:
            page.add(row.version, row.response_bytes)
    if missing := page.missing():
        page.add_rows(await fetch_matching_rows(spans, missing, ranking.valued), of=missing, are_current=True)
    is_complete = scan.is_at_end and not page.capacity.is_exceeded
    return Page(
        await page.rendered(), None, is_complete, await explained(spans, filtering) if spans.is_recorded else None
    )


class RankedCandidate(NamedTuple):
    """A row that matches, with its value. Whether it is visible is not known yet."""

    value: float
    candidate: Candidate

    @property
    def position(self) -> Position:
        """Return the place that decides between equal values."""
        return self.candidate.version.position


class RankingScan(Scan[Item, At]):
    """Scans a window, or the time slices of it, for the first items by a value: ``top``, in order."""

    def __init__(self, spans: ProjectSpans, ranking: Ranking, window: Window) -> None:
        super().__init__(spans, ranking.matching, window)
        self._ranking = ranking
        self.top: list[Item] = []

    async def run(self) -> None:
        """Examine the window, or as much as the budget suffices for. Raises ``DeadlineExceeded`` if that is nothing."""
        try:
            while not self.is_at_end and not self.is_out_of_budget:
                await self.batch(self._ranking.limit + SPARE_CANDIDATES)
        except DeadlineExceeded:
            if not self.top:
                raise


class SpanRankingScan(RankingScan[RankedCandidate, Position]):
    """Finds the first visible spans of a window by a value."""

    columns = CANDIDATE_COLUMNS
    place = Position

    async def _select(
        self, size: int, share: StatementBudget, *, until_us: int | None = None
    ) -> Batch[RankedCandidate, Position]:
        """Put the visible spans of a part of the window into ``top``, as far as they are among the first."""
        after: RankedCandidate | None = None
        while True:
            found = await self._candidates(size, share, after, until_us=until_us)
            await self._take(found)
            if len(found) < size or (self._is_full and not self._precedes(found[-1], self.top[-1])):
                return Batch([], None)
            is_stuck = after is not None and found[-1].position == after.position  # many versions of one span
            after, share = found[-1], self._budget.share()
            size = size * 2 if is_stuck else min(size * 2, CANDIDATES_MAX)

    async def _candidates(
        self, size: int, share: StatementBudget, after: RankedCandidate | None, *, until_us: int | None
    ) -> list[RankedCandidate]:
        conditions, parameters = window_until(self._window, until_us)
        for texts, values in (self._after(after), self._within_top()):
            conditions += texts
            parameters |= values
        values = {**parameters, **self._matching.parameters, "candidates": size}
        rows = await self._spans.select(self._ranked(conditions, values), step="candidates", share=share)
        return list(map(RankedCandidate, rows.column("ranked_by").to_pylist(), candidates_of(rows)))

    def _ranked(self, conditions: Sequence[str], values: Mapping[str, Any]) -> Select:
        ranking, direction = self._ranking, "DESC" if self._window.is_descending else "ASC"
        return Select(
            self._spans.project_id,
            Table.SPANS,
            [*self.columns, f"{ranking.number} AS ranked_by"],
            where=[*conditions, self._matching.sql, "ranked_by IS NOT NULL"],
            order_by=[f"ranked_by {ranking.direction}", *(f"{column} {direction}" for column in Position._fields)],
            limit="{candidates:UInt32}",
            parameters=values,
        )

    def _after(self, last: RankedCandidate | None) -> Conditions:
        """Return the condition that leaves the rows from ``last`` on: itself too, because it may have more versions."""
        if last is None:
            return Conditions([], {})
        value_sign, sign = ("<" if self._ranking.is_descending else ">"), ("<=" if self._window.is_descending else ">=")
        ids = "toFixedString(unhex({last_span_id:String}), 16), toFixedString(unhex({last_trace_id:String}), 16)"
        place = f"({', '.join(Position._fields)}) {sign} ({{last_start:Int64}}, {ids})"
        start_us, span_id, trace_id = last.position
        return Conditions(
            [f"ranked_by {value_sign} {double('last_value')} OR ranked_by = {double('last_value')} AND {place}"],
            {
                "last_value": bits_of(last.value),
                "last_start": start_us,
                "last_span_id": span_id.hex(),
                "last_trace_id": trace_id.hex(),
            },
        )

    def _within_top(self) -> Conditions:
        """Return the condition that leaves the rows that may be among the first."""
        if not self._is_full:
            return Conditions([], {})
        sign = ">=" if self._ranking.is_descending else "<="
        return Conditions([f"ranked_by {sign} {double('worst_value')}"], {"worst_value": bits_of(self.top[-1].value)})

    @property
    def _is_full(self) -> bool:
        return len(self.top) == self._ranking.limit

    async def _take(self, found: Sequence[RankedCandidate]) -> None:
        """Put those that are visible into ``top``. One that was replaced since it was found is left out."""
        versions = {ranked.candidate.version for ranked in found}
        judged = await latest_and_sums(self._spans, versions, self._matching, traces_to_sum=())
        first: dict[Version, RankedCandidate] = {ranked.candidate.version: ranked for ranked in self.top}
        for ranked in found:
            if ranked.candidate.version in judged.latest:
                first.setdefault(ranked.candidate.version, ranked)
        self.top = self._ranking.in_order(first.values(), self._window)

    def _precedes(self, one: RankedCandidate, other: RankedCandidate) -> bool:
        if one.value != other.value:
            return (one.value > other.value) == self._ranking.is_descending
        return one.position != other.position and (one.position > other.position) == self._window.is_descending


def window_until(window: Window, until_us: int | None) -> Conditions:
    """Return the conditions of a window up to ``until_us``, the last start, and their values."""
    conditions, parameters = window.conditions()
    if until_us is None:
        return Conditions(conditions, parameters)
    sign = ">=" if window.is_descending else "<="
    return Conditions([*conditions, f"start_us {sign} {{until_us:Int64}}"], {**parameters, "until_us": until_us})


def bits_of(value: float) -> int:
    """Return the bits of a double: the engine reads decimal digits of a parameter less exactly than the result."""
    bits: int = struct.unpack("<q", struct.pack("<d", value))[0]
    return bits


def double(name: str) -> str:
    """Return the double whose bits are a parameter."""
    return f"reinterpretAsFloat64({{{name}:Int64}})"
