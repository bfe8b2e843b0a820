"""The older routes below ``/tracing`` that read and delete traces: the same engine, other schemas (reference §1.4)."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Final

from common.errors import InvalidCursor
from common.ids import span_id_hex, trace_id_hex
from query_api.compat.flat_models import FlatQuery
from query_api.filter.ast import Node
from query_api.filter.parse import parse_filter
from query_api.intake.models import LinksResponse, SpanLink
from query_api.pages.spans import query_spans
from query_api.pages.traces import ACCEPTED, Trace, trace_id_of, trace_page, traces_of
from query_api.pages.window import limit_of
from query_api.request.json_body import json_response
from query_api.request.route import Request, Response
from query_api.spans.latest_versions import delete_trace
from query_api.spans.project_spans import project_spans
from query_api.spans.windowing import Focus, Format

_NO_SPANS: Final = b'{"count":0,"spans":[]'


async def query_flat(request: Request) -> Response:
    """Return traces or spans in the older form. Members of the body win over the query string."""
    limit_at = ("query" if request.body.limit is None else "body", "limit")
    query: FlatQuery = request.body.or_else(request.query)
    request = replace(request, body=query, query=None)
    filtering = await parse_filter(query.filter, path="filter")
    settings = request.context.settings.query
    limit_of(query.limit, default=settings.page_limit_default, max_count=settings.page_limit_max, at=limit_at)
    try:
        page_of = _spans if query.focus is Focus.SPAN else _traces
        return await page_of(request, query, filtering)
    except InvalidCursor as exc:  # its message names the members of the newer routes
        raise InvalidCursor(exc.detail.replace("windowing.", "")) from exc


async def get_flat_trace(request: Request) -> Response:
    """Return one trace as a tree, by its id."""
    found = await traces_of(request, [trace_id_of(request)])
    return Response(b'{"count":1,"traces":%b}' % _by_id(found) if found else b'{"count":0}')


async def delete_flat_trace(request: Request) -> Response:
    """Delete all spans of a trace and return their ids. No route returns them from then on; safe to repeat."""
    deleted = await delete_trace(project_spans(request), trace_id_of(request))
    links = [SpanLink(trace_id=trace_id_hex(key.trace_id), span_id=span_id_hex(key.span_id)) for key in deleted]
    return json_response(LinksResponse(count=len(links), links=links), status=ACCEPTED)


async def _spans(request: Request, query: FlatQuery, filtering: Node) -> Response:
    response = await query_spans(request, filtering, query.windowing)
    if not response.body.startswith(_NO_SPANS):
        return response
    return replace(response, body=b'{"count":0' + response.body.removeprefix(_NO_SPANS))


async def _traces(request: Request, query: FlatQuery, filtering: Node) -> Response:
    page = await trace_page(request, filtering, query.windowing)
    if query.format is not Format.OPENTELEMETRY:
        count, found = len(page.items), b',"traces":%b' % _by_id(page.items)
    else:
        spans = [span.json for trace in page.items for span in trace.spans]
        count, found = len(spans), b',"spans":[%b]' % b",".join(spans) if spans else b""
    return Response(b'{"count":%d%b%b}' % (count, found, page.members))


def _by_id(traces: Sequence[Trace]) -> bytes:
    members = (b'"%b":{"spans":%b}' % (trace_id_hex(trace.trace_id).encode(), trace.tree) for trace in traces)
    return b"{%b}" % b",".join(members)
