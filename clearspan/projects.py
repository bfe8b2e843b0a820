"""``clearspan projects``: the tenants. Everything that is stored belongs to one project, and so does every key."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Annotated, Any, Concatenate, Final, ParamSpec
from uuid import UUID

from clearspan.audited import audited
from clearspan.client.masking import masking
from clearspan.client.output import TableColumn, print_objects, print_table
from clearspan.client.retention import delete, retention
from clearspan.command import Group, Json, Operand, command
from clearspan.console import at_running_stack, print_result, report_failures
from clearspan.options import project_name
from clearspan.program import called
from common.errors import InvalidInput, NotFound
from common.postgres.pool import Database, open_database
from common.postgres.projects import Project, Projects
from common.settings import Settings
from common.times import SystemClock

DESCRIPTION: Final = """\
Manage projects. Spans, applications, saved queries and keys belong to one project each, and no project sees the data of
another. Spans that name no project belong to the default project.
"""

EXAMPLES: Final = """\
a project for a team, and a key for it
  clearspan projects create checkout
  clearspan keys create laptop --project checkout

limit what the project of the key keeps
  clearspan projects retention                              show the rules, and what is deleted and when
  clearspan projects retention --max-age-days 30 --max-bytes 50GB
  clearspan projects retention --remove                     keep everything

delete a project with everything that belongs to it
  clearspan projects delete ID                              the key is CLEARSPAN_ADMIN_KEY

Over HTTP, the key decides the project of spans. In Kafka, the record header `project-id` does, else the resource
attribute `project.id`, else the project that is configured for the topic. Both hold the id, which `list` shows.
"""
Options = ParamSpec("Options")

_COLUMNS: Final = (
    TableColumn("id", is_whole=True),
    TableColumn("created", is_whole=True),
    TableColumn("name"),
)


def on_postgres(
    function: Callable[Concatenate[Database, Settings, Options], Awaitable[None]],
) -> Callable[Concatenate[Settings, Options], int]:
    """Give a function the database of the installation; return its exit code."""

    def run(settings: Settings, /, *args: Options.args, **options: Options.kwargs) -> int:
        async def run_on_database() -> None:
            async with open_database(at_running_stack(settings).postgres) as database:
                await function(database, settings, *args, **options)

        return report_failures(run_on_database(), settings, "postgres")

    return run


@command("create a project", via=on_postgres)
async def create(
    database: Database,
    _settings: Settings,
    *,
    name: Annotated[str, Operand("NAME", "a name for people; commands accept it instead of the id", type=project_name)],
    as_json: Json = False,
) -> None:
    """Create a project."""
    async with audited(database, "projects create") as changed:
        project = await Projects(database, SystemClock()).create(name)
        changed.ids.append(str(project.id))
    text = f"{project.id}\n\nCreate a key for it:  clearspan keys create NAME --project {project.id}"
    print_result(_members(project), text, as_json=as_json)


@command("list all projects, oldest first", is_table=True, via=on_postgres)
async def list_all(database: Database, settings: Settings, *, as_json: Json = False) -> None:
    """List all projects, oldest first."""
    listed = await Projects(database, SystemClock()).all()
    if as_json:
        print_objects(map(_members, listed))
        return
    marks = ("  (default)" if project.id == settings.default_project_id else "" for project in listed)
    rows = (
        (str(project.id), f"{project.created_at:%Y-%m-%d %H:%M}", f"{project.name}{mark}")
        for project, mark in zip(listed, marks, strict=True)
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


projects: Final = Group(
    {"create": create, "list": list_all, "retention": retention, "delete": delete, "masking": masking},
    description=DESCRIPTION,
    epilog=EXAMPLES,
)
