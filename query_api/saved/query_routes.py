"""Run saved queries: where a request refers to one, and where one is retrieved; and the routes of saved queries.

Source: contract §3.4, reference ``spans-api`` §8 and §9. Requests without references never reach Postgres.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any, Final, NamedTuple

from pydantic import Field

from common.errors import Conflict, InvalidFilter, InvalidInput, NotFound
from common.ids import span_id_hex, trace_id_hex
from query_api.filter.language import GroupOperator, Node
from query_api.filter.parse import ConditionModel, FilteringModel, parse_filter
from query_api.freshness.headers import with_freshness
from query_api.pages import spans, traces
from query_api.pages.spans import SpansQuery
from query_api.registry.checks import find_named_revision, references_of
from query_api.registry.handlers import lineage_of
from query_api.registry.kinds import QUERIES
from query_api.registry.responses import RetrievalInfo, RevisionResponse
from query_api.registry.revision_handlers import RevisionHandlers
from query_api.registry.routes import kind_routes
from query_api.registry.schemas import RevisionReferences
from query_api.registry.values import References, Revision
from query_api.request.route import Request, Response
from query_api.saved.queries import QUERY, SAVED_AT, QueryData
from query_api.spans.rows import Rendered
from query_api.spans.windowing import Focus, Windowing, WindowingResponse, refuse_feed


async def query_spans(request: Request) -> Response:
    """Return a page of the spans that match."""
    return await spans.query_spans(request, *await resolved_query(request, focus=Focus.SPAN))


async def query_traces(request: Request) -> Response:
    """Return a page of the traces that have a matching span, latest match first."""
    return await traces.query_traces(request, *await resolved_query(request, focus=Focus.TRACE))


class ResolvedQuery(NamedTuple):
    """Which spans, and which page of them."""

    filtering: Node
    windowing: Windowing


async def resolved_query(request: Request, *, focus: Focus) -> ResolvedQuery:
    """Return the request's query merged with the saved query that it refers to, on a route about ``focus``.

    Both filters apply. Members of the request's window override saved ones. Raises ``NotFound`` if the references
    name nothing; ``InvalidInput`` if they are insufficient, contradict each other, or name a revision without data,
    or if the two filters together exceed a limit; ``Conflict`` if the saved query is about the other focus.
    """
    query: SpansQuery = request.body
    own = ResolvedQuery(await parse_filter(query.filtering), query.windowing or Windowing())
    sent = (query.query_ref, query.query_variant_ref, query.query_revision_ref)
    if sent == (None, None, None):
        return own
    saved = saved_in(await _find_named(request, references_of(*sent)))
    _refuse_other_focus(saved, focus)
    if query.filtering is None:
        filtering = await parse_filter(saved.filtering, path=SAVED_AT)
    else:
        filtering = own.filtering if saved.filtering is None else await _both(saved.filtering, query.filtering)
    return ResolvedQuery(filtering, _merged(saved.windowing, own.windowing))


def saved_in(revision: Revision) -> QueryData:
    """Return the query of a revision. Raises ``InvalidInput`` if it has none, because that would match everything."""
    if revision.data is None:
        raise InvalidInput(
            f"Version {revision.version} of the variant '{revision.variant_slug}' stores no data:"
            " there is no query to run."
        )
    return QueryData.model_validate_json(revision.data)


def _merged(saved: Windowing | None, own: Windowing | None) -> Windowing:
    """Return the saved window with the members that the request sets."""
    given = {name: value for name in Windowing.model_fields if (value := getattr(own, name, None)) is not None}
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

    @property
    def trace_ids_json(self) -> bytes:
        """The ids of the traces as a JSON list."""
        return b"[%b]" % b",".join(b'"%b"' % trace_id_hex(trace_id).encode() for trace_id in self.spans)

    @property
    def traces_json(self) -> bytes:
        """The traces as a JSON list, each with its spans by id, not as a tree."""
        return b"[%b]" % b",".join(_trace_json(*item) for item in self.spans.items())


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


def _trace_json(trace_id: bytes, members: Sequence[Rendered]) -> bytes:
    listed = b",".join(b'"%b":%b' % (span_id_hex(span.key.span_id).encode(), span.json) for span in members)
    return b'{"trace_id":"%b","spans":{%b}}' % (trace_id_hex(trace_id).encode(), listed)


class RetrieveOrRun(RevisionReferences):
    """References to the revision to retrieve, and whether to run it."""

    include_trace_ids: bool | None = Field(
        None, description="Run the query and return the ids of the traces that it finds in `data`."
    )
    include_traces: bool | None = Field(None, description="The same, with the traces themselves.")
    windowing: Windowing | None = Field(None, description="The page of traces; absent members are as saved.")


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
        with_found = _with_found(revision, found, with_traces=bool(body.include_traces))
        return self.retrieved_response(with_found, **_page_members(found))


def _with_found(revision: Revision, found: SavedQueryResult, *, with_traces: bool) -> Revision:
    """Add the ids of the traces that the revision finds to its data, and the traces if ``with_traces``."""
    members = b',"trace_ids":%b' % found.trace_ids_json
    if with_traces:
        members += b',"traces":%b' % found.traces_json
    assert revision.data is not None  # noqa: S101 - it was run
    return replace(revision, data=revision.data.removesuffix("}") + members.decode() + "}")


def _page_members(found: SavedQueryResult) -> dict[str, Any]:
    members: dict[str, Any] = {} if found.cursor is None else {"windowing": {"next": found.cursor}}
    return members if found.is_complete else {**members, "complete": False}


QUERY_ROUTES: Final = kind_routes(
    QUERY, QueryRevisionHandlers(QUERY), retrieve=RetrieveOrRun, retrieved=RetrievedOrRunResponse
)
