"""``clearspan keys``: API keys, each of one project. A key is shown once, when it is made; only its hash is kept."""

from __future__ import annotations

import argparse
import asyncio
import json
import sys
from collections.abc import Awaitable, Callable
from typing import TYPE_CHECKING, Any
from uuid import UUID

from common.project import DEFAULT_PROJECT_ID

if TYPE_CHECKING:
    from common.postgres.keys import Key, Keys


def add_actions(actions: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    """Add create, list and revoke."""
    create = actions.add_parser("create", help="make a key and show it, this once")
    create.add_argument("name", metavar="NAME", help="what it is for, for example laptop")
    create.add_argument(
        "--project",
        type=UUID,
        default=DEFAULT_PROJECT_ID,
        metavar="ID",
        help="its project; the default project if absent",
    )
    create.add_argument("--json", action="store_true", help="a JSON object")
    create.set_defaults(command=_create)
    listing = actions.add_parser("list", help="the keys of a project, revoked ones too; never the key itself")
    listing.add_argument("--project", type=UUID, default=DEFAULT_PROJECT_ID, metavar="ID", help="as above")
    listing.add_argument("--json", action="store_true", help="one JSON object a line")
    listing.set_defaults(command=_list)
    revoke = actions.add_parser("revoke", help="a key no longer counts, everywhere within seconds")
    revoke.add_argument("id", metavar="ID", type=UUID, help="as the list shows it")
    revoke.add_argument("--project", type=UUID, default=DEFAULT_PROJECT_ID, metavar="ID", help="as above")
    revoke.set_defaults(command=_revoke)


def _create(arguments: argparse.Namespace) -> int:
    async def run(keys: Keys) -> None:
        made = await keys.create(arguments.project, name=arguments.name)
        if arguments.json:
            print(json.dumps({**_members(made.key), "key": made.text}))
        else:
            print(f"{made.text}\n\nThis is the only time it is shown. Send it as:  Authorization: ApiKey {made.text}")

    return _with_keys(run)


def _list(arguments: argparse.Namespace) -> int:
    async def run(keys: Keys) -> None:
        found = await keys.of_project(arguments.project)
        if not found and not arguments.json:
            print("There are no keys. `clearspan keys create NAME` makes one.")
        for key in found:
            if arguments.json:
                print(json.dumps(_members(key)))
            else:
                state = "in force" if key.revoked_at is None else f"revoked {key.revoked_at:%Y-%m-%d %H:%M}"
                print(f"{key.id}  {key.prefix}.…  {state:<26} {key.name}")

    return _with_keys(run)


def _revoke(arguments: argparse.Namespace) -> int:
    async def run(keys: Keys) -> None:
        await keys.revoke(arguments.project, arguments.id)
        print(f"{arguments.id} is revoked; a running API may still take it for five seconds.")

    return _with_keys(run)


def _with_keys(run: Callable[[Keys], Awaitable[None]]) -> int:
    from clearspan.target import target_settings  # noqa: PLC0415 - rooms are loaded by the command that needs them
    from common.clock import SystemClock  # noqa: PLC0415
    from common.errors import ServiceError  # noqa: PLC0415
    from common.postgres.keys import Keys  # noqa: PLC0415
    from common.postgres.pool import open_database  # noqa: PLC0415

    async def run_on_database() -> None:
        async with open_database(target_settings().postgres) as database:
            await run(Keys(database, SystemClock()))

    try:
        asyncio.run(run_on_database())
    except ServiceError as exc:
        print(f"clearspan: {exc.detail}", file=sys.stderr)
        return 1
    return 0


def _members(key: Key) -> dict[str, Any]:
    return {
        "id": str(key.id),
        "project_id": str(key.project_id),
        "name": key.name,
        "prefix": key.prefix,
        "created_at": key.created_at.isoformat(),
        "revoked_at": key.revoked_at.isoformat() if key.revoked_at else None,
    }
