"""Retrieving an application's revision, directly or by what is deployed (reference ``applications-api`` §7.2 and §7.3)."""

from __future__ import annotations

from query_api.environments.deployed import find_deployed
from query_api.lineage.history import lineage_of
from query_api.lineage.names import ENVIRONMENTS, Names
from query_api.lineage.references import References
from query_api.lineage.revision_handlers import RevisionHandlers, references_of
from query_api.route import Answer, Call


async def retrieve(call: Call, revisions: RevisionHandlers, names: Names) -> Answer:
    """Answer a retrieval of the kind that ``names`` calls so. An environment or a key in the body asks for what is deployed."""
    environment = references_of(call.body, ENVIRONMENTS)
    if environment == References() and not call.body.key:
        return await revisions.retrieve(call)
    deployed = await find_deployed(
        lineage_of(call, names.kind),
        environment=environment,
        application=references_of(call.body, names),
        key=call.body.key,
    )
    return revisions.retrieved(deployed.revision, resolve=bool(call.body.resolve), info=deployed.info)
