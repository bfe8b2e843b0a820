"""``clearspan keys``: API keys of projects. A key is printed once, when it is created; only its hash is stored."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Any, Final
from uuid import UUID

from clearspan.audited import audited
from clearspan.client.output import TableColumn, print_objects, print_table
from clearspan.commands.keys import KeyOptions
from clearspan.console import print_result
from clearspan.program import called
from clearspan.projects import find_project, on_postgres
from common.ids import DEFAULT_USER_ID
from common.postgres.keys import EXPIRES_AT_MAX, Key, Keys, KeyWanted, NewKey
from common.postgres.pool import Database
from common.postgres.projects import Projects, ensure_user
from common.scopes import KeyScope
from common.settings import Settings
from common.times import SystemClock

_COLUMNS: Final = (
    TableColumn("id", is_whole=True),
    TableColumn("key", is_whole=True),
    TableColumn("scopes", is_whole=True),
    TableColumn("state", is_whole=True),
    TableColumn("last used", is_optional=True),
    TableColumn("name"),
)


@on_postgres
async def create(
    database: Database,
    settings: Settings,
    *,
    name: str,
    limits: KeyOptions,
    user: str | None,
    project: str | None,
    as_json: bool,
) -> None:
    """Create a key and show it once."""
    project_id = await _project_id(database, settings, project)
    user_id = DEFAULT_USER_ID if user is None else (await ensure_user(database, user)).id
    now = datetime.now(UTC)
    expires_at = None if limits.expires is None else now + min(limits.expires, EXPIRES_AT_MAX - now)
    scopes = frozenset(limits.scopes or [KeyScope.ADMIN])
    wanted = KeyWanted(name, scopes, limits.requests_per_s, limits.concurrent_max, expires_at)
    async with audited(database, "keys create", project_id=project_id) as changed:
        created = await _keys(database, settings).create(project_id, wanted, user_id=user_id)
        changed.ids.append(str(created.key.id))
    _show(created, as_json=as_json)


@on_postgres
async def rotate(
    database: Database, settings: Settings, *, key_id: UUID, overlap: timedelta, project: str | None, as_json: bool
) -> None:
    """Replace a key by a new one like it, and show that once."""
    project_id = await _project_id(database, settings, project)
    async with audited(database, "keys rotate", project_id=project_id, ids=[key_id]) as changed:
        created = await _keys(database, settings).rotate(project_id, key_id, overlap=overlap)
        changed.ids.append(str(created.key.id))
    _show(created, as_json=as_json)


def _keys(database: Database, settings: Settings) -> Keys:
    return Keys(database, SystemClock(), count_max=settings.access.keys_max)


def _show(created: NewKey, *, as_json: bool) -> None:
    text = f"{created.text}\n\nThis key is shown only now. Send it as:  Authorization: ApiKey {created.text}"
    print_result({**_members(created.key), "key": created.text}, text, as_json=as_json)


@on_postgres
async def list_all(database: Database, settings: Settings, *, project: str | None, as_json: bool) -> None:
    """List the keys of a project."""
    found = await Keys(database, SystemClock()).of_project(await _project_id(database, settings, project))
    if as_json:
        print_objects(map(_members, found))
    elif found:
        print_table(_COLUMNS, map(_row, found))
    else:
        print(f"There are no keys. `{called('keys create NAME')}` creates one.")


@on_postgres
async def revoke(database: Database, settings: Settings, *, key_id: UUID, project: str | None, as_json: bool) -> None:
    """Revoke a key."""
    project_id = await _project_id(database, settings, project)
    async with audited(database, "keys revoke", project_id=project_id, ids=[key_id]):
        await Keys(database, SystemClock()).revoke(project_id, key_id)
    text = f"{key_id} is revoked; a running API refuses it within a second."
    print_result({"id": str(key_id), "is_revoked": True}, text, as_json=as_json)


def _row(key: Key) -> tuple[str, ...]:
    return str(key.id), f"{key.prefix}.…", ",".join(key.scopes), _state(key), _last_use(key), key.name


def _state(key: Key) -> str:
    if key.revoked_at is not None:
        return f"revoked {key.revoked_at:%Y-%m-%d %H:%M}"
    if key.expires_at is None:
        return "in force"
    has_passed = key.expires_at <= datetime.now(UTC)
    return f"{'expired' if has_passed else 'expires'} {key.expires_at:%Y-%m-%d %H:%M}"


def _last_use(key: Key) -> str:
    return "never" if key.last_used_at is None else f"{key.last_used_at:%Y-%m-%d %H:%M}"


async def _project_id(database: Database, settings: Settings, project: str | None) -> UUID:
    id_or_name = str(settings.default_project_id) if project is None else project
    return await find_project(Projects(database, SystemClock()), id_or_name)


def _members(key: Key) -> dict[str, Any]:
    moments = {name: getattr(key, name) for name in ("created_at", "expires_at", "revoked_at", "last_used_at")}
    return {
        "id": str(key.id),
        "project_id": str(key.project_id),
        "user_id": str(key.user_id),
        "name": key.name,
        "prefix": key.prefix,
        "scopes": key.scopes,
        "requests_per_s": key.requests_per_s,
        "concurrent_max": key.concurrent_max,
        **{name: moment.isoformat() if moment else None for name, moment in moments.items()},
    }
