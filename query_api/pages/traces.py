"""The trace routes: all spans of a trace as a tree (reference §1.2), in pages or by ids.

Pages of traces are made in one way, whatever they show of a trace: its tree, or a summary (``summaries.py``).
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Collection, Sequence
from dataclasses import dataclass
from functools import partial
from itertools import groupby
from operator import attrgetter, itemgetter
from typing import Final, Protocol, TypeVar

from pydantic import Field

from common.errors import InvalidInput
from common.ids import parse_trace_id, trace_id_hex
from common.parts import parts_of_size
from query_api.explain.explain import Explanation, explained
from query_api.filter.language import Node
from query_api.filter.sql.compile import compile_node
from query_api.freshness.follow import stored_offsets
from query_api.pages.by_ids import parse_ids, split_lists
from query_api.pages.page import Capacity, Page
from query_api.pages.ranking import ranking_of
from query_api.pages.settled_fact import SettledFact, SettledModel
from query_api.pages.snapshot import Snapshot, TraceWindow, traces_window
from query_api.pages.span_model import SpanModel
from query_api.pages.spans import SpansQuery
from query_api.pages.trace_ranking import rank_traces
from query_api.pages.trace_search import FoundTrace, find_traces
from query_api.pages.tree import tree_json, tree_pieces
from query_api.request.json_body import ApiModel, Strict, limit_of
from query_api.request.route import Request, Response
from query_api.spans.deletion import delete_with_scores
from query_api.spans.latest_versions import latest_of_traces
from query_api.spans.project_spans import ProjectSpans, project_spans
from query_api.spans.rows import Layout, Rendered
from query_api.spans.rows_ahead import RowsAhead, TooLargeForResponse, render_latest
from query_api.spans.usage import TraceSums
from query_api.spans.versions import TracePosition, Version
from query_api.spans.window import page_cursor
from query_api.spans.windowing import IsComplete, Windowing, WindowingResponse

ACCEPTED: Final = 202

SPANS_PER_READ: Final = 4_000
"""Of the traces of one read together: a few MB. A page that is full after one has not read the others."""

Item_co = TypeVar("Item_co", covariant=True)
Item = TypeVar("Item")

_BY_TRACE: Final = itemgetter(*map(Version._fields.index, ("trace_id", "start_us", "span_id")))


class TracesQuery(SpansQuery):
    """A query for traces that have a matching span. Without members it returns the newest page of all traces."""


class TraceIds(Strict):
    """Traces by their ids."""

    trace_id: list[str] = Field(default_factory=list, description="A trace id; may be repeated.")
    trace_ids: list[str] = Field(default_factory=list, description="Comma-separated trace ids.")


class NodeModel(SpanModel):
    """A span and the spans below it, by name."""

    spans: dict[str, NodeModel | list[NodeModel]] | None = None


class TraceModel(ApiModel):
    """A trace: its roots and the spans whose parent is not in it, by name."""

    trace_id: str
    spans: dict[str, NodeModel | list[NodeModel]]
    settled: SettledModel | None = Field(None, description="Only in the feed by `settled_at`: how it has settled.")
    spans_left_out: int | None = Field(
        None,
        description="Only in the feed by `settled_at`: the number of spans of a trace that is larger than"
        " `CLEARSPAN_QUERY__TRACE_BYTES_MAX`. Its `spans` are empty; `POST /spans/query` returns them in pages, with a"
        " filter on `trace_id`.",
    )


class TraceResponse(ApiModel):
    """One trace, or none."""

    count: int
    trace: TraceModel | None = None


class TracesResponse(ApiModel):
    """Traces in order."""

    count: int
    traces: list[TraceModel]
    windowing: WindowingResponse | None = None
    complete: IsComplete = None
    explain: Explanation = None


class TraceDeleted(ApiModel):
    """The trace that was deleted, or none."""

    count: int
    trace_id: str | None = None


@dataclass(frozen=True, slots=True)
class Trace:
    """One trace: its spans, earliest first, then by id. ``settled`` is shown in the feed alone."""

    trace_id: bytes
    spans: Sequence[Rendered]
    settled: SettledFact | None = None
    spans_left_out: int = 0
    """How many spans it has, if they are too large for a response; then ``spans`` is empty."""

    @property
    def bytes_count(self) -> int:
        """The bytes of its spans in a response."""
        return sum(len(span.json) for span in self.spans)

    @property
    def tree(self) -> bytes:
        """The JSON object of its spans by name, each with those below it."""
        return tree_json(self.spans)

    @property
    def json(self) -> bytes:
        """The trace as JSON."""
        return b"".join(self.pieces)

    @property
    def pieces(self) -> list[bytes]:
        """The trace as JSON that is not joined yet: a page of traces is joined once."""
        return [b'{"trace_id":"%b","spans":' % self.trace_id.hex().encode(), *tree_pieces(self.spans), self._end]

    @property
    def _end(self) -> bytes:
        settled = b"" if self.settled is None else b',"settled":%b' % self.settled.json
        return settled + (b',"spans_left_out":%d}' % self.spans_left_out if self.spans_left_out else b"}")


async def get_trace(request: Request) -> Response:
    """Return one trace by its id."""
    found = await traces_of(request, [trace_id_of(request)])
    return Response(b'{"count":1,"trace":%b}' % found[0].json if found else b'{"count":0}')


async def list_traces(request: Request) -> Response:
    """Return the traces with these ids, in the order of the ids. Unknown ids are left out."""
    ids: TraceIds = request.query
    trace_ids = _parse_trace_ids([*ids.trace_id, *split_lists(ids.trace_ids)])
    if not trace_ids:
        raise InvalidInput("At least one trace_id query parameter is required.")
    found = await traces_of(request, trace_ids)
    return Response(b'{"count":%d,"traces":[%b]}' % (len(found), b",".join(trace.json for trace in found)))


async def delete_trace(request: Request) -> Response:
    """Delete all spans of a trace. No route returns them from then on; safe to repeat."""
    [trace_id] = _parse_trace_ids([request.path["trace_id"]], message="Invalid trace_id")
    deleted = await delete_with_scores(request, trace_id)
    body = b'{"count":1,"trace_id":"%b"}' % trace_id_hex(trace_id).encode() if deleted else b'{"count":0}'
    return Response(body, status=ACCEPTED)


def trace_id_of(request: Request) -> bytes:
    """Return the trace id in the path. Raises ``InvalidInput``."""
    [trace_id] = _parse_trace_ids([request.path["trace_id"]])
    return trace_id


def _parse_trace_ids(texts: Sequence[str], *, message: str = "Invalid trace_id.") -> list[bytes]:
    return parse_ids((text.strip() for text in texts), parse_trace_id, message=message)


async def traces_of(request: Request, trace_ids: Sequence[bytes]) -> list[Trace]:
    """Return the traces in the order of their ids, without unknown ones.

    Raises ``InvalidInput`` if they are too large for one response.
    """
    bytes_max = request.context.settings.query.trace_bytes_max
    return await traces_of_ids(project_spans(request), trace_ids, bytes_max=bytes_max)


class ReadTraces(Protocol[Item_co]):
    """The traces of a page, as it shows them."""

    @property
    def traces(self) -> Sequence[Item_co]:
        """In the order of the page, without those that were deleted meanwhile."""
        ...

    @property
    def ends_at(self) -> TracePosition | None:
        """The place of the last trace that was read; ``None`` if there was none."""
        ...

    @property
    def is_cut(self) -> bool:
        """Whether a trace that was found did not fit."""
        ...


async def page_of_traces(
    request: Request,
    spans: ProjectSpans,
    filtering: Node,
    windowing: Windowing,
    *,
    kind: str,
    read: Callable[[Sequence[FoundTrace]], Awaitable[ReadTraces[Item]]],
    rows: RowsAhead | None = None,
) -> Page[Item]:
    """Return the page of traces, or the ranking, that ``windowing`` asks for.

    ``kind`` names the pages: a cursor of one kind is invalid for another. ``read`` returns what the page shows of the
    traces that were found; ``rows`` prefetches them for it.
    """
    cursor = page_cursor(request, kind, filtering, windowing, takes_ids=True)
    if windowing.sort is not None:
        ranking = await ranking_of(request, filtering, windowing, windowing.sort, now_us=cursor.now_us)
        ranked = await rank_traces(spans, ranking, TraceWindow.of(windowing, now_us=cursor.now_us), rows=rows)
        page = await read(ranked.traces)
        is_complete = ranked.is_complete and not page.is_cut
        return Page(page.traces, None, is_complete, await explained(spans, filtering) if spans.is_recorded else None)
    is_continued = windowing.next is not None
    offsets = await stored_offsets(request.context, request.project_id, is_continued=is_continued)
    snapshot = Snapshot.of_partitions(offsets)
    window = traces_window(windowing, snapshot=snapshot, position=cursor.position, now_us=cursor.now_us)
    limit = limit_of(windowing.limit, request.context.settings.query)
    matching = await compile_node(filtering, now_us=cursor.now_us)
    found = await find_traces(spans, matching, window, limit=limit, rows=rows)
    page = await read(found.traces)
    explanation = await explained(spans, filtering) if spans.is_recorded else None
    ends_at = page.ends_at if page.is_cut else found.searched_to or page.ends_at
    if ends_at is None or not (found.more_follow or page.is_cut):
        return Page(page.traces, None, is_complete=True, explanation=explanation)
    is_full = page.is_cut or len(found.traces) == limit
    is_complete = bool(page.traces) and (is_full or found.searched_to is None)
    return Page(page.traces, cursor.write(window.pack(ends_at)), is_complete, explanation)


def spans_count_of(trace: FoundTrace) -> int:
    """Return how many spans a trace has."""
    return len(trace.latest)


async def trace_page(request: Request, filtering: Node, windowing: Windowing) -> Page[Trace]:
    """Return the page of traces that ``windowing`` asks for."""
    settings = request.context.settings.query
    spans = project_spans(request)
    async with RowsAhead(spans, bytes_max=settings.trace_bytes_max) as rows:
        read = partial(read_page, spans, bytes_max=settings.page_bytes_max, rows=rows)
        return await page_of_traces(request, spans, filtering, windowing, kind="traces", read=read, rows=rows)


async def traces_of_ids(spans: ProjectSpans, trace_ids: Sequence[bytes], *, bytes_max: int) -> list[Trace]:
    """Return the traces in the order of their ids; those without spans are left out.

    Raises ``InvalidInput`` if they are larger than ``bytes_max``.
    """
    async with RowsAhead(spans, bytes_max=bytes_max) as rows:
        latest, sums = await latest_of_traces(spans, trace_ids, on_sent=partial(rows.begin, trace_ids=trace_ids))
        in_order = sorted(latest, key=_BY_TRACE)
        read = await _traces_of(spans, in_order, sums, await rows.take(in_order), rows)
    by_id = {trace.trace_id: trace for trace in read}
    return [by_id[trace_id] for trace_id in trace_ids if trace_id in by_id]


async def read_page(
    spans: ProjectSpans, found: Sequence[FoundTrace], *, bytes_max: int, rows: RowsAhead
) -> TracesInProgress:
    """Return the first traces, as many as ``bytes_max`` holds, at least one. One that was deleted meanwhile is left
    out.

    ``rows`` has prefetched some of them.
    """
    page = TracesInProgress(spans, rows, bytes_max=bytes_max)
    for part in parts_of_size(found, SPANS_PER_READ, spans_count_of):
        if not await page.take(part):
            break
    return page


class TracesInProgress:
    """The traces of a page so far, in order.

    With ``leaves_out_spans`` a trace that is too large for a response ends the page before it, and is a page of its
    own, without its spans.
    """

    def __init__(self, spans: ProjectSpans, rows: RowsAhead, *, bytes_max: int, leaves_out_spans: bool = False) -> None:
        self._spans = spans
        self._rows = rows
        self._capacity = Capacity(limit=None, bytes_max=bytes_max)
        self._leaves_out_spans = leaves_out_spans
        self.traces: list[Trace] = []
        self.ends_at: TracePosition | None = None
        """The place of the last of them."""

    @property
    def is_cut(self) -> bool:
        """Whether a trace that was found did not fit."""
        return self._capacity.is_exceeded

    async def take(self, part: Sequence[FoundTrace]) -> bool:
        """Add the traces that still exist; return false at the first that does not fit.

        Raises ``TooLargeForResponse`` unless the page leaves out spans, and ``DeadlineExceeded``. Traces before that
        one are added.
        """
        try:
            read = await self._read(part)
        except TooLargeForResponse:
            if not self._leaves_out_spans:
                raise
            if len(part) == 1:
                return self._add_without_spans(part[0])
            read = None
        return await self._take_one_by_one(part) if read is None else self._add(part, read)

    async def _read(self, part: Sequence[FoundTrace]) -> list[Trace] | None:
        """Return the traces that still exist; ``None`` if they must be read one by one."""
        latest = sorted((version for trace in part for version in trace.latest), key=_BY_TRACE)  # while they are read
        layouts = await (self._rows.take(latest) if len(part) == 1 else self._rows.take_together(latest))
        sums = {trace.position.trace_id: trace.sums for trace in part}
        return None if layouts is None else await _traces_of(self._spans, latest, sums, layouts, self._rows)

    async def _take_one_by_one(self, part: Sequence[FoundTrace]) -> bool:
        for trace in part:
            if not await self.take([trace]):
                return False
        return True

    def _add_without_spans(self, found: FoundTrace) -> bool:
        """Add a trace that is too large, if it is the first. Nothing fits after it."""
        if not self.traces:
            self.traces.append(Trace(found.position.trace_id, (), spans_left_out=len(found.latest)))
            self.ends_at = found.position
        self._capacity.is_exceeded = True
        return False

    def _add(self, part: Sequence[FoundTrace], read: Sequence[Trace]) -> bool:
        by_id = {trace.trace_id: trace for trace in read}
        for found in part:
            trace = by_id.get(found.position.trace_id)
            if trace is not None:
                if not self._capacity.takes(trace.bytes_count):
                    return False
                self.traces.append(trace)
            self.ends_at = found.position
        return True


async def _traces_of(
    spans: ProjectSpans, latest: Sequence[Version], sums: TraceSums, layouts: Sequence[Layout], rows: RowsAhead
) -> list[Trace]:
    """Build traces from ``latest`` (sorted). If a version was replaced meanwhile, read the current ones and retry."""
    trace_ids = {version.trace_id for version in latest}

    async def look_up(absent: Collection[Version]) -> tuple[Sequence[Version], Sequence[Layout], TraceSums]:
        if not absent:
            return latest, layouts, sums
        found, current_sums = await latest_of_traces(spans, trace_ids, absent=absent)
        in_order = sorted(found, key=_BY_TRACE)
        return in_order, await rows.take(in_order), current_sums

    read = await render_latest(look_up)
    return [Trace(trace_id, list(group)) for trace_id, group in groupby(read, key=attrgetter("version.trace_id"))]
