"""``clearspan keys``: API keys of projects. A key is printed once, when it is created; only its hash is stored."""

from __future__ import annotations

from typing import Any, Final
from uuid import UUID

from clearspan.client.output import TableColumn, print_objects, print_table
from clearspan.console import print_result
from clearspan.projects import find_project, on_postgres
from common.ids import DEFAULT_USER_ID
from common.postgres.pool import Database
from common.postgres.projects import Key, Keys, Projects, ensure_user
from common.settings import Settings
from common.times import SystemClock

_COLUMNS: Final = (
    TableColumn("id", is_whole=True),
    TableColumn("key", is_whole=True),
    TableColumn("state", is_whole=True),
    TableColumn("name"),
)


@on_postgres
async def create(
    database: Database, settings: Settings, *, name: str, user: str | None, project: str | None, as_json: bool
) -> None:
    """Create a key and show it once."""
    project_id = await _project_id(database, settings, project)
    user_id = DEFAULT_USER_ID if user is None else (await ensure_user(database, user)).id
    created = await Keys(database, SystemClock()).create(project_id, name=name, user_id=user_id)
    text = f"{created.text}\n\nThis key is shown only now. Send it as:  Authorization: ApiKey {created.text}"
    print_result({**_members(created.key), "key": created.text}, text, as_json=as_json)


@on_postgres
async def list_all(database: Database, settings: Settings, *, project: str | None, as_json: bool) -> None:
    """List the keys of a project."""
    found = await Keys(database, SystemClock()).of_project(await _project_id(database, settings, project))
    if as_json:
        print_objects(map(_members, found))
    elif found:
        print_table(_COLUMNS, ((str(key.id), f"{key.prefix}.…", _state(key), key.name) for key in found))
    else:
        print("There are no keys. `clearspan keys create NAME` creates one.")


@on_postgres
async def revoke(database: Database, settings: Settings, *, key_id: UUID, project: str | None, as_json: bool) -> None:
    """Revoke a key."""
    await Keys(database, SystemClock()).revoke(await _project_id(database, settings, project), key_id)
    text = f"{key_id} is revoked; a running API may still accept it for five seconds."
    print_result({"id": str(key_id), "is_revoked": True}, text, as_json=as_json)


async def _project_id(database: Database, settings: Settings, project: str | None) -> UUID:
    id_or_name = str(settings.default_project_id) if project is None else project
    return await find_project(Projects(database, SystemClock()), id_or_name)


def _state(key: Key) -> str:
    return "in force" if key.revoked_at is None else f"revoked {key.revoked_at:%Y-%m-%d %H:%M}"


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
