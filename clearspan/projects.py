"""``clearspan projects``: the tenants. Everything that is stored belongs to one project, and so does every key."""

from __future__ import annotations

import argparse
import json
from typing import TYPE_CHECKING, Any, Final
from uuid import UUID

from clearspan.console import printable, run_on_postgres, short_text, target_settings
from common.errors import InvalidInput, NotFound
from common.times import SystemClock

if TYPE_CHECKING:
    from common.postgres.pool import Database
    from common.postgres.projects import Project, Projects

DESCRIPTION: Final = """\
Manage projects. Spans, applications, saved queries and keys belong to one project each, and no project sees the data of
another. Spans that name no project belong to the default project.
"""
EXAMPLES: Final = """\
a project for a team, and a key for it
  clearspan projects create checkout
  clearspan keys create laptop --project checkout

Over HTTP, the key decides the project of spans. In Kafka, the record header `project-id` does, else the resource
attribute `project.id`, else the project that is configured for the topic. Both hold the id, which `list` shows.
"""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the actions create and list."""
    actions = parser.add_subparsers(title="actions", metavar="ACTION", required=True)
    create = actions.add_parser("create", help="create a project")
    create.add_argument(
        "name", metavar="NAME", type=_name, help="a name for people; commands accept it instead of the id"
    )
    create.set_defaults(command=_create)
    listing = actions.add_parser("list", help="list all projects, oldest first")
    listing.set_defaults(command=_list)
    for action in (create, listing):
        action.add_argument("--json", action="store_true", help="print one JSON object per line")


async def find_project(projects: Projects, id_or_name: str, /) -> UUID:
    """Return the id of a project. Raises ``NotFound``, or ``InvalidInput`` if several projects have the name."""
    project_id = _as_id(id_or_name)
    by_id = None if project_id is None else await projects.find(project_id)
    found = await projects.named(id_or_name) if by_id is None else [by_id]
    if not found:
        raise NotFound(f"There is no project {id_or_name!r}. `clearspan projects list` shows all.")
    if len(found) > 1:
        ids = ", ".join(str(project.id) for project in found)
        raise InvalidInput(f"{len(found)} projects are named {id_or_name!r}; give the id of one: {ids}.")
    return found[0].id


def _name(text: str) -> str:
    if _as_id(text) is not None:
        raise argparse.ArgumentTypeError("a name must not look like an id")
    return short_text(text)


def _create(arguments: argparse.Namespace) -> int:
    async def run(database: Database) -> None:
        project = await _projects(database).create(arguments.name)
        if arguments.json:
            print(json.dumps(_members(project)))
        else:
            print(f"{project.id}\n\nCreate a key for it:  clearspan keys create NAME --project {project.id}")

    return run_on_postgres(run)


def _list(arguments: argparse.Namespace) -> int:
    async def run(database: Database) -> None:
        default_project_id = target_settings().default_project_id
        for project in await _projects(database).all():
            if arguments.json:
                print(json.dumps(_members(project)))
            else:
                mark = "  (default)" if project.id == default_project_id else ""
                print(f"{project.id}  {project.created_at:%Y-%m-%d %H:%M}  {printable(project.name)}{mark}")

    return run_on_postgres(run)


def _projects(database: Database) -> Projects:
    from common.postgres.projects import Projects  # noqa: PLC0415 - loaded only by commands that need it

    return Projects(database, SystemClock())


def _as_id(text: str) -> UUID | None:
    try:
        return UUID(text)
    except ValueError:
        return None


def _members(project: Project) -> dict[str, Any]:
    return {"id": str(project.id), "name": project.name, "created_at": project.created_at.isoformat()}
