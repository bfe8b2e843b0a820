"""A page of traces, whatever it shows of them: whole trees (``traces.py``) or summaries (``summaries.py``)."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterator, Sequence
from typing import Protocol, TypeVar

from query_api.explain.explain import explained
from query_api.filter.language import Node
from query_api.filter.sql.compile import compile_node
from query_api.freshness.follow import stored_offsets
from query_api.pages.page import Page
from query_api.pages.ranking import ranking_of
from query_api.pages.snapshot import Snapshot, TraceWindow, traces_window
from query_api.pages.trace_ranking import rank_traces
from query_api.pages.trace_search import FoundTrace, find_traces
from query_api.request.json_body import limit_of
from query_api.request.route import Request
from query_api.spans.project_spans import ProjectSpans
from query_api.spans.rows_ahead import RowsAhead
from query_api.spans.versions import TracePosition
from query_api.spans.window import page_cursor
from query_api.spans.windowing import Windowing

Item_co = TypeVar("Item_co", covariant=True)
Item = TypeVar("Item")


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


def parts_of(found: Sequence[FoundTrace], *, spans_max: int) -> Iterator[list[FoundTrace]]:
    """Split traces into parts of at most ``spans_max`` spans, at least one trace each."""
    part: list[FoundTrace] = []
    spans_count = 0
    for trace in found:
        if part and spans_count + len(trace.latest) > spans_max:
            yield part
            part, spans_count = [], 0
        part.append(trace)
        spans_count += len(trace.latest)
    if part:
        yield part
