"""The older routes below ``/tracing``, with a flat query and other responses (reference §1.4)."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from typing import Annotated, Any, Final, TypeAlias

from pydantic import BeforeValidator, Field, field_validator

from common.errors import InvalidCursor
from common.ids import span_id_hex, trace_id_hex
from common.times import RelativeTime, parse_time_ns
from query_api.explain.explain import Explain, Explanation
from query_api.filter.parse import FilteringModel, check_groups, parse_filter
from query_api.intake.models import LinksResponse, SpanLink
from query_api.pages.page import Page
from query_api.pages.span_model import SpanModel
from query_api.pages.spans import span_page
from query_api.pages.traces import ACCEPTED, NodeModel, Trace, trace_id_of, trace_page, traces_of
from query_api.request.json_body import ApiModel, Strict, json_response, limit_of, parse_json_text, refuse_boolean
from query_api.request.references import BoundIn
from query_api.request.route import Request, Response
from query_api.spans.deletion import delete_with_scores
from query_api.spans.rows import Rendered
from query_api.spans.windowing import Focus, Format, Order, Windowing, WindowingResponse

_EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)


def _moment(value: Any) -> Any:
    """Parse a time as filters do: the number of its digits implies the unit (reference §1.4)."""
    if isinstance(value, float):
        raise ValueError(f"{value} is not a whole number of time units")  # noqa: TRY004 - pydantic reports only this
    if isinstance(value, bool) or not isinstance(value, str | int):
        return value
    try:
        return _EPOCH + timedelta(microseconds=parse_time_ns(value) // 1_000)
    except OverflowError as exc:
        raise ValueError("a time outside the years 1 to 9999") from exc


def _filter(value: Any) -> Any:
    """Parse a filter that may be JSON in a text, and check its nesting."""
    loaded = parse_json_text(value) if isinstance(value, str) else value
    check_groups(loaded, path="filter")
    return loaded


FlatTime: TypeAlias = Annotated[datetime | RelativeTime, BoundIn(read=_moment)]
FlatFilter: TypeAlias = Annotated[
    FilteringModel | None, BeforeValidator(_filter, json_schema_input_type=FilteringModel | str | None)
]


class FlatQuery(Strict):
    """A query in the older form. Without any member it returns the newest page of all traces."""

    focus: Focus | None = Field(None, description="Return traces or spans; the default is `trace`.")
    format: Format | None = Field(
        None, description="The form of traces: trees with `agenta`, the default; a list of spans with `opentelemetry`."
    )
    newest: FlatTime | None = Field(
        None, description="The upper bound of `start_time`: ISO 8601, relative, or s, ms, µs or ns since 1970."
    )
    oldest: FlatTime | None = Field(
        None, description="The lower bound of `start_time`: ISO 8601, relative, or s, ms, µs or ns since 1970."
    )
    limit: int | None = Field(None, ge=1, description="The size of the page; 100 by default, at most 10,000.")
    next: str | None = Field(None, max_length=131_072, description="The cursor of the previous page.")
    order: Order | None = Field(None, description="The order by time; descending by default.")
    rate: float | None = Field(None, ge=0, le=1, description="The share of traces that is sampled, from 0 to 1.")
    interval: int | None = Field(None, gt=0, description="The minutes of a bucket; only for analytics.")
    filter: FlatFilter = Field(None, description="The filter, as an object or as JSON text.")
    explain: Explain = None

    _are_numbers = field_validator("limit", "rate", "interval", mode="before")(refuse_boolean)

    @property
    def windowing(self) -> Windowing:
        """Return the same window in the form of the newer routes."""
        names = ("newest", "oldest", "next", "limit", "order", "rate")
        return Windowing.model_construct(**{name: getattr(self, name) for name in names})

    def or_else(self, other: FlatQuery) -> FlatQuery:
        """Return this query, with the members of ``other`` that it lacks."""
        given = {name: value for name in type(self).model_fields if (value := getattr(self, name)) is not None}
        return other.model_copy(update=given)


class FlatTraceModel(ApiModel):
    """A trace as a tree."""

    spans: dict[str, NodeModel | list[NodeModel]] = Field(description="The roots of the trace by name.")


class FlatResponse(ApiModel):
    """A page of traces by their ids, or of spans as a list, which is absent if it is empty."""

    count: int = Field(description="The number of traces or spans.")
    traces: dict[str, FlatTraceModel] | None = Field(None, description="The traces by their ids.")
    spans: list[SpanModel] | None = Field(None, description="The spans.")
    windowing: WindowingResponse | None = Field(None, description="The cursor of the next page, if more may follow.")
    complete: bool | None = Field(
        None, description="False when the query's budget ended before the page was full; absent otherwise."
    )
    explain: Explanation = None


class FlatTraceResponse(ApiModel):
    """One trace by its id, or none."""

    count: int = Field(description="1, or 0 if there is no such trace.")
    traces: dict[str, FlatTraceModel] | None = Field(None, description="The trace by its id.")


async def query_flat(request: Request) -> Response:
    """Return a page of traces or spans. The query is in the body or the query string; the body takes precedence."""
    limit_at = ("query" if request.body.limit is None else "body", "limit")
    query: FlatQuery = request.body.or_else(request.query)
    request = replace(request, body=query, query=None)
    filtering = await parse_filter(query.filter, path="filter")
    settings = request.context.settings.query
    limit_of(query.limit, settings, at=limit_at)
    page: Page[Any]
    try:
        if query.focus is Focus.SPAN:
            page = await span_page(request, filtering, query.windowing)
            return _spans_response(page.items, page.members)
        page = await trace_page(request, filtering, query.windowing)
    except InvalidCursor as exc:  # its message has the paths of the newer routes
        raise InvalidCursor(exc.detail.replace("windowing.", "")) from exc
    if query.format is Format.OPENTELEMETRY:
        return _spans_response([span for trace in page.items for span in trace.spans], page.members)
    return Response(b'{"count":%d,"traces":%b%b}' % (len(page.items), _by_id(page.items), page.members))


async def get_flat_trace(request: Request) -> Response:
    """Return one trace as a tree, by its id."""
    found = await traces_of(request, [trace_id_of(request)])
    return Response(b'{"count":1,"traces":%b}' % _by_id(found) if found else b'{"count":0}')


async def delete_flat_trace(request: Request) -> Response:
    """Delete all spans of a trace and return their ids. No route returns them from then on; safe to repeat."""
    deleted = await delete_with_scores(request, trace_id_of(request))
    links = [SpanLink(trace_id=trace_id_hex(key.trace_id), span_id=span_id_hex(key.span_id)) for key in deleted]
    return json_response(LinksResponse(count=len(links), links=links), status=ACCEPTED)


def _spans_response(spans: Sequence[Rendered], members: bytes) -> Response:
    """Return the spans as a list, which is absent if there are none."""
    listed = b',"spans":[%b]' % b",".join([span.json for span in spans]) if spans else b""
    return Response(b'{"count":%d%b%b}' % (len(spans), listed, members))


def _by_id(traces: Sequence[Trace]) -> bytes:
    members = (b'"%b":{"spans":%b}' % (trace_id_hex(trace.trace_id).encode(), trace.tree) for trace in traces)
    return b"{%b}" % b",".join(members)
