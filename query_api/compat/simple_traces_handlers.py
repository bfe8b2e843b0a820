"""The simple trace routes: traces of one span, published to Kafka like every span (reference §1.6)."""

from __future__ import annotations

import orjson

from common.threads import in_thread
from query_api.compat.simple_traces_filters import node_of
from query_api.compat.simple_traces_models import (
    EditSimpleTrace,
    Json,
    QuerySimpleTraces,
    SimpleLink,
    SimpleTraceDeleted,
    SimpleTraceResponse,
    SimpleTracesResponse,
)
from query_api.compat.simple_traces_prepare import spans_of_edited
from query_api.compat.simple_traces_spans import simple_trace_of
from query_api.intake.publish import publish_spans
from query_api.pages.traces import Trace, trace_id_of, trace_page, traces_of
from query_api.request.json_body import json_response
from query_api.request.route import PrepareContext, Request, Response
from query_api.spans.latest_versions import delete_trace
from query_api.spans.project_spans import project_spans
from query_api.spans.render import Rendered
from query_api.spans.windowing import Windowing, WindowingResponse, refuse_feed


async def create_simple_trace(request: Request) -> Response:
    """Create a trace of one span; respond when Kafka has acknowledged it."""
    return await publish_spans(request, request.body)


async def get_simple_trace(request: Request) -> Response:
    """Return a simple trace, read from the root span of the trace."""
    root = await _root(request)
    if root is None:
        return json_response(SimpleTraceResponse(count=0))
    return json_response(SimpleTraceResponse(count=1, trace=simple_trace_of(root)))


async def edit_simple_trace(request: Request) -> Response:
    """Change the root span of a trace and keep absent members; respond when Kafka has acknowledged it."""
    body: EditSimpleTrace = request.body
    found = await traces_of(request, [trace_id_of(request)])
    if not found:
        return json_response(SimpleTraceResponse(count=0))
    settings, now_ns = request.context.settings, request.context.clock.now_ns()
    context = PrepareContext(request.path, None, settings.limits.span_limits(), now_ns)
    edited = await in_thread(spans_of_edited, _root_of(found[0]), body.trace, context)
    return await publish_spans(request, edited, status=200)


async def delete_simple_trace(request: Request) -> Response:
    """Delete all spans of a trace. No route returns them from then on; safe to repeat."""
    root = await _root(request)
    if root is None:
        return json_response(SimpleTraceDeleted(count=0))
    await delete_trace(project_spans(request), trace_id_of(request))
    link = SimpleLink(trace_id=root["trace_id"], span_id=root["span_id"])
    return json_response(SimpleTraceDeleted(count=1, link=link))


async def query_simple_traces(request: Request) -> Response:
    """Return simple traces that match, page by page, latest match first."""
    query: QuerySimpleTraces = request.body
    windowing = query.windowing or Windowing()
    refuse_feed(windowing)
    page = await trace_page(request, node_of(query), windowing)
    traces = [simple_trace_of(_json(_root_of(trace))) for trace in page.items]
    return json_response(
        SimpleTracesResponse(
            count=len(traces),
            traces=traces,
            windowing=None if page.cursor is None else WindowingResponse(next=page.cursor),
            complete=None if page.is_complete else False,
        )
    )


async def _root(request: Request) -> Json | None:
    found = await traces_of(request, [trace_id_of(request)])
    return _json(_root_of(found[0])) if found else None


def _root_of(trace: Trace) -> Rendered:
    """Return the earliest root of a trace, or its earliest span if it has no root."""
    return next((span for span in trace.spans if span.parent_id is None), trace.spans[0])


def _json(span: Rendered) -> Json:
    loaded: Json = orjson.loads(span.json)
    return loaded
