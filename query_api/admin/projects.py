"""``DELETE /admin/projects/{project_id}``: delete a project with everything that belongs to it (contract §9)."""

from __future__ import annotations

from uuid import UUID

from pydantic import Field

from common.errors import InvalidInput, NotFound
from common.postgres.projects import Projects
from query_api.admin.dead_letters import table_of
from query_api.request.context import database_of
from query_api.request.json_body import ApiModel, json_response
from query_api.request.route import Request, Response


class DeletedProject(ApiModel):
    """A project that was deleted."""

    id: UUID = Field(description="The id of the project.")
    name: str = Field(description="The name of the project.")
    dead_letters: int = Field(description="How many open dead letters were deleted.")


class ProjectDeleted(ApiModel):
    """The deleted project."""

    count: int = Field(1, description="Always 1.")
    project: DeletedProject = Field(description="The project.")


async def delete_project(request: Request) -> Response:
    """Delete a project with its keys, applications, saved queries, environments, subscriptions, alerts and rules.

    Its dead letters are deleted. Its spans cannot be read from now on: its requests end and streams are broken
    off, in other processes within a second. A run of retention, which begins at once, removes the spans from the disk.
    A record of the project that arrives later becomes a dead letter. The default project cannot be deleted.
    """
    context = request.context
    project_id = _parse_id(request.path["project_id"])
    if project_id == context.settings.default_project_id:
        raise InvalidInput("The default project cannot be deleted: spans that name no project are stored in it.")
    projects = Projects(database_of(context), context.clock)
    if await projects.find(project_id) is None:
        raise NotFound(f"There is no project {project_id}.")
    dropped_count = await table_of(context).delete_project(str(project_id))
    project = await projects.delete(project_id)
    if project is None:
        raise NotFound(f"There is no project {project_id}.")
    if context.keys is not None:
        await context.keys.end_project(project_id)
    deleted = DeletedProject(id=project.id, name=project.name, dead_letters=dropped_count)
    return json_response(ProjectDeleted(project=deleted))


def _parse_id(text: str) -> UUID:
    try:
        return UUID(text)
    except ValueError:
        raise InvalidInput(f"project_id: {text[:100]!r} is not the id of a project: a UUID is allowed.") from None
