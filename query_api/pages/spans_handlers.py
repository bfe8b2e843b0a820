"""The span routes: what was asked, put to ``search``, and the answer in its shape (reference §1.1)."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable, Sequence
from typing import Final, NamedTuple

from common.errors import InvalidInput, Unavailable
from common.ids import parse_span_id, parse_trace_id
from query_api.explain.explain import explain_member
from query_api.filter.ast import Node
from query_api.filter.sql.compile import compile_node
from query_api.pages.feed_handlers import query_feed
from query_api.pages.position import pack_position
from query_api.pages.spans_models import SpanIds
from query_api.pages.spans_search import find_page
from query_api.pages.windowing import cursor_scope, limit_of, spans_window
from query_api.request.cursor import write_cursor
from query_api.request.route import Request, Response
from query_api.spans.latest_versions import latest_of_ids, sums_of_traces
from query_api.spans.project_spans import ProjectSpans, project_spans
from query_api.spans.render import Rendered
from query_api.spans.rows import fetch_rows, render_current
from query_api.spans.version import Version, standing_in
from query_api.spans.windowing import WindowBy, Windowing, refuse_unfit

TRIES_MAX: Final = 5
"""A version whose row is not in the table yet, because it is just being stored: read both again without it."""


class SpanPage(NamedTuple):
    """Spans in order, and what an answer says beside them."""

    spans: Sequence[Rendered]
    cursor: str | None
    """Of the page behind this one, when more can follow."""

    explanation: bytes
    """The member of the answer, with a comma before it, where it was asked for."""

    is_complete: bool
    """False when the budget ended before the page was full."""


async def query_spans(request: Request, filtering: Node, windowing: Windowing) -> Response:
    """Return a page of spans, by ``start_time`` or, for the feed, by ``created_at``."""
    refuse_unfit(windowing)
    if windowing.by is WindowBy.CREATED_AT:
        return await query_feed(request, filtering, windowing)
    return Response(_page_json(await span_page(request, filtering, windowing)))


async def span_page(request: Request, filtering: Node, windowing: Windowing) -> SpanPage:
    """The page of spans that ``windowing`` asks for."""
    settings, secret = request.context.settings.query, request.context.cursor_secret
    scope = cursor_scope("spans", request.project_id, filtering, windowing)
    spans = project_spans(request)
    page = await find_page(
        spans,
        await compile_node(filtering),
        spans_window(windowing, scope=scope, secret=secret),
        limit=limit_of(windowing, default=settings.page_limit_default, most=settings.page_limit_max),
        bytes_max=settings.page_bytes_max,
    )
    explanation = await explain_member(spans, filtering)
    cursor = None
    if page.ends_at is not None:
        cursor = write_cursor(pack_position(page.ends_at), scope=scope, secret=secret)
    return SpanPage(page.spans, cursor, explanation, page.is_complete)


async def list_spans(request: Request) -> Response:
    """``GET /spans/``: spans by ids, in the order of their start."""
    ids: SpanIds = request.query
    trace_ids = _ids([*ids.trace_id, *_split(ids.trace_ids)], parse_trace_id)
    span_ids = _ids([*ids.span_id, *_split(ids.span_ids)], parse_span_id)
    if not trace_ids and not span_ids:
        raise InvalidInput("At least one trace_id or span_id query parameter is required.")
    found = await spans_of_ids(project_spans(request), trace_ids=trace_ids, span_ids=span_ids)
    return Response(b'{"count":%d,"spans":[%b]}' % (len(found), b",".join(span.json for span in found)))


async def get_span(request: Request) -> Response:
    """``GET /spans/{trace_id}/{span_id}``."""
    [trace_id] = _ids([request.path["trace_id"]], parse_trace_id)
    [span_id] = _ids([request.path["span_id"]], parse_span_id)
    found = await spans_of_ids(project_spans(request), trace_ids=[trace_id], span_ids=[span_id])
    return Response(b'{"count":1,"span":%b}' % found[0].json if found else b'{"count":0}')


async def spans_of_ids(
    spans: ProjectSpans, *, trace_ids: list[bytes], span_ids: list[bytes] | None = None
) -> list[Rendered]:
    """All spans of the traces that have one of the span ids, where these are given; earliest first, then by ids."""
    absent: set[Version] = set()
    for _ in range(TRIES_MAX):
        latest = sorted(await latest_of_ids(spans, trace_ids=trace_ids, span_ids=span_ids or [], absent=absent))
        rows, sums = await asyncio.gather(
            fetch_rows(spans, latest), sums_of_traces(spans, {head.trace_id for head in latest})
        )
        found = render_current([rows], latest, sums)
        if len(found) == len(latest):
            return found
        absent |= set(latest).difference(standing_in(latest, set(rows.versions)))
    raise Unavailable("These spans are being replaced faster than they can be read.")


def _page_json(page: SpanPage) -> bytes:
    spans = b",".join([span.json for span in page.spans])
    cursor = b"" if page.cursor is None else b',"windowing":{"next":"%b"}' % page.cursor.encode()
    complete = b"" if page.is_complete else b',"complete":false'
    return b'{"count":%d,"spans":[%b]%b%b%b}' % (len(page.spans), spans, cursor, complete, page.explanation)


def _split(lists: Iterable[str]) -> list[str]:
    return [text.strip() for each in lists for text in each.split(",") if text.strip()]


def _ids(texts: Iterable[str], read: Callable[[str], bytes]) -> list[bytes]:
    try:
        return list(dict.fromkeys(map(read, texts)))
    except ValueError as exc:
        raise InvalidInput(str(exc)) from exc
