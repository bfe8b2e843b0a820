"""``clearspan projects``: the tenants. Everything that is stored belongs to one project, and so does every key."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Any, Concatenate, Final, ParamSpec
from uuid import UUID

from clearspan.audited import audited
from clearspan.client.output import TableColumn, print_objects, print_table
from clearspan.console import at_running_stack, print_result, report_failures
from clearspan.program import called
from common.errors import InvalidInput, NotFound
from common.postgres.pool import Database, open_database
from common.postgres.projects import Project, Projects
from common.settings import Settings
from common.times import SystemClock

Options = ParamSpec("Options")

_COLUMNS: Final = (
    TableColumn("id", is_whole=True),
    TableColumn("created", is_whole=True),
    TableColumn("name"),
)


def on_postgres(
    command: Callable[Concatenate[Database, Settings, Options], Awaitable[None]],
) -> Callable[Concatenate[Settings, Options], int]:
    """Give a command the database of the installation; return its exit code."""

    def run(settings: Settings, /, *args: Options.args, **options: Options.kwargs) -> int:
        async def run_on_database() -> None:
            async with open_database(at_running_stack(settings).postgres) as database:
                await command(database, settings, *args, **options)

        return report_failures(run_on_database(), settings, "postgres")

    return run


@on_postgres
async def create(database: Database, _settings: Settings, *, name: str, as_json: bool) -> None:
    """Create a project."""
    async with audited(database, "projects create") as changed:
        project = await Projects(database, SystemClock()).create(name)
        changed.ids.append(str(project.id))
    text = f"{project.id}\n\nCreate a key for it:  clearspan keys create NAME --project {project.id}"
    print_result(_members(project), text, as_json=as_json)


@on_postgres
async def list_all(database: Database, settings: Settings, *, as_json: bool) -> None:
    """List all projects, oldest first."""
    projects = await Projects(database, SystemClock()).all()
    if as_json:
        print_objects(map(_members, projects))
        return
    marks = ("  (default)" if project.id == settings.default_project_id else "" for project in projects)
    rows = (
        (str(project.id), f"{project.created_at:%Y-%m-%d %H:%M}", f"{project.name}{mark}")
        for project, mark in zip(projects, marks, strict=True)
    )
    print_table(_COLUMNS, rows)


async def find_project(projects: Projects, id_or_name: str, /) -> UUID:
    """Return the id of a project. Raises ``NotFound``, or ``InvalidInput`` if several projects have the name."""
    try:
        project_id = UUID(id_or_name)
    except ValueError:
        by_id = None
    else:
        by_id = await projects.find(project_id)
    found = await projects.named(id_or_name) if by_id is None else [by_id]
    if not found:
        raise NotFound(f"There is no project {id_or_name!r}. `{called('projects list')}` shows all.")
    if len(found) > 1:
        ids = ", ".join(str(project.id) for project in found)
        raise InvalidInput(f"{len(found)} projects are named {id_or_name!r}; give the id of one: {ids}.")
    return found[0].id


def _members(project: Project) -> dict[str, Any]:
    return {"id": str(project.id), "name": project.name, "created_at": project.created_at.isoformat()}
