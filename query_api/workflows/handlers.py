"""The one workflow route that clients of applications need: retrieving a revision (reference ``applications-api`` §7.7, §10.3).

The rows are those of applications, under the same ids; only the words differ.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Final

from query_api.applications.handlers import HISTORY
from query_api.environments.retrieve import retrieve
from query_api.lineage.names import Names
from query_api.lineage.revision_handlers import RevisionHandlers
from query_api.lineage.values import Kind
from query_api.route import Answer, Call

WORKFLOWS: Final = Names(Kind.APPLICATION, "workflow", "workflows", ("workflow", "artifact"))
_revisions: Final = RevisionHandlers(replace(HISTORY, names=WORKFLOWS))


async def retrieve_workflow(call: Call) -> Answer:
    """The revision that references name: directly, or by what is deployed to an environment."""
    return await retrieve(call, _revisions, WORKFLOWS)
