"""``clearspan projects``: the fences between tenants. Everything that is stored belongs to one, and so does every key."""

from __future__ import annotations

import argparse
import json
from typing import TYPE_CHECKING, Any, Final
from uuid import UUID

from clearspan.on_postgres import on_postgres
from clearspan.terminal import short_text, shown

if TYPE_CHECKING:
    from common.postgres.pool import Database
    from common.postgres.projects import Project, Projects

DESCRIPTION: Final = """\
Projects are the fences between tenants: spans, applications, saved queries and keys belong to one, and nobody sees another's.
What names no project goes to the default one.
"""
EXAMPLES: Final = """\
a project for a team, and a key to it
  clearspan projects create checkout
  clearspan keys create laptop --project checkout

spans find their project by the key they are sent with over HTTP; in Kafka by the record header `project-id`, else the
resource attribute `project.id`, else the project that is set for the topic. Both say the id, which `list` shows.
"""


def add_actions(actions: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    """Add create and list."""
    create = actions.add_parser("create", help="make a project")
    create.add_argument(
        "name", metavar="NAME", type=project_name, help="for people; commands take it in place of the id"
    )
    create.add_argument("--json", action="store_true", help="a JSON object")
    create.set_defaults(command=_create)
    listing = actions.add_parser("list", help="all projects, oldest first")
    listing.add_argument("--json", action="store_true", help="one JSON object a line")
    listing.set_defaults(command=_list)


def project_name(text: str) -> str:
    """A name that can be told from an id; raises what argparse shows as wrong usage."""
    if _as_id(text) is not None:
        raise argparse.ArgumentTypeError("a name must not look like an id")
    return short_text(text)


async def find_project(projects: Projects, id_or_name: str, /) -> UUID:
    """The id of a project. Raises ``NotFound`` where there is none, and ``InvalidInput`` where several bear the name."""
    from common.errors import InvalidInput, NotFound  # noqa: PLC0415 - rooms are loaded by the command that needs them

    project_id = _as_id(id_or_name)
    by_id = None if project_id is None else await projects.find(project_id)
    found = await projects.named(id_or_name) if by_id is None else [by_id]
    if not found:
        raise NotFound(f"There is no project {id_or_name!r}. `clearspan projects list` shows all.")
    if len(found) > 1:
        ids = ", ".join(str(project.id) for project in found)
        raise InvalidInput(f"{len(found)} projects bear the name {id_or_name!r}; say the id of one: {ids}.")
    return found[0].id


def _create(arguments: argparse.Namespace) -> int:
    async def run(database: Database) -> None:
        project = await _projects(database).create(arguments.name)
        if arguments.json:
            print(json.dumps(_members(project)))
        else:
            print(f"{project.id}\n\nA key to it:  clearspan keys create NAME --project {project.id}")

    return on_postgres(run)


def _list(arguments: argparse.Namespace) -> int:
    from clearspan.target import target_settings  # noqa: PLC0415 - rooms are loaded by the command that needs them

    async def run(database: Database) -> None:
        default_project_id = target_settings().default_project_id
        for project in await _projects(database).all():
            if arguments.json:
                print(json.dumps(_members(project)))
            else:
                mark = "  (default)" if project.id == default_project_id else ""
                print(f"{project.id}  {project.created_at:%Y-%m-%d %H:%M}  {shown(project.name)}{mark}")

    return on_postgres(run)


def _projects(database: Database) -> Projects:
    from common.clock import SystemClock  # noqa: PLC0415 - as above
    from common.postgres.projects import Projects  # noqa: PLC0415

    return Projects(database, SystemClock())


def _as_id(text: str) -> UUID | None:
    try:
        return UUID(text)
    except ValueError:
        return None


def _members(project: Project) -> dict[str, Any]:
    return {"id": str(project.id), "name": project.name, "created_at": project.created_at.isoformat()}
