"""Saved queries: the kind of history, what may be saved, their routes, and running them.

A query runs where a request refers to it, and where its revision is retrieved. Requests without references never reach
Postgres. Source: contract §3.4, reference ``spans-api`` §8 and §9.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from datetime import datetime
from functools import partial
from typing import Annotated, Any, Final, NamedTuple, TypeAlias

from pydantic import Field, field_validator

from common.errors import Conflict, InvalidFilter, InvalidInput, NotFound
from common.ids import span_id_hex, trace_id_hex
from common.times import RelativeTime
from query_api.analytics import facets, groups
from query_api.filter.language import GroupOperator, Node
from query_api.filter.parse import ConditionModel, FilteringModel, check_groups, parse, parse_filter, resolve_times
from query_api.filter.sql.compile import compile_filter
from query_api.freshness.headers import with_freshness
from query_api.pages import settled_feed, spans, summaries, traces
from query_api.pages.ranking import check_ranking
from query_api.pages.spans import SpansQuery
from query_api.registry.checks import find_named_revision, lineage_of, references_of
from query_api.registry.kinds import QUERIES, History, RevisionData, Sample, in_utc, json_text, storable_json
from query_api.registry.responses import RetrievalInfo, RevisionResponse
from query_api.registry.revision_handlers import RevisionHandlers
from query_api.registry.routes import kind_routes
from query_api.registry.schemas import RevisionReferences
from query_api.registry.values import References, Revision
from query_api.request.json_body import Listed, Strict
from query_api.request.references import BoundIn, Text
from query_api.request.route import Request, Response
from query_api.spans.rows import Rendered
from query_api.spans.unfit_windows import refuse_feed, refuse_unfit
from query_api.spans.window import Query
from query_api.spans.windowing import Focus, Format, Windowing, WindowingResponse

LIMIT_MAX: Final = 10_000
"""The largest page that may be saved (contract §3.3); an installation may allow less when the query runs."""

STORED: Final = ("formatting", "filtering", "windowing")
"""The members of ``data`` that are stored. What a query finds is not one of them."""

SAVED_AT: Final = "data.filtering"
WINDOWING_AT: Final = "data.windowing"
"""Where a saved query holds its conditions and its page, in error messages."""


class Formatting(Strict):
    """Whether a saved query finds traces or spans, and how clients display it."""

    focus: Focus | None = Field(
        None, description="The route that may run it: /traces/query or /spans/query; both by default."
    )
    format: Format | None = Field(None, description="For clients: no effect on responses.")


SavedBound: TypeAlias = Annotated[datetime | RelativeTime, BoundIn(WINDOWING_AT, convert=in_utc)]


class SavedWindowing(Windowing):
    """The page of a saved query; members of a request replace it. Times are stored in UTC, and relative times as they
    were sent: they are resolved each time the query runs.
    """

    newest: SavedBound | None = Field(None, description="Upper bound of start_time; exclusive in descending order.")
    oldest: SavedBound | None = Field(None, description="Lower bound of start_time; exclusive in ascending order.")
    next: Text | None = Field(
        None, max_length=131_072, description="Set the cursor on the request, not in a saved query."
    )
    limit: int | None = Field(None, ge=1, le=LIMIT_MAX, description="Rows on a page; 100 by default.")


class QueryData(RevisionData):
    """The data of a revision of a saved query."""

    formatting: Formatting | None = None
    filtering: FilteringModel | None = Field(
        None, description="The filter, as in /spans/query. A filter that is invalid there is rejected here."
    )
    windowing: SavedWindowing | None = Field(None, description="The page, unless a request replaces it.")
    trace_ids: Listed[str] | None = Field(
        None, description="Present in the response to a retrieval that requests it; ignored in requests."
    )
    traces: list[Any] | None = Field(
        None, description="Present in the response to a retrieval that requests it; ignored in requests."
    )

    @field_validator("filtering", mode="before")
    @classmethod
    def _can_be_stored(cls, filtering: Any) -> Any:
        check_groups(filtering, path=SAVED_AT)
        return storable_json(filtering)

    def text(self) -> str:
        """Return the data as JSON: with the default operators, without null members and what the query finds."""
        stored = self.model_dump(mode="json", by_alias=True, include=set(STORED), exclude_none=True)
        return json_text(stored)

    def stored(self) -> str | None:
        """Return the JSON to store; empty data is nothing. Raises ``InvalidInput`` for a query that cannot be run."""
        compile_filter(resolve_times(parse(self.filtering, path=SAVED_AT), now_us=0))
        if self.windowing is not None:
            is_about_traces = self.formatting is not None and self.formatting.focus is Focus.TRACE
            (refuse_feed if is_about_traces else refuse_unfit)(self.windowing, at=WINDOWING_AT)
            check_ranking(self.windowing, at=WINDOWING_AT)
        text = self.text()
        return None if text == "{}" else text


QUERY: Final = History(
    labels=QUERIES,
    sample=Sample(
        slug="failed-answers",
        name="Failed answers",
        data={"filtering": {"conditions": [{"field": "status_code", "value": "STATUS_CODE_ERROR"}]}},
    ),
    data=QueryData,
    archives_with_variant=True,
)


async def resolved(focus: Focus, request: Request, own: Query) -> Query:
    """Return the request's query merged with the saved query that it refers to, on a route about ``focus``.

    Both filters apply. Members of the request's window override saved ones. Raises ``NotFound`` if the references
    name nothing; ``InvalidInput`` if they are insufficient, contradict each other, or name a revision without data,
    or if the two filters together exceed a limit; ``Conflict`` if the saved query is about the other focus.
    """
    query: SpansQuery = request.body
    references = references_of(query.query_ref, query.query_variant_ref, query.query_revision_ref)
    saved = saved_in(await _find_named(request, references))
    _refuse_other_focus(saved, focus)
    if query.filtering is None:
        filtering = await parse_filter(saved.filtering, path=SAVED_AT)
    else:
        filtering = own.filtering if saved.filtering is None else await _both(saved.filtering, query.filtering)
    return Query(filtering, _merged(saved.windowing, own.windowing))


of_spans: Final = partial(resolved, Focus.SPAN)
of_traces: Final = partial(resolved, Focus.TRACE)

query_spans: Final = partial(spans.query_spans, of_spans)
query_traces: Final = partial(settled_feed.query_traces, of_traces)
query_summaries: Final = partial(summaries.query_summaries, of_traces)
query_groups: Final = partial(groups.query_groups, of_spans)
query_facets: Final = partial(facets.query_facets, of_spans)
"""The handlers of queries, which may refer to a saved query."""


def saved_in(revision: Revision) -> QueryData:
    """Return the query of a revision. Raises ``InvalidInput`` if it has none, because that would match everything."""
    if revision.data is None:
        raise InvalidInput(
            f"Version {revision.version} of the variant '{revision.variant_slug}' stores no data:"
            " there is no query to run."
        )
    return QueryData.model_validate_json(revision.data)


async def spans_query_in(revision: Revision) -> Query:
    """Return the query of a revision for spans. Raises ``InvalidInput`` if it has none, ``Conflict`` if it is about
    traces.
    """
    saved = saved_in(revision)
    _refuse_other_focus(saved, Focus.SPAN)
    return Query(await parse_filter(saved.filtering, path=SAVED_AT), saved.windowing or Windowing())


def _merged(saved: Windowing | None, own: Windowing | None) -> Windowing:
    """Return the saved window with the members that the request sets. A saved beginning gives way to a cursor."""
    given = {name: value for name in Windowing.model_fields if (value := getattr(own, name, None)) is not None}
    if "next" in given:
        given.setdefault("from_", None)  # a saved feed goes on at the cursor
    return (saved or Windowing()).model_copy(update=given)


async def _find_named(request: Request, references: References) -> Revision:
    found = await find_named_revision(lineage_of(request, QUERIES.kind), references)
    if found is not None:
        return found
    if not any(reference is not None and reference.identifies for reference in references):
        raise InvalidInput("query_ref, query_variant_ref and query_revision_ref name nothing: give an id or a slug.")
    raise NotFound("There is no revision of a saved query that these references name.")


def _refuse_other_focus(saved: QueryData, focus: Focus) -> None:
    saved_focus = saved.formatting.focus if saved.formatting is not None else None
    if saved_focus not in (None, focus):
        raise Conflict(
            f"Query revision formatting.focus={saved_focus}. Use /{saved_focus}s/query for this query revision."
        )


async def _both(saved: FilteringModel, own: FilteringModel) -> Node:
    """Return the conjunction of two filters. Each is valid on its own; together they may exceed a limit."""
    members = [*_members(saved), *_members(own)]
    match members:
        case [FilteringModel() as group]:  # a single group is not wrapped, which would nest it deeper
            both = group
        case _:
            both = FilteringModel.model_construct(operator=GroupOperator.AND, conditions=members)
    try:
        return await parse_filter(both)
    except InvalidFilter as exc:
        reason = exc.detail.removeprefix(f"{exc.path}: ")
        raise InvalidFilter("filtering", f"together with the saved query's: {reason}") from exc


def _members(filtering: FilteringModel) -> Sequence[FilteringModel | ConditionModel]:
    """Return the members that must all be true."""
    return filtering.conditions if filtering.operator is GroupOperator.AND else [filtering]


class SavedQueryResult(NamedTuple):
    """A page of what a saved query finds."""

    spans: Mapping[bytes, Sequence[Rendered]]
    """By trace, in the order of the traces: the matching spans if the query is about spans, else all spans."""

    cursor: str | None
    is_complete: bool


async def run_saved(request: Request, saved: QueryData, own: Windowing | None) -> SavedQueryResult:
    """Return the page of a saved query, with the window members of the request. Without a focus it is about traces."""
    filtering = await parse_filter(saved.filtering, path=SAVED_AT)
    windowing = _merged(saved.windowing, own)
    refuse_feed(windowing)
    if saved.formatting is not None and saved.formatting.focus is Focus.SPAN:
        page = await spans.span_page(request, filtering, windowing)
        by_trace: dict[bytes, list[Rendered]] = {}
        for span in page.items:
            by_trace.setdefault(span.key.trace_id, []).append(span)
        return SavedQueryResult(by_trace, page.cursor, page.is_complete)
    found = await traces.trace_page(request, filtering, windowing)
    return SavedQueryResult({trace.trace_id: trace.spans for trace in found.items}, found.cursor, found.is_complete)


class RetrieveOrRun(RevisionReferences):
    """References to the revision to retrieve, and whether to run it."""

    include_trace_ids: bool | None = Field(
        None, description="Run the query and return in `data` the ids of the traces that it finds."
    )
    include_traces: bool | None = Field(
        None, description="Run the query and return in `data` the traces that it finds."
    )
    windowing: Windowing | None = Field(None, description="The page of traces; absent members have their saved values.")


class RetrievedOrRunResponse(RevisionResponse):
    """The revision that the references name, or none; with the traces that it finds, if the request runs it."""

    retrieval_info: RetrievalInfo | None = None
    windowing: WindowingResponse | None = Field(None, description="Present if the query was run and finds more traces.")
    complete: bool | None = Field(None, description="False if the budget ended before the page was full.")


class QueryRevisionHandlers(RevisionHandlers):
    """The routes of revisions, which can be run."""

    async def retrieve(self, request: Request) -> Response:
        """Return the revision that references name: a variant alone means its newest revision, an artifact alone the
        newest revision of its first variant. The revision can be run: then `data` holds a page of what it finds,
        and the response says how fresh that is.
        """
        body: RetrieveOrRun = request.body
        if body.references() == References():
            return self.retrieved_response(None)
        if body.include_trace_ids or body.include_traces:
            return await with_freshness(request, self._run)
        return self.retrieved_response(await self._find_named(request, body))

    async def _run(self, request: Request) -> Response:
        body: RetrieveOrRun = request.body
        revision = await self._find_named(request, body)
        if revision is None:
            return self.retrieved_response(None)
        found = await run_saved(request, saved_in(revision), body.windowing)
        more: dict[str, Any] = {} if found.cursor is None else {"windowing": {"next": found.cursor}}
        if not found.is_complete:
            more["complete"] = False
        with_found = _with_found(revision, found.spans, with_traces=bool(body.include_traces))
        return self.retrieved_response(with_found, **more)


def _with_found(revision: Revision, by_trace: Mapping[bytes, Sequence[Rendered]], *, with_traces: bool) -> Revision:
    """Add the ids of the traces that the revision finds to its data, and the traces if ``with_traces``."""
    assert revision.data is not None  # noqa: S101 - it was run
    ids = b",".join(b'"%b"' % trace_id_hex(trace_id).encode() for trace_id in by_trace)
    members = b',"trace_ids":[%b]' % ids
    if with_traces:
        members += b',"traces":[%b]' % b",".join(_trace_json(*item) for item in by_trace.items())
    return replace(revision, data=revision.data.removesuffix("}") + members.decode() + "}")


def _trace_json(trace_id: bytes, spans: Sequence[Rendered]) -> bytes:
    """Return a trace with its spans by id, not as a tree."""
    listed = b",".join(b'"%b":%b' % (span_id_hex(span.key.span_id).encode(), span.json) for span in spans)
    return b'{"trace_id":"%b","spans":{%b}}' % (trace_id_hex(trace_id).encode(), listed)


QUERY_ROUTES: Final = kind_routes(
    QUERY, QueryRevisionHandlers(QUERY), retrieve=RetrieveOrRun, retrieved=RetrievedOrRunResponse
)
