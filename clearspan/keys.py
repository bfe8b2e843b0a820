"""``clearspan keys``: API keys of projects. A key is printed once, when it is created; only its hash is stored."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import UTC, datetime, timedelta
from typing import Annotated, Any, Final, NamedTuple, TypeAlias
from uuid import UUID

from clearspan.audited import audited
from clearspan.client.output import TableColumn, print_objects, print_table
from clearspan.command import Group, Json, Operand, Option, command
from clearspan.console import print_result
from clearspan.options import id_text, key_name, positive_integer, positive_number, scope, short_text, time_span
from clearspan.program import called
from clearspan.projects import find_project, on_postgres
from common.ids import DEFAULT_USER_ID
from common.postgres.keys import EXPIRES_AT_MAX, Key, Keys, KeyWanted, NewKey
from common.postgres.pool import Database
from common.postgres.projects import Projects, ensure_user
from common.scopes import KeyScope
from common.settings import Settings
from common.times import SystemClock

DESCRIPTION: Final = """\
Manage API keys. A key belongs to one project, and its scopes say what it may do there: `ingest` sends spans, `read`
reads everything, `write` reads and changes histories, saved queries, subscriptions and alerts, `admin` does all of
these and sets keys, masking and retention. It is shown once: when it is created.
"""

EXAMPLES: Final = """\
examples
  clearspan keys create laptop
  clearspan keys create ci --project checkout --user ci@example.org
  clearspan keys create service --project checkout --scope ingest --expires 90d
  clearspan keys create dashboard --project checkout --scope read --requests-per-s 20 --concurrent-max 4
  clearspan keys list --project checkout
  clearspan keys rotate ID --project checkout --overlap 7d
  clearspan keys revoke ID --project checkout

Send a key in the header:  Authorization: ApiKey KEY
"""
_COLUMNS: Final = (
    TableColumn("id", is_whole=True),
    TableColumn("key", is_whole=True),
    TableColumn("scopes", is_whole=True),
    TableColumn("state", is_whole=True),
    TableColumn("last used", is_optional=True),
    TableColumn("name"),
)


class KeyOptions(NamedTuple):
    """What a new key may do, for how long, and how much."""

    scopes: Annotated[
        Sequence[KeyScope] | None,
        Option(
            "SCOPE",
            "what the key may do: ingest, read, write or admin; may be repeated (default: admin)",
            flag="--scope",
            action="append",
            type=scope,
            choices=[*KeyScope],
        ),
    ] = None
    expires: Annotated[
        timedelta | None, Option("DURATION", "stop working after 90d, 12h (s m h d w)", type=time_span)
    ] = None
    requests_per_s: Annotated[
        float | None,
        Option("N", "requests a second, in each process of the API; beyond that 429", type=positive_number),
    ] = None
    concurrent_max: Annotated[
        int | None,
        Option("N", "requests at the same time, in each process of the API; beyond that 429", type=positive_integer),
    ] = None


ProjectName: TypeAlias = Annotated[
    str | None, Option("PROJECT", "name or id of the project (default: the default project)")
]
KeyId: TypeAlias = Annotated[UUID, Operand("ID", "the id that the list shows", type=id_text)]


@command("create a key and show it once", via=on_postgres)
async def create(
    database: Database,
    settings: Settings,
    *,
    name: Annotated[str, Operand("NAME", "what the key is for, for example laptop", type=key_name)],
    user: Annotated[
        str | None,
        Option(
            "EMAIL",
            "the author of changes that are made with the key; created if new (default: no particular user)",
            type=short_text,
        ),
    ] = None,
    limits: KeyOptions,
    project: ProjectName = None,
    as_json: Json = False,
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


@command("replace a key by a new one like it, which is shown once; the old one works a while longer", via=on_postgres)
async def rotate(
    database: Database,
    settings: Settings,
    *,
    key_id: KeyId,
    overlap: Annotated[
        timedelta, Option("DURATION", "how long the old key still works (default: 1h)", type=time_span)
    ] = timedelta(hours=1),
    project: ProjectName = None,
    as_json: Json = False,
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


@command("list the keys of a project, including revoked ones, without the secrets", is_table=True, via=on_postgres)
async def list_all(
    database: Database, settings: Settings, *, project: ProjectName = None, as_json: Json = False
) -> None:
    """List the keys of a project."""
    found = await Keys(database, SystemClock()).of_project(await _project_id(database, settings, project))
    if as_json:
        print_objects(map(_members, found))
    elif found:
        print_table(_COLUMNS, map(_row, found))
    else:
        print(f"There are no keys. `{called('keys create NAME')}` creates one.")


@command("revoke a key; every running API rejects it within seconds", via=on_postgres)
async def revoke(
    database: Database, settings: Settings, *, key_id: KeyId, project: ProjectName = None, as_json: Json = False
) -> None:
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


keys: Final = Group(
    {"create": create, "rotate": rotate, "list": list_all, "revoke": revoke}, description=DESCRIPTION, epilog=EXAMPLES
)
