"""``clearspan keys``: API keys, each of one project. A key is shown once, when it is made; only its hash is kept."""

from __future__ import annotations

import argparse
import json
from collections.abc import Awaitable, Callable
from typing import TYPE_CHECKING, Any, Final
from uuid import UUID

from clearspan.on_postgres import on_postgres
from clearspan.projects import find_project
from clearspan.terminal import short_text, shown
from common.project import DEFAULT_USER_ID

if TYPE_CHECKING:
    from common.postgres.keys import Key, Keys
    from common.postgres.pool import Database

DESCRIPTION: Final = """\
API keys. A key belongs to one project and decides what a request with it sees. It is shown once, when it is made.
"""
EXAMPLES: Final = """\
  clearspan keys create laptop
  clearspan keys create ci --project checkout --user ci@example.org
  clearspan keys list --project checkout
  clearspan keys revoke ID --project checkout

send it as:  Authorization: ApiKey KEY
"""
_PROJECT_HELP: Final = "its project, by name or id; the default project if absent"


def add_actions(actions: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    """Add create, list and revoke."""
    create = actions.add_parser("create", help="make a key and show it, this once")
    create.add_argument("name", metavar="NAME", type=_name, help="what it is for, for example laptop")
    _add_project(create)
    create.add_argument(
        "--user",
        metavar="EMAIL",
        type=short_text,
        help="whom changes made with it are put down to, made if new; nobody in particular if absent",
    )
    create.add_argument("--json", action="store_true", help="a JSON object")
    create.set_defaults(command=_create)
    listing = actions.add_parser("list", help="the keys of a project, revoked ones too; never the key itself")
    _add_project(listing)
    listing.add_argument("--json", action="store_true", help="one JSON object a line")
    listing.set_defaults(command=_list)
    revoke = actions.add_parser("revoke", help="a key no longer counts, everywhere within seconds")
    revoke.add_argument("id", metavar="ID", type=UUID, help="as the list shows it")
    _add_project(revoke)
    revoke.add_argument("--json", action="store_true", help="a JSON object")
    revoke.set_defaults(command=_revoke)


def _name(text: str) -> str:
    try:
        UUID(text)
    except ValueError:
        return short_text(text)
    raise argparse.ArgumentTypeError(f"{text} is an id, not a name; a project is given as --project {text}")


def _add_project(action: argparse.ArgumentParser) -> None:
    action.add_argument("--project", metavar="PROJECT", help=_PROJECT_HELP)


def _create(arguments: argparse.Namespace) -> int:
    async def run(database: Database, keys: Keys, project_id: UUID) -> None:
        user_id = await _user_id(database, arguments.user)
        made = await keys.create(project_id, name=arguments.name, user_id=user_id)
        if arguments.json:
            print(json.dumps({**_members(made.key), "key": made.text}))
        else:
            print(f"{made.text}\n\nThis is the only time it is shown. Send it as:  Authorization: ApiKey {made.text}")

    return _with_keys(arguments, run)


def _list(arguments: argparse.Namespace) -> int:
    async def run(_database: Database, keys: Keys, project_id: UUID) -> None:
        found = await keys.of_project(project_id)
        if not found and not arguments.json:
            print("There are no keys. `clearspan keys create NAME` makes one.")
        for key in found:
            if arguments.json:
                print(json.dumps(_members(key)))
            else:
                state = "in force" if key.revoked_at is None else f"revoked {key.revoked_at:%Y-%m-%d %H:%M}"
                print(f"{key.id}  {key.prefix}.…  {state:<26} {shown(key.name)}")

    return _with_keys(arguments, run)


def _revoke(arguments: argparse.Namespace) -> int:
    async def run(_database: Database, keys: Keys, project_id: UUID) -> None:
        await keys.revoke(project_id, arguments.id)
        if arguments.json:
            print(json.dumps({"id": str(arguments.id), "is_revoked": True}))
        else:
            print(f"{arguments.id} is revoked; a running API may still take it for five seconds.")

    return _with_keys(arguments, run)


def _with_keys(arguments: argparse.Namespace, run: Callable[[Database, Keys, UUID], Awaitable[None]]) -> int:
    from clearspan.target import target_settings  # noqa: PLC0415 - rooms are loaded by the command that needs them
    from common.clock import SystemClock  # noqa: PLC0415
    from common.postgres.keys import Keys  # noqa: PLC0415
    from common.postgres.projects import Projects  # noqa: PLC0415

    async def run_on_project(database: Database) -> None:
        clock = SystemClock()
        named = arguments.project if arguments.project is not None else str(target_settings().default_project_id)
        project_id = await find_project(Projects(database, clock), named)
        await run(database, Keys(database, clock), project_id)

    return on_postgres(run_on_project)


async def _user_id(database: Database, email: str | None) -> UUID:
    from common.postgres.users import ensure_user  # noqa: PLC0415 - as above

    return DEFAULT_USER_ID if email is None else (await ensure_user(database, email)).id


def _members(key: Key) -> dict[str, Any]:
    return {
        "id": str(key.id),
        "project_id": str(key.project_id),
        "user_id": str(key.user_id),
        "name": key.name,
        "prefix": key.prefix,
        "created_at": key.created_at.isoformat(),
        "revoked_at": key.revoked_at.isoformat() if key.revoked_at else None,
    }
