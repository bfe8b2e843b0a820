"""The routes of saved queries: those that every history has, and what is particular here (reference ``spans-api`` §9)."""

from __future__ import annotations

from dataclasses import replace
from typing import Final

from query_api.freshness.data_through import with_freshness
from query_api.registry.answers import Members
from query_api.registry.handlers import HistoryHandlers
from query_api.registry.history import History
from query_api.registry.names import QUERIES
from query_api.registry.queries_models import QueryData, RetrieveQueryRevision
from query_api.registry.queries_saving import snapshot
from query_api.registry.revision_handlers import RevisionHandlers, references_of
from query_api.registry.values import References, Revision
from query_api.request.route import Request, Response
from query_api.saved.resolve import saved_in
from query_api.saved.run import Found, run

HISTORY: Final = History(names=QUERIES, data=QueryData, snapshot=snapshot, archives_with_variant=True)


class QueryRevisionHandlers(RevisionHandlers):
    """Revisions that can be run."""

    async def retrieve(self, request: Request) -> Response:
        """The revision that references name: a bare variant means its newest, a bare query that of its first variant. It can be run
        on the way; then `data` shows a page of what it finds, and the answer says how fresh that is.
        """
        asked: RetrieveQueryRevision = request.body
        if references_of(asked, QUERIES) == References():
            return self.retrieved(None)
        if asked.include_trace_ids or asked.include_traces:
            return await with_freshness(request, self._run)
        return self.retrieved(await self._named(request))

    async def _run(self, request: Request) -> Response:
        asked: RetrieveQueryRevision = request.body
        revision = await self._named(request)
        if revision is None:
            return self.retrieved(None)
        found = await run(request, saved_in(revision), asked.windowing)
        return self.retrieved(_with_found(revision, found, whole=bool(asked.include_traces)), beside=_beside(found))


def _with_found(revision: Revision, found: Found, *, whole: bool) -> Revision:
    """The revision as if its data held what it finds: the ids of the traces, and with ``whole`` these."""
    members = b',"trace_ids":%b' % found.trace_ids_json + (b',"traces":%b' % found.traces_json if whole else b"")
    assert revision.data is not None  # noqa: S101 - it was run
    return replace(revision, data=revision.data.removesuffix("}") + members.decode() + "}")


def _beside(found: Found) -> Members:
    more: Members = {} if found.cursor is None else {"windowing": {"next": found.cursor}}
    return more if found.is_complete else {**more, "complete": False}


HANDLERS: Final = HistoryHandlers(HISTORY, revisions=QueryRevisionHandlers)
