"""The application routes: those that every history has, and what is particular here (reference ``applications-api`` §4–§8)."""

from __future__ import annotations

from typing import Final

import orjson

from common.errors import InvalidInput
from query_api.applications.flags import artifact_flags, asked_flags, snapshot
from query_api.applications.models import (
    ApplicationData,
    ResolveRevision,
    VariantsParameters,
    VariantsQuestion,
)
from query_api.applications.revision_handlers import ApplicationRevisions
from query_api.applications.variant_parameters import with_parameters
from query_api.environments.retrieve import retrieve as by_environment_or_directly
from query_api.lineage.answers import one_answer
from query_api.lineage.handlers import HistoryHandlers
from query_api.lineage.history import History
from query_api.lineage.names import APPLICATIONS
from query_api.lineage.revision_handlers import resolution_info
from query_api.route import Answer, Call

HISTORY: Final = History(
    names=APPLICATIONS,
    data=ApplicationData,
    snapshot=snapshot,
    artifact_flags=artifact_flags,
    asked_flags=asked_flags,
)
_HANDLERS: Final = HistoryHandlers(HISTORY, revisions=ApplicationRevisions)
artifacts: Final = _HANDLERS.artifacts
variants: Final = _HANDLERS.variants
revisions: Final = _HANDLERS.revisions
simple: Final = _HANDLERS.simple


async def query_variants(call: Call) -> Answer:
    """Ask for variants, in pages along their ids. The query string may ask as well; what the body says wins."""
    question: VariantsQuestion = call.body
    parameters: VariantsParameters = call.query
    return await variants.answer_question(call, with_parameters(question, parameters))


async def retrieve(call: Call) -> Answer:
    """The revision that references name: directly, or by what is deployed to an environment."""
    return await by_environment_or_directly(call, revisions, APPLICATIONS)


async def resolve(call: Call) -> Answer:
    """The revision that references name, or one that is sent, with what is embedded in its data."""
    asked: ResolveRevision = call.body
    if asked.application_revision is None:
        return await revisions.resolve(call)
    if asked.application_revision.data is None:
        raise InvalidInput("application_revision.data is missing: there is nothing to resolve.")
    data = asked.application_revision.data.text()
    shown = {"data": orjson.Fragment(data)}
    return one_answer(APPLICATIONS.revision, shown, resolution_info=resolution_info(data))
