"""``clearspan keys``: API keys of projects. A key is printed once, when it is created; only its hash is stored."""

from __future__ import annotations

import argparse
import json
from collections.abc import Awaitable, Callable
from typing import TYPE_CHECKING, Any, Final
from uuid import UUID

from clearspan.console import printable, run_on_postgres, short_text, target_settings
from clearspan.projects import find_project
from common.ids import DEFAULT_USER_ID
from common.times import SystemClock

if TYPE_CHECKING:
    from common.postgres.pool import Database
    from common.postgres.projects import Key, Keys

DESCRIPTION: Final = """\
Manage API keys. A key belongs to one project and decides which data a request sees. It is shown once: when it is
created.
"""
EXAMPLES: Final = """\
examples
  clearspan keys create laptop
  clearspan keys create ci --project checkout --user ci@example.org
  clearspan keys list --project checkout
  clearspan keys revoke ID --project checkout

Send a key in the header:  Authorization: ApiKey KEY
"""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the actions create, list and revoke."""
    actions = parser.add_subparsers(title="actions", metavar="ACTION", required=True)
    create = actions.add_parser("create", help="create a key and show it once")
    create.add_argument("name", metavar="NAME", type=_name, help="what the key is for, for example laptop")
    create.add_argument(
        "--user",
        metavar="EMAIL",
        type=short_text,
        help="the author of changes that are made with the key; created if new (default: no particular user)",
    )
    create.set_defaults(command=_create)
    listing = actions.add_parser("list", help="list the keys of a project, including revoked ones, without the secrets")
    listing.set_defaults(command=_list)
    revoke = actions.add_parser("revoke", help="revoke a key; every running API rejects it within seconds")
    revoke.add_argument("id", metavar="ID", type=UUID, help="the id that the list shows")
    revoke.set_defaults(command=_revoke)
    for action in (create, listing, revoke):
        action.add_argument(
            "--project", metavar="PROJECT", help="name or id of the project (default: the default project)"
        )
        action.add_argument("--json", action="store_true", help="print one JSON object per line")


def _name(text: str) -> str:
    try:
        UUID(text)
    except ValueError:
        return short_text(text)
    raise argparse.ArgumentTypeError(f"{text} is an id, not a name; name the project with --project {text}")


def _create(arguments: argparse.Namespace) -> int:
    async def run(database: Database, keys: Keys, project_id: UUID) -> None:
        user_id = await _user_id(database, arguments.user)
        created = await keys.create(project_id, name=arguments.name, user_id=user_id)
        if arguments.json:
            print(json.dumps({**_members(created.key), "key": created.text}))
        else:
            print(f"{created.text}\n\nThis key is shown only now. Send it as:  Authorization: ApiKey {created.text}")

    return _run_with_keys(arguments, run)


def _list(arguments: argparse.Namespace) -> int:
    async def run(_database: Database, keys: Keys, project_id: UUID) -> None:
        found = await keys.of_project(project_id)
        if not found and not arguments.json:
            print("There are no keys. `clearspan keys create NAME` creates one.")
        for key in found:
            if arguments.json:
                print(json.dumps(_members(key)))
            else:
                state = "in force" if key.revoked_at is None else f"revoked {key.revoked_at:%Y-%m-%d %H:%M}"
                print(f"{key.id}  {key.prefix}.…  {state:<26} {printable(key.name)}")

    return _run_with_keys(arguments, run)


def _revoke(arguments: argparse.Namespace) -> int:
    async def run(_database: Database, keys: Keys, project_id: UUID) -> None:
        await keys.revoke(project_id, arguments.id)
        if arguments.json:
            print(json.dumps({"id": str(arguments.id), "is_revoked": True}))
        else:
            print(f"{arguments.id} is revoked; a running API may still accept it for five seconds.")

    return _run_with_keys(arguments, run)


def _run_with_keys(arguments: argparse.Namespace, run: Callable[[Database, Keys, UUID], Awaitable[None]]) -> int:
    from common.postgres.projects import Keys, Projects  # noqa: PLC0415 - loaded only by commands that need it

    async def run_on_project(database: Database) -> None:
        clock = SystemClock()
        project = arguments.project if arguments.project is not None else str(target_settings().default_project_id)
        await run(database, Keys(database, clock), await find_project(Projects(database, clock), project))

    return run_on_postgres(run_on_project)


async def _user_id(database: Database, email: str | None) -> UUID:
    from common.postgres.projects import ensure_user  # noqa: PLC0415 - as above

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
