"""The environment routes: those that every history has, and deploying (reference ``applications-api`` §7.5, §7.6)."""

from __future__ import annotations

from typing import Final

from query_api.environments.deployed import deploy
from query_api.environments.deployments import changed_by_key
from query_api.environments.models import DeployApplication, EnvironmentData
from query_api.lineage.answers import one_answer, revision_members
from query_api.lineage.handlers import HistoryHandlers
from query_api.lineage.history import History, lineage_of
from query_api.lineage.names import APPLICATIONS, ENVIRONMENTS
from query_api.lineage.revision_handlers import references_of
from query_api.lineage.values import Kind
from query_api.route import Answer, Call

HISTORY: Final = History(names=ENVIRONMENTS, data=EnvironmentData, change=changed_by_key)
HANDLERS: Final = HistoryHandlers(HISTORY)


async def deploy_application(call: Call) -> Answer:
    """Deploy a revision of an application to an environment: a commit there. Answers with the deployed revision."""
    asked: DeployApplication = call.body
    deployed = await deploy(
        lineage_of(call, Kind.ENVIRONMENT),
        environment=references_of(asked, ENVIRONMENTS),
        application=references_of(asked, APPLICATIONS),
        key=asked.key,
        message=asked.message,
        bytes_max=call.context.settings.limits.body_bytes_max,
    )
    return one_answer(APPLICATIONS.revision, revision_members(APPLICATIONS, deployed, with_slugs=True))
