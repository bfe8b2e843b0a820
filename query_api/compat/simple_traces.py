"""The simple trace routes: written like every span, queried, read and deleted like every trace (reference §1.6)."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any, Final, NamedTuple

import orjson

from common.errors import InvalidFilter
from common.fair_share import in_thread
from query_api.compat.simple_traces_models import (
    EditSimpleTrace,
    Json,
    LinkFilter,
    LinksFilter,
    QuerySimpleTraces,
    ReferencesFilter,
    SimpleLink,
    SimpleTraceDeleted,
    SimpleTraceFilter,
    SimpleTraceResponse,
    SimpleTracesResponse,
    simple_trace_of,
    spans_of_edited,
    wanted_flags,
)
from query_api.filter.language import Node
from query_api.filter.operands import read_span_id, read_trace_id
from query_api.filter.parse import FilteringModel, parse
from query_api.intake.publish import publish_spans
from query_api.pages.traces import Trace, trace_id_of, trace_page, traces_of
from query_api.request.json_body import json_response, validated
from query_api.request.route import PrepareContext, Request, Response
from query_api.spans.deletion import delete_with_scores
from query_api.spans.rows import Rendered
from query_api.spans.unfit_windows import refuse_feed
from query_api.spans.windowing import Windowing, WindowingResponse


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
    await delete_with_scores(request, trace_id_of(request))
    if root is None:
        return json_response(SimpleTraceDeleted(count=0))
    link = SimpleLink(trace_id=root["trace_id"], span_id=root["span_id"])
    return json_response(SimpleTraceDeleted(count=1, link=link))


async def query_simple_traces(request: Request) -> Response:
    """Return a page of the simple traces that match, latest match first."""
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


_NUMBER_OF_CONDITION: Final = re.compile(r"filtering\.conditions\[(\d+)\]")


class _Condition(NamedTuple):
    """A condition, and the path of the member that it comes from."""

    at: str
    json: Json


def node_of(query: QuerySimpleTraces) -> Node:
    """Return the filter of a query. Raises ``InvalidFilter`` with the path in the query."""
    conditions = [*_of_ids(query.links), *_of_trace(query.trace or SimpleTraceFilter())]
    filtering = {"conditions": [condition.json for condition in conditions]}
    try:
        return parse(validated(FilteringModel, filtering, at="body"))
    except InvalidFilter as exc:
        number = _NUMBER_OF_CONDITION.match(exc.path)
        at = "trace" if number is None else conditions[int(number[1])].at
        raise InvalidFilter(at, exc.detail.removeprefix(f"{exc.path}: ")) from exc


def _of_ids(links: list[LinkFilter] | None) -> Iterator[_Condition]:
    if links is not None:
        ids = [read_trace_id(link.trace_id, f"links[{index}].trace_id") for index, link in enumerate(links)]
        yield _condition("links", "trace_id", "in", ids)


def _of_trace(trace: SimpleTraceFilter) -> Iterator[_Condition]:
    for flag, is_set in wanted_flags(trace.origin, trace.kind, trace.channel).items():
        operator = "is" if is_set else "is_not"
        yield _condition("trace", "attributes", operator, value=True, key=f"ag.flags.{flag}")
    for name, members in (("tags", trace.tags), ("meta", trace.meta)):
        if members:
            yield _condition(f"trace.{name}", "attributes", "is", members, key=f"ag.{name}")
    yield from _of_references(trace.references or ReferencesFilter())
    yield from _of_links(trace.links)


def _of_references(references: ReferencesFilter) -> Iterator[_Condition]:
    for name, reference in references.named.items():
        partial = {**reference, "attributes.key": name}
        yield _condition(f"trace.references.{name}", "references", "in", [partial])
    if references.selector:
        yield _condition("trace.references.selector", "attributes", "is", references.selector, key="ag.selector")


def _of_links(links: LinksFilter | None) -> Iterator[_Condition]:
    if isinstance(links, dict):
        for name, link in links.items():
            at = f"trace.links.{name}"
            yield _condition(at, "links", "in", [{**_ids(link, at), "attributes.key": name}])
    elif links is not None:
        ids = [_ids(link, f"trace.links[{index}]") for index, link in enumerate(links)]
        yield _condition("trace.links", "links", "in", ids)


def _ids(link: SimpleLink, at: str) -> Json:
    return {
        "trace_id": read_trace_id(link.trace_id, f"{at}.trace_id"),
        "span_id": read_span_id(link.span_id, f"{at}.span_id"),
    }


def _condition(at: str, field: str, operator: str, value: Any, *, key: str | None = None) -> _Condition:
    members = {"field": field, "operator": operator, "value": value}
    return _Condition(at, members if key is None else {**members, "key": key})
