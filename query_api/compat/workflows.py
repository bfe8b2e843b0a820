"""The workflow routes that the SDK needs: retrieve and resolve (reference ``applications-api`` §7.7, §10.3).

The rows are those of applications, under the same ids. Only the names of members differ.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Final

from query_api.registry.applications import APPLICATION
from query_api.registry.environments import DeployableRevisions, RetrieveDeployed
from query_api.registry.kinds import WORKFLOWS
from query_api.registry.responses import RetrievedRevisionResponse
from query_api.registry.routes import in_kind, resolving_route
from query_api.request.route import Route

WORKFLOW: Final = replace(APPLICATION, labels=WORKFLOWS)
_REVISIONS: Final = DeployableRevisions(WORKFLOW)

# fmt: off
WORKFLOW_ROUTES: Final = (
    resolving_route(WORKFLOW, _REVISIONS, tag="Workflows"),
    *in_kind(
        WORKFLOW,
        Route("POST", "/workflows/revisions/retrieve", _REVISIONS.retrieve,
              "Retrieve a workflow revision by references.", "Workflows", RetrievedRevisionResponse,
              body=RetrieveDeployed),
    ),
)
# fmt: on
