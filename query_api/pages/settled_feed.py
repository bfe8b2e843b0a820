"""``POST /traces/query``: pages of traces, and with ``by: "settled_at"`` the feed of settled traces (contract §3.6, ADR
0049).

The feed is the order in which traces settled: the runs of the job, and the traces of a run by their ids. A page is
found in rounds, each of a few statements:

1. *settlings*: the next ones after the position, of runs that the feed may show;
2. of their traces: the last run in which each settled. One that settled again is left to its later place;
3. the latest versions of all spans of these traces, and with a filter or bounds which of them match;
4. the rows of the traces that fit.

The reader passes all that was examined, matching or not, so a generation is returned at most once. A trace is returned
as it is when it is read: a span that is stored after it settled may be in it already, and settles it again later.
"""

from __future__ import annotations

import struct
from collections import defaultdict
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import islice
from typing import Final, NamedTuple, Self

from common.clickhouse.select import Select, Table
from common.errors import DeadlineExceeded, InvalidCursor
from common.parts import parts_of, parts_of_size
from common.span import NO_METRICS
from common.times import format_us
from query_api.explain.explain import explained
from query_api.filter.language import Node
from query_api.filter.sql.compile import EVERY_ROW, Compiled, compile_node
from query_api.freshness.settled import read_settled_run, wait_for_settled
from query_api.pages.page import Page, run_rounds
from query_api.pages.settled_fact import SettledFact
from query_api.pages.snapshot import TraceWindow
from query_api.pages.trace_search import FoundTrace
from query_api.pages.traces import SPANS_PER_READ, Trace, TracesInProgress, spans_count_of, trace_page
from query_api.request.context import database_of
from query_api.request.json_body import limit_of
from query_api.request.route import Request, Response
from query_api.spans.latest_versions import current_rows, latest_of_traces
from query_api.spans.project_spans import ProjectSpans, project_spans
from query_api.spans.rows_ahead import PLACES_MAX, RowsAhead
from query_api.spans.unfit_windows import refuse_feed, refuse_unfit_feed
from query_api.spans.usage import TraceSums
from query_api.spans.versions import TracePosition, Version, among_ids, packed_ids, values_of
from query_api.spans.window import Resolve, page_cursor, query_of
from query_api.spans.windowing import BEGINNING, NOW, Order, WindowBy, Windowing, beginning_us

SPARE_TRACES: Final = 8
ROUND_TRACES_MAX: Final = 256
"""Traces that one round examines: the versions of all their spans are in memory."""

FINISHING_SHARE: Final = 0.5
"""No round begins when less than this share of the budget is left."""

_LAST_ID: Final = b"\xff" * 16
_POSITION: Final = struct.Struct(">BQ16s")
_VERSION: Final = 1


class SettledPosition(NamedTuple):
    """The last settling that a reader has passed: its run and its trace."""

    run: int
    trace_id: bytes

    def pack(self) -> bytes:
        """Return what a cursor holds."""
        return _POSITION.pack(_VERSION, *self)

    @classmethod
    def unpack(cls, packed: bytes) -> Self:
        """Return what ``pack`` wrote. Raises ``InvalidCursor``."""
        try:
            version, *position = _POSITION.unpack(packed)
        except struct.error as exc:
            raise InvalidCursor("The cursor in `next` cannot be read.") from exc
        if version != _VERSION:
            raise InvalidCursor("The cursor in `next` cannot be read.")
        return cls(*position)

    @classmethod
    def after_run(cls, run: int) -> Self:
        """Return the position after all traces of a run."""
        return cls(run, _LAST_ID)


FIRST: Final = SettledPosition.after_run(0)
"""Before the first settled trace: runs count from 1."""


class TraceSettling(NamedTuple):
    """A trace and one settling of it."""

    position: SettledPosition
    fact: SettledFact


@dataclass(frozen=True, slots=True)
class SettledQuery:
    """The query of a reader: which spans make a trace match, and the size of a page."""

    matching: Compiled
    window: TraceWindow
    limit: int
    bytes_max: int
    trace_bytes_max: int

    @property
    def is_filtered(self) -> bool:
        """Whether the spans of a trace decide."""
        bounds = (self.window.oldest_us, self.window.newest_us)
        return self.matching.sql != EVERY_ROW.sql or bounds != (None, None)


@dataclass(frozen=True, slots=True)
class SettledPage:
    """Traces in the order in which they settled, and the position after them.

    ``is_complete`` is false if the budget ended first: there is more, which could not be examined. ``is_at_end``:
    nothing is left to examine.
    """

    traces: Sequence[Trace]
    position: SettledPosition
    is_complete: bool
    is_at_end: bool = False


async def query_traces(resolve: Resolve, request: Request) -> Response:
    """Return a page of the traces that have a matching span, latest match first; by `settled_at`, a page of the feed of
    settled traces.
    """
    filtering, windowing = await query_of(request, resolve)
    if windowing.by is WindowBy.SETTLED_AT:
        return _response(await _settled_page(request, filtering, windowing))
    refuse_feed(windowing)
    return _response(await trace_page(request, filtering, windowing))


def _response(page: Page[Trace]) -> Response:
    pieces = [b'{"count":%d,"traces":[' % len(page.items)]
    for number, trace in enumerate(page.items):
        pieces += (b"," if number else b"", *trace.pieces)
    pieces.append(b"]%b}" % page.members)
    return Response(b"".join(pieces))


async def _settled_page(request: Request, filtering: Node, windowing: Windowing) -> Page[Trace]:
    """Return what settled since the page whose cursor is ``windowing.next``; without one, since ``windowing.from``,
    which is the beginning by default. A feed from now begins with an empty page, at once.
    """
    refuse_unfit_feed(windowing)
    windowing = windowing.model_copy(update={"order": Order.ASCENDING})
    context, settings = request.context, request.context.settings.query
    cursor = page_cursor(request, "settled", filtering, windowing)
    query = SettledQuery(
        await compile_node(filtering, now_us=cursor.now_us),
        TraceWindow.of(windowing, now_us=cursor.now_us),
        limit_of(windowing.limit, settings),
        settings.page_bytes_max,
        settings.trace_bytes_max,
    )
    spans = project_spans(request)
    through = await read_settled_run(database_of(context))
    if cursor.position is None:
        position = await first_position(spans, windowing.from_, through=through, now_us=cursor.now_us)
    else:
        position = SettledPosition.unpack(cursor.position)
    ends_s = context.clock.monotonic_s() + (windowing.wait_s or 0.0)
    while True:
        if windowing.from_ == NOW:
            found = SettledPage([], position, is_complete=True)
            break
        found = await read_settled(spans, query, position, through=through)
        is_news = found.traces or not found.is_complete
        if is_news or not await wait_for_settled(context, since=through, ends_s=ends_s):
            break
        position, spans = found.position, project_spans(request)
        through = await read_settled_run(database_of(context))
    explanation = await explained(spans, filtering) if spans.is_recorded else None
    return Page(found.traces, cursor.write(found.position.pack()), found.is_complete, explanation)


async def first_position(spans: ProjectSpans, begins_at: str | None, *, through: int, now_us: int) -> SettledPosition:
    """Return where a feed begins: ``BEGINNING``, which is also that of ``None``, ``NOW``, or a time of settling.

    ``through`` is the last run that the feed may show.
    """
    if begins_at is None or begins_at == BEGINNING:
        return FIRST
    if begins_at == NOW:
        return SettledPosition.after_run(through)
    later = Select(
        spans.project_id,
        Table.SETTLED,
        ["min(run) AS run"],
        where=["settled_us > {begins_us:Int64}"],
        parameters={"begins_us": beginning_us(begins_at, now_us=now_us)},
    )
    [run] = values_of(await spans.select(later, step="beginning of the feed"), "run")
    return SettledPosition.after_run(min(run - 1, through) if run else through)


async def last_settled_run(spans: ProjectSpans, *, through: int) -> int:
    """Return the last run up to ``through`` in which a trace of the project settled; 0 if none did."""
    last = Select(
        spans.project_id,
        Table.SETTLED,
        ["run"],
        where=["run <= {through:UInt64}"],
        order_by=["run DESC"],
        limit=1,
        parameters={"through": through},
    )
    return next(iter(values_of(await spans.select(last, step="last settled run"), "run")), 0)


async def read_settled(
    spans: ProjectSpans,
    query: SettledQuery,
    position: SettledPosition,
    *,
    through: int,
    until: SettledPosition | None = None,
) -> SettledPage:
    """Return what settled after ``position``, in runs up to ``through``: ``limit`` traces, as many as ``bytes_max``
    holds, or all. With ``until`` nothing after that position.

    A trace that is larger than ``trace_bytes_max`` is a page of its own, without its spans. Raises
    ``DeadlineExceeded`` if nothing at all could be examined within the budget of ``spans``.
    """
    async with RowsAhead(spans, bytes_max=query.trace_bytes_max) as rows:
        page = TracesInProgress(spans, rows, bytes_max=query.bytes_max, leaves_out_spans=True)
        reader = _SettledReading(spans, query, page, position, through, until)
        if not reader.is_done:
            await run_rounds(reader.run_round)
    return SettledPage(reader.traces, reader.position, reader.is_done, reader.is_at_end)


class _SettledReading:
    """Puts settled traces on a page and moves the reader past all that was examined."""

    def __init__(
        self,
        spans: ProjectSpans,
        query: SettledQuery,
        page: TracesInProgress,
        position: SettledPosition,
        through: int,
        until: SettledPosition | None,
    ) -> None:
        self._spans = spans
        self._query = query
        self._page = page
        self._through = through
        self._until = min(until or SettledPosition.after_run(through), SettledPosition.after_run(through))
        """Where the reader is when it has examined everything."""

        self._size = min(query.limit + SPARE_TRACES, ROUND_TRACES_MAX)
        self._facts: dict[bytes, SettledFact] = {}
        self.is_at_end = position >= self._until
        """Whether nothing is left to examine."""

        self._is_out_of_budget = False
        self.position = position

    @property
    def traces(self) -> list[Trace]:
        """The traces of the page, each with how it settled."""
        return [replace(trace, settled=self._facts[trace.trace_id]) for trace in self._page.traces]

    @property
    def is_done(self) -> bool:
        """Whether the page is full, or everything that settled is examined."""
        return self.is_at_end or self._page.is_cut or len(self._page.traces) >= self._query.limit

    async def run_round(self) -> bool:
        """Examine the next settlings; return whether it was the last round."""
        settlings = await self._next_settlings()
        self.is_at_end = len(settlings) < self._size
        last = settlings[-1].position if settlings else self.position
        current = await self._current(settlings)
        latest, sums = await latest_of_traces(self._spans, current.keys())
        matching = await self._matching(latest)
        await self._take([current[trace_id] for trace_id in current if trace_id in matching], latest, sums, last)
        self._size = ROUND_TRACES_MAX
        is_last = self.is_done or self._is_out_of_budget
        return is_last or self._spans.remaining_s < self._spans.budget_s * FINISHING_SHARE

    async def _next_settlings(self) -> list[TraceSettling]:
        """Return the next settlings of traces of the sample, in order."""
        run, trace_id = self.position
        values = {
            "after_run": run,
            "after_trace": trace_id.hex(),
            "through": self._through,
            "until_run": self._until.run,
            "until_trace": self._until.trace_id.hex(),
            "size": self._size,
        }
        following = Select(
            self._spans.project_id,
            Table.SETTLED,
            ["run", "trace_id", "generation", "settled_us", "reason"],
            where=[
                "run >= {after_run:UInt64} AND run <= {until_run:UInt64} AND run <= {through:UInt64}",
                "run > {after_run:UInt64} OR trace_id > unhex({after_trace:String})",
                "run < {until_run:UInt64} OR trace_id <= unhex({until_trace:String})",
            ],
            order_by=["run", "trace_id"],
            limit_by="1 BY run, trace_id",
            limit="{size:UInt32}",
            parameters=values,
        )
        rows = await self._spans.select(following, step="settled traces")
        columns = (values_of(rows, name) for name in ("run", "trace_id", "generation", "settled_us", "reason"))
        return [
            TraceSettling(
                SettledPosition(run, trace_id), SettledFact(format_us(settled_us), reason.decode(), generation)
            )
            for run, trace_id, generation, settled_us, reason in zip(*columns, strict=True)
        ]

    async def _current(self, settlings: Sequence[TraceSettling]) -> Mapping[bytes, TraceSettling]:
        """Return the settlings of the sample after which their traces have not settled again, by trace."""
        sampled = [settling for settling in settlings if self._is_sampled(settling.position.trace_id)]
        if not sampled:
            return {}
        of_traces = Select(
            self._spans.project_id,
            Table.SETTLINGS,
            ["trace_id", "max(run) AS last_run"],
            where=[f"trace_id IN {among_ids('trace_ids')}"],
            group_by=["trace_id"],
            parameters={"trace_ids": packed_ids({settling.position.trace_id for settling in sampled})},
        )
        rows = await self._spans.select(of_traces, step="last settlings")
        last_runs = dict(zip(values_of(rows, "trace_id"), values_of(rows, "last_run"), strict=True))
        return {
            settling.position.trace_id: settling
            for settling in sampled
            if last_runs.get(settling.position.trace_id) == settling.position.run
        }

    def _is_sampled(self, trace_id: bytes) -> bool:
        """Return what ``SAMPLED`` means."""
        return int.from_bytes(trace_id[:4], "big") % 100 < self._query.window.rate_percent

    async def _matching(self, latest: Collection[Version]) -> set[bytes]:
        """Return the traces of which a visible span matches."""
        query = self._query
        versions = [version for version in latest if query.window.includes(version.start_us)]
        if not query.is_filtered:
            return {version.trace_id for version in versions}
        matching: set[bytes] = set()
        for part in parts_of(versions, PLACES_MAX):
            rows = await current_rows(self._spans, part, query.matching, step="spans that match")
            matching |= {version.trace_id for version, row in rows.items() if row.matches}
        return matching

    async def _take(
        self, settlings: Sequence[TraceSettling], latest: Iterable[Version], sums: TraceSums, last: SettledPosition
    ) -> None:
        """Put what fits on the page, and pass the reader past it, or past the whole round."""
        by_trace: dict[bytes, list[Version]] = defaultdict(list)
        for version in latest:
            by_trace[version.trace_id].append(version)
        positions = {settling.position.trace_id: settling.position for settling in settlings}
        self._facts |= {settling.position.trace_id: settling.fact for settling in settlings}
        left = self._query.limit - len(self._page.traces)
        wanted = [
            FoundTrace(TracePosition(0, trace_id), by_trace[trace_id], sums.get(trace_id, NO_METRICS))
            for trace_id in islice(positions, left)
        ]
        for part in parts_of_size(wanted, SPANS_PER_READ, spans_count_of):
            try:
                is_taken = await self._page.take(part)
            except DeadlineExceeded:  # a trace that was taken before is passed, or it would be returned again
                if self._page.ends_at is None:
                    raise
                is_taken, self._is_out_of_budget = False, True
            ends_at = self._page.ends_at
            if ends_at is not None and ends_at.trace_id in positions:
                self.position = positions[ends_at.trace_id]
            if not is_taken:
                self.is_at_end = False
                return
        if len(positions) <= left:
            self.position = last
        else:
            self.is_at_end = False
