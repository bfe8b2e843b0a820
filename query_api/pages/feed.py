"""``POST /spans/query`` with ``by: "created_at"``: pages of what arrived, and waiting for more (contract §3.3, ADR
0007).

A page is found in rounds, each of a few statements:

1. *arrivals*: the next places of the partitions, up to what is stored, as narrow rows;
2. *candidates*: which of these match, from ``spans``;
3. at the same time: which of the candidates are latest versions, and the rows of as many as the page can still take;
4. again, four times as many, until the page is full, everything that is stored is examined, or the budget ends.

The reader passes all that was examined, matching or not. A version is at one place forever, so it is returned at
most once; one that is not the latest any more was replaced by one at a later place, or deleted. If two workers have
joined a version with its events at the same moment (ADR 0046), it is at the place where it was stored first.
"""

from __future__ import annotations

import asyncio
from collections import defaultdict
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import Final, TypeAlias
from uuid import UUID

import pyarrow as pa

from common.clickhouse.select import Select, Table
from common.span_version import ARRIVAL_SQL, additions_count_of
from query_api.explain.explain import explained
from query_api.filter.language import Node
from query_api.filter.sql.compile import Compiled, compile_node
from query_api.freshness.follow import look_up_stored, wait_for_news
from query_api.pages.arrivals import (
    READ_PARTITIONS_MAX,
    WHOLE_RECORD,
    ArrivalPlace,
    Arrivals,
    Pending,
    Positions,
    next_arrivals,
    positions_at,
)
from query_api.pages.page import (
    CANDIDATE_COLUMNS,
    Candidate,
    Page,
    SpansInProgress,
    candidates_of,
    run_rounds,
    spans_json,
)
from query_api.request.json_body import limit_of
from query_api.request.progress import Through
from query_api.request.route import Request, Response
from query_api.spans.project_spans import ProjectSpans, project_spans
from query_api.spans.rows import Rendered, fetch_rows
from query_api.spans.versions import Version, among_ids, among_starts, packed_versions, versions_of
from query_api.spans.window import Window, page_cursor
from query_api.spans.windowing import BEGINNING, NOW, Order, Windowing, beginning_us

SPARE_ARRIVALS: Final = 16
"""Arrivals beyond what a page needs, so that a few stale versions do not cost a second round."""

ARRIVALS_MAX: Final = 20_000
"""Arrivals in one round."""

GROWTH: Final = 4
"""Growth from one round to the next: a rare match is found in few rounds, a frequent one without reading much for
nothing."""

_PLACE: Final = ("arrived_in", "arrived_at", "arrived_as")
"""Partition, offset and index at which a row arrived."""

_StoredPlace: TypeAlias = tuple[bytes, int, int]
_NAMED_PLACE: Final = tuple(f"{sql} AS {name}" for name, sql in zip(_PLACE, ARRIVAL_SQL, strict=True))

FINISHING_SHARE: Final = 0.5
"""No round begins when less than this share of the budget is left, so that a slow one still ends within it."""


@dataclass(frozen=True, slots=True)
class FeedQuery:
    """The query of a reader: the filter and the window of the spans, and the size of a page."""

    matching: Compiled
    window: Window
    limit: int
    bytes_max: int


@dataclass(frozen=True, slots=True)
class FeedPage:
    """Spans in the order in which they became queryable, and the positions of the reader after them.

    ``is_complete`` is false if the budget ended first: there is more, which could not be examined.
    ``expired_count`` is how many spans match and were deleted.
    """

    spans: list[Rendered]
    positions: Positions
    is_complete: bool
    expired_count: int = 0


async def query_feed(request: Request, filtering: Node, windowing: Windowing) -> Response:
    """Return what became queryable since the page whose cursor is ``windowing.next``; without one, since
    ``windowing.from``, which is the beginning by default. A feed from now begins with an empty page, at once.

    The engine is asked once a request how far spans are stored; while the request waits, announcements say so.
    """
    windowing = windowing.model_copy(update={"order": Order.ASCENDING})
    context, settings = request.context, request.context.settings.query
    cursor = page_cursor(request, "feed", filtering, windowing)
    query = FeedQuery(
        await compile_node(filtering, now_us=cursor.now_us),
        Window.of(windowing, now_us=cursor.now_us),
        limit=limit_of(windowing.limit, settings),
        bytes_max=settings.page_bytes_max,
    )
    await look_up_stored(context, request.project_id)
    spans = project_spans(request)
    if cursor.position is None:
        positions = await first_positions(request, spans, windowing.from_, now_us=cursor.now_us)
    else:
        positions = Positions.unpack(cursor.position)
    if windowing.from_ == NOW:
        found = FeedPage([], positions, is_complete=True)
    else:
        spans, found = await _read_news(request, spans, query, positions, wait_s=windowing.wait_s or 0.0)
    following = cursor.write(found.positions.pack())
    explanation = await explained(spans, filtering) if spans.is_recorded else None
    return Response(spans_json(Page(found.spans, following, found.is_complete, explanation)))


async def _read_news(
    request: Request, spans: ProjectSpans, query: FeedQuery, positions: Positions, *, wait_s: float
) -> tuple[ProjectSpans, FeedPage]:
    """Return what is new after ``positions``, and the spans that were asked; wait up to ``wait_s`` while nothing is.

    Each look has its own budget, because waiting costs nothing.
    """
    context = request.context
    ends_s = context.clock.monotonic_s() + wait_s
    while True:
        since = context.stored.news_count(request.project_id)
        found = await read_feed(spans, query, positions, through=context.stored.through(request.project_id))
        is_news = found.spans or not found.is_complete
        if is_news or not await wait_for_news(context, request.project_id, since=since, ends_s=ends_s):
            return spans, found
        positions, spans = found.positions, project_spans(request)


async def first_positions(request: Request, spans: ProjectSpans, begins_at: str | None, *, now_us: int) -> Positions:
    """Return where a feed begins: ``BEGINNING``, which is also that of ``None``, ``NOW``, or a ``created_at``.

    ``context.stored`` is up to date.
    """
    context = request.context
    if begins_at is None or begins_at == BEGINNING:
        return Positions()
    offsets = {id_: through.offset for id_, through in context.stored.through(request.project_id).items()}
    if begins_at == NOW:
        return Positions.at_end_of(offsets)
    return await positions_at(spans, beginning_us(begins_at, now_us=now_us), offsets)


async def read_feed(
    spans: ProjectSpans,
    query: FeedQuery,
    positions: Positions,
    *,
    through: Mapping[str, Through],
    until: Positions | None = None,
) -> FeedPage:
    """Return what is new after ``positions``, up to ``through``: ``limit`` spans, as many as ``bytes_max`` holds, or
    all. With ``until`` nothing after these positions.

    Raises ``DeadlineExceeded`` if nothing at all could be examined within the budget of ``spans``.
    """
    page = SpansInProgress(spans, query.matching, limit=query.limit, bytes_max=query.bytes_max)
    reader = _Reading(spans, query, page, positions, through, until)
    if not reader.is_done:
        await run_rounds(reader.run_round)
    if missing := page.missing():  # what was replaced a moment ago is left out: the new version comes later
        page.add_rows(await fetch_rows(spans, missing), of=missing, are_current=False)
    return FeedPage(await page.rendered(), reader.positions, reader.is_done, reader.expired_count)


class _Reading:
    """Puts the visible arrivals on a page and moves the reader past all that was examined."""

    def __init__(
        self,
        spans: ProjectSpans,
        query: FeedQuery,
        page: SpansInProgress,
        positions: Positions,
        through: Mapping[str, Through],
        until: Positions | None,
    ) -> None:
        self._spans = spans
        self._query = query
        self._page = page
        self._through = through
        self._until = until
        self._rows_left = spans.budget_rows
        self._size = min(query.limit + SPARE_ARRIVALS, ARRIVALS_MAX)
        self.positions = positions
        self.expired_count = 0
        """Matching spans that the reader has passed after they were deleted."""

    @property
    def is_done(self) -> bool:
        """Whether the page is full, or everything that is stored is examined."""
        capacity = self._page.capacity
        return capacity.is_at_limit or capacity.is_exceeded or not self._pending()

    async def run_round(self) -> bool:
        """Examine the next arrivals; return whether it was the last round."""
        arrivals = await next_arrivals(self._spans, self._pending(), self._query.window, size=self._size)
        self._rows_left -= len(arrivals)
        taken_count = await self._take(arrivals) if len(arrivals) else 0
        self.positions = self.positions.moved(arrivals.last_places(taken_count))
        self._size = min(self._size * GROWTH, ARRIVALS_MAX)
        is_late = self._spans.remaining_s < self._spans.budget_s * FINISHING_SHARE
        return self.is_done or self._rows_left <= 0 or is_late

    def _pending(self) -> list[Pending]:
        """Return what to read next: the partitions that are not at their end, the one that waited longest first."""
        parts = [
            Pending(partition_id, self.positions.after(partition_id), *self._last_place(partition_id, through))
            for partition_id, through in self._through.items()
        ]
        unread = [part for part in parts if not part.is_empty]
        unread.sort(key=lambda part: (self._through[part.partition_id].stored_us, part.partition_id))
        return unread[:READ_PARTITIONS_MAX]

    def _last_place(self, partition_id: str, through: Through) -> ArrivalPlace:
        stored = ArrivalPlace(through.offset, WHOLE_RECORD)
        return stored if self._until is None else min(stored, self._until.after(partition_id))

    async def _take(self, arrivals: Arrivals) -> int:
        """Put what fits on the page; return how many arrivals the reader has passed then."""
        query = candidates_among(self._spans.project_id, self._query, arrivals)
        rows = await self._spans.select(query, step="candidates")
        candidates = _in_order(rows, arrivals)
        if not candidates:
            return len(arrivals)
        found, elsewhere = await asyncio.gather(
            self._page.look_up([candidate for _, candidate in candidates]), self._stored_elsewhere(arrivals, candidates)
        )
        for index, candidate in candidates:
            if index in elsewhere.get(candidate.version, ()):
                continue
            if candidate.version in found.latest:
                if not self._page.add(candidate.version, candidate.response_bytes):
                    return index
                if self._page.capacity.is_at_limit:
                    return index + 1
            elif candidate.version in found.deleted:
                self.expired_count += 1
        return len(arrivals)

    async def _stored_elsewhere(
        self, arrivals: Arrivals, candidates: Sequence[tuple[int, Candidate]]
    ) -> Mapping[Version, set[int]]:
        """Return the numbers of arrivals at which a version was stored that had been stored at another place before."""
        numbers: dict[Version, dict[_StoredPlace, int]] = defaultdict(dict)
        for number, candidate in candidates:
            if additions_count_of(candidate.version.version) > 0:
                place = (arrivals.partition_ids[number].encode(), *arrivals.places[number])
                numbers[candidate.version][place] = number
        firsts = await self._first_places(numbers) if numbers else {}
        return {
            version: {number for place, number in places.items() if place != firsts.get(version, place)}
            for version, places in numbers.items()
        }

    async def _first_places(self, versions: Collection[Version]) -> Mapping[Version, _StoredPlace]:
        """Return where each version was stored first."""
        query = Select(
            self._spans.project_id,
            Table.SPANS,
            [*Version._fields, *_NAMED_PLACE, "stored_us"],
            prewhere=[f"start_us IN {among_starts('starts')}", f"span_id IN {among_ids('span_ids')}"],
            parameters=packed_versions(versions),
        )
        rows = await self._spans.select(query, step="places of joined versions")
        columns = (rows.column(name).to_pylist() for name in ("stored_us", *_PLACE))
        firsts: dict[Version, tuple[int, _StoredPlace]] = {}
        for version, stored_us, *place in zip(versions_of(rows), *columns, strict=True):
            stored = (stored_us, (place[0], place[1], place[2]))
            firsts[version] = min(stored, firsts.get(version, stored))
        return {version: place for version, (_, place) in firsts.items()}


def candidates_among(project_id: UUID, query: FeedQuery, arrivals: Arrivals) -> Select:
    """Return the query of the rows of these arrivals that match, and some of their neighbors."""
    starts = sorted(set(arrivals.starts_us))
    conditions, parameters = query.window.sampling()
    parameters |= {"low": starts[0], "high": starts[-1], "starts": starts}
    extents: dict[str, tuple[int, int]] = {}
    for partition_id, (offset, _) in zip(arrivals.partition_ids, arrivals.places, strict=True):
        extents[partition_id] = (extents.get(partition_id, (offset, offset))[0], offset)
    parts = []
    for index, (partition_id, (first, last)) in enumerate(extents.items()):
        parameters |= {f"partition_{index}": partition_id, f"first_{index}": first, f"last_{index}": last}
        parts.append(
            f"({ARRIVAL_SQL[0]} = {{partition_{index}:String}} AND {ARRIVAL_SQL[1]} >= {{first_{index}:UInt64}}"
            f" AND {ARRIVAL_SQL[1]} <= {{last_{index}:UInt64}})"
        )
    between = "start_us >= {low:Int64} AND start_us <= {high:Int64}"
    at_starts = "start_us IN (SELECT arrayJoin({starts:Array(Int64)}))"
    return Select(
        project_id,
        Table.SPANS,
        [*CANDIDATE_COLUMNS, *_NAMED_PLACE],
        where=[between, at_starts, " OR ".join(parts), query.matching.sql, *conditions],
        parameters={**parameters, **query.matching.parameters},
    )


def _in_order(rows: pa.Table, arrivals: Arrivals) -> list[tuple[int, Candidate]]:
    """Return candidates with their number among the arrivals, in order. A row may occur twice, or be no arrival.

    Several versions may have arrived at one place: a span, and the same span with the events that waited for it.
    """
    places = zip(arrivals.partition_ids, arrivals.places, strict=True)
    number_of = {(partition_id.encode(), *place): number for number, (partition_id, place) in enumerate(places)}
    arrived = zip(*(rows.column(name).to_pylist() for name in _PLACE), strict=True)
    numbered = (
        (number_of.get(place), candidate) for place, candidate in zip(arrived, candidates_of(rows), strict=True)
    )
    return sorted({(number, candidate) for number, candidate in numbered if number is not None})
