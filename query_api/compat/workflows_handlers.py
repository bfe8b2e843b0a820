"""The workflow routes that the SDK needs: retrieving and resolving a revision (reference ``applications-api`` §7.7, §10.3).

The rows are those of applications, under the same ids; only the words differ.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Final

from query_api.registry.applications_handlers import HISTORY
from query_api.registry.environments_retrieve import DeployableRevisions
from query_api.registry.names import Names
from query_api.registry.values import Kind

WORKFLOWS: Final = Names(Kind.APPLICATION, "workflow", "workflows", ("workflow", "artifact"))
REVISIONS: Final = DeployableRevisions(replace(HISTORY, names=WORKFLOWS))
