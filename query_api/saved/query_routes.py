"""The routes of saved queries (reference ``spans-api`` §9). A retrieval may run the query that it finds."""

from __future__ import annotations

from dataclasses import replace
from typing import Any, Final

from pydantic import Field

from query_api.freshness.headers import with_freshness
from query_api.registry.kinds import PerKind
from query_api.registry.responses import RetrievalInfo, RevisionOut
from query_api.registry.revision_handlers import RevisionHandlers
from query_api.registry.routes import kind_routes
from query_api.registry.schemas import RevisionReferences
from query_api.registry.values import References, Revision
from query_api.request.route import Request, Response
from query_api.saved.queries import QUERY
from query_api.saved.resolve import SavedQueryResult, run_saved, saved_in
from query_api.spans.windowing import Windowing, WindowingResponse


class RetrieveOrRun(RevisionReferences):
    """References to the revision to retrieve, and whether to run it."""

    include_trace_ids: bool | None = Field(
        None, description="Run the query and return the ids of the traces that it finds in `data`."
    )
    include_traces: bool | None = Field(None, description="The same, with the traces themselves.")
    windowing: Windowing | None = Field(None, description="The page of traces; absent members are as saved.")


class RetrievedOrRunResponse(PerKind):
    """The revision that the references name, or none; with what it finds, if that was asked for."""

    count: int
    revision: RevisionOut | None = None
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
    """Return the revision with what it finds in its data: the ids of the traces, and with ``with_traces`` the traces."""
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
