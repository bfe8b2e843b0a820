"""The routes of applications: those that every history has, and what is particular here (reference ``applications-api`` §4–§8)."""

from __future__ import annotations

from typing import Final

import orjson

from common.errors import InvalidInput
from query_api.applications.flags import artifact_flags, asked_flags, snapshot
from query_api.applications.models import ApplicationData, ResolveRevision
from query_api.applications.revision_handlers import ApplicationRevisions
from query_api.lineage.answers import one_answer
from query_api.lineage.handlers import HistoryHandlers
from query_api.lineage.history import History, lineage_of
from query_api.lineage.names import APPLICATIONS
from query_api.lineage.references import find_named_revision
from query_api.lineage.revision_handlers import references_of, resolution_info
from query_api.route import Answer, Call

HISTORY: Final = History(
    names=APPLICATIONS,
    data=ApplicationData,
    snapshot=snapshot,
    artifact_flags=artifact_flags,
    asked_flags=asked_flags,
)
HANDLERS: Final = HistoryHandlers(HISTORY, revisions=ApplicationRevisions)


async def resolve(call: Call) -> Answer:
    """The revision that references name, or one that is sent, with what is embedded in its data."""
    asked: ResolveRevision = call.body
    if asked.application_revision is None:
        named = await find_named_revision(lineage_of(call, APPLICATIONS.kind), references_of(asked, APPLICATIONS))
        return HANDLERS.revisions.retrieved(named, resolve=True)
    if asked.application_revision.data is None:
        raise InvalidInput("application_revision.data is missing: there is nothing to resolve.")
    data = asked.application_revision.data.text()
    shown = {"data": orjson.Fragment(data)}
    return one_answer(APPLICATIONS.revision, shown, resolution_info=resolution_info(data))
