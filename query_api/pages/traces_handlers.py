"""The trace routes: all spans of a trace as a tree (reference §1.2)."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Final, NamedTuple

from common.errors import InvalidInput
from common.ids import parse_trace_id, trace_id_hex
from query_api.explain.explain import explain_member
from query_api.filter.ast import Node
from query_api.filter.sql.compile import compile_node
from query_api.freshness.follow import stored_offsets
from query_api.pages.traces_models import TraceIds
from query_api.pages.traces_search import find_traces
from query_api.pages.traces_whole import Trace, read_page, traces_of_ids
from query_api.pages.traces_window import traces_window
from query_api.pages.windowing import cursor_scope, limit_of
from query_api.request.cursor import write_cursor
from query_api.request.route import Request, Response
from query_api.spans.latest_versions import delete_trace as delete_spans_of_trace
from query_api.spans.project_spans import project_spans
from query_api.spans.rows import RowsAhead
from query_api.spans.snapshot import Snapshot
from query_api.spans.windowing import Windowing, refuse_feed

ACCEPTED: Final = 202


class TracePage(NamedTuple):
    """Whole traces in order, and what an answer says beside them."""

    traces: Sequence[Trace]
    cursor: str | None
    """Of the page behind this one, when more can follow."""

    explanation: bytes
    """The member of the answer, with a comma before it, where it was asked for."""

    is_complete: bool
    """False when the budget ended before the page was full, or all that it was to show went away while it was read."""


async def query_traces(request: Request, filtering: Node, windowing: Windowing) -> Response:
    """Return a page of the traces of which a span matches, by their latest match."""
    refuse_feed(windowing)
    page = await trace_page(request, filtering, windowing)
    pieces = [b'{"count":%d,"traces":[' % len(page.traces)]
    for number, trace in enumerate(page.traces):
        pieces += (b"," if number else b"", *trace.pieces)
    pieces.append(b"]%b}" % page_members(page))
    return Response(b"".join(pieces))


async def get_trace(request: Request) -> Response:
    """``GET /traces/{trace_id}``."""
    found = await traces_of(request, [trace_id_of(request)])
    return Response(b'{"count":1,"trace":%b}' % found[0].json if found else b'{"count":0}')


async def list_traces(request: Request) -> Response:
    """``GET /traces/``: traces in the order in which they were asked for; unknown ones are left out."""
    asked: TraceIds = request.query
    trace_ids = _ids([*asked.trace_id, *(text for each in asked.trace_ids for text in each.split(",") if text.strip())])
    if not trace_ids:
        raise InvalidInput("At least one trace_id query parameter is required.")
    found = await traces_of(request, trace_ids)
    return Response(b'{"count":%d,"traces":[%b]}' % (len(found), b",".join(trace.json for trace in found)))


async def delete_trace(request: Request) -> Response:
    """``DELETE /traces/{trace_id}``: all its spans are gone, at once and from every route; safe to repeat."""
    trace_id = trace_id_of(request, unreadable="Invalid trace_id")
    deleted = await delete_spans_of_trace(project_spans(request), trace_id)
    body = b'{"count":1,"trace_id":"%b"}' % trace_id_hex(trace_id).encode() if deleted else b'{"count":0}'
    return Response(body, status=ACCEPTED)


async def traces_of(request: Request, trace_ids: Sequence[bytes]) -> list[Trace]:
    """The traces in the order of their ids, without unknown ones. Raises ``InvalidInput`` when they are too large for one answer."""
    return await traces_of_ids(
        project_spans(request), trace_ids, bytes_max=request.context.settings.query.trace_bytes_max
    )


async def trace_page(request: Request, filtering: Node, windowing: Windowing) -> TracePage:
    """The page of traces that ``windowing`` asks for."""
    settings, secret = request.context.settings.query, request.context.cursor_secret
    scope = cursor_scope("traces", request.project_id, filtering, windowing)
    is_continued = windowing.next is not None
    offsets = await stored_offsets(request.context, request.project_id, is_continued=is_continued)
    window = traces_window(windowing, snapshot=Snapshot.of_partitions(offsets), scope=scope, secret=secret)
    limit = limit_of(windowing, default=settings.page_limit_default, most=settings.page_limit_max)
    spans = project_spans(request)
    async with RowsAhead(spans, bytes_max=settings.trace_bytes_max) as rows:
        found = await find_traces(spans, await compile_node(filtering), window, limit=limit, rows=rows)
        page = await read_page(spans, found.traces, bytes_max=settings.page_bytes_max, rows=rows)
    explanation = await explain_member(spans, filtering)
    ends_at = page.ends_at if page.is_cut else found.searched_to or page.ends_at
    if ends_at is None or not (found.more_follow or page.is_cut):
        return TracePage(page.traces, None, explanation, is_complete=True)
    cursor = write_cursor(window.pack(ends_at), scope=scope, secret=secret)
    is_full = page.is_cut or len(found.traces) == limit
    is_complete = bool(page.traces) and (is_full or found.searched_to is None)
    return TracePage(page.traces, cursor, explanation, is_complete=is_complete)


def page_members(page: TracePage) -> bytes:
    """What an answer says beside its traces, each member with a comma before it."""
    cursor = b"" if page.cursor is None else b',"windowing":{"next":"%b"}' % page.cursor.encode()
    complete = b"" if page.is_complete else b',"complete":false'
    return cursor + complete + page.explanation


def trace_id_of(request: Request, *, unreadable: str = "Invalid trace_id.") -> bytes:
    """The trace of the path. Raises ``InvalidInput`` with the text ``unreadable``."""
    [trace_id] = _ids([request.path["trace_id"]], unreadable=unreadable)
    return trace_id


def _ids(texts: Iterable[str], *, unreadable: str = "Invalid trace_id.") -> list[bytes]:
    try:
        return list(dict.fromkeys(parse_trace_id(text.strip()) for text in texts))
    except ValueError as exc:
        raise InvalidInput(unreadable) from exc
