"""The environment routes: those that every history has, and deploying (reference ``applications-api`` §7.5, §7.6)."""

from __future__ import annotations

from typing import Final

from query_api.registry.answers import one_answer, revision_members, simple_members
from query_api.registry.deployed import deploy
from query_api.registry.deployments import changed_by_key
from query_api.registry.environments_models import DeployApplication, EnvironmentData
from query_api.registry.handlers import HistoryHandlers
from query_api.registry.history import History, lineage_of
from query_api.registry.names import APPLICATIONS, ENVIRONMENTS
from query_api.registry.requests import path_id
from query_api.registry.revision_handlers import references_of
from query_api.registry.values import Header, Kind
from query_api.request.route import Request, Response

HISTORY: Final = History(names=ENVIRONMENTS, data=EnvironmentData, change=changed_by_key)
HANDLERS: Final = HistoryHandlers(HISTORY)


async def guard(request: Request) -> Response:
    """Mark an environment as guarded. Answers show the mark; it forbids nothing."""
    return await _mark(request, is_guarded=True)


async def unguard(request: Request) -> Response:
    """Mark an environment as not guarded."""
    return await _mark(request, is_guarded=False)


async def deploy_application(request: Request) -> Response:
    """Deploy a revision of an application to an environment: a commit there. Answers with the deployed revision."""
    asked: DeployApplication = request.body
    deployed = await deploy(
        lineage_of(request, Kind.ENVIRONMENT),
        environment=references_of(asked, ENVIRONMENTS),
        application=references_of(asked, APPLICATIONS),
        key=asked.key,
        message=asked.message,
        bytes_max=request.context.settings.limits.body_bytes_max,
    )
    return one_answer(APPLICATIONS.revision, revision_members(APPLICATIONS, deployed, with_slugs=True))


async def _mark(request: Request, *, is_guarded: bool) -> Response:
    flags = HISTORY.artifact_flags({"is_guarded": is_guarded})
    async with lineage_of(request, ENVIRONMENTS.kind).transaction() as lineage:
        marked = await lineage.edit_artifact(path_id(request), header=Header(), flags=flags, folder_id=None)
        simple = None if marked is None else await lineage.find_simple(marked.id)
    return one_answer(ENVIRONMENTS.artifact, None if simple is None else simple_members(simple))
