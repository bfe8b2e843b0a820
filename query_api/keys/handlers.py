"""Create, list, rotate and revoke the API keys of the project of the key. All of them need the scope ``admin``."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Any, Final
from uuid import UUID

from common.errors import InvalidInput, NotFound
from common.postgres.keys import Key, Keys, KeyWanted, NewKey
from common.scopes import KeyScope
from query_api.keys.schemas import CreateKey, KeyOut, KeyResponse, KeysResponse, RotateKey
from query_api.request.context import database_of
from query_api.request.json_body import json_response
from query_api.request.route import Request, Response, Route

TAG: Final = "Keys"


async def list_keys(request: Request) -> Response:
    """Return the keys of the project, oldest first, without their secrets."""
    found = await keys_of(request).of_project(request.project_id)
    return json_response(KeysResponse(count=len(found), keys=[_shown(key) for key in found]))


async def create_key(request: Request) -> Response:
    """Create a key of the project, and return its text, which is stored nowhere. With too many keys in force: 409."""
    wanted = request.body.key
    now = datetime.fromtimestamp(request.context.clock.now_ns() / 1e9, UTC)
    if wanted.expires_at is not None and wanted.expires_at <= now:
        raise InvalidInput(f"key.expires_at: {wanted.expires_at.isoformat()} has passed.")
    created = await keys_of(request).create(
        request.project_id,
        KeyWanted(
            wanted.name,
            frozenset(wanted.scopes),
            requests_per_s=wanted.requests_per_s,
            concurrent_max=wanted.concurrent_max,
            expires_at=wanted.expires_at,
        ),
        user_id=request.user_id,
    )
    return _created(created)


async def rotate_key(request: Request) -> Response:
    """Create a key like this one, and let the old one expire soon."""
    body: RotateKey = request.body
    overlap = timedelta(seconds=body.overlap_s)
    return _created(await keys_of(request).rotate(request.project_id, _key_id(request), overlap=overlap))


async def revoke_key(request: Request) -> Response:
    """Revoke a key and end its requests; other processes of the API do so within a second."""
    return json_response(KeyResponse(key=_shown(await keys_of(request).revoke(request.project_id, _key_id(request)))))


def keys_of(request: Request) -> Keys:
    """Return the keys of all projects."""
    context = request.context
    if isinstance(context.keys, Keys):
        return context.keys
    return Keys(database_of(context), context.clock, count_max=context.settings.access.keys_max)


def _key_id(request: Request) -> UUID:
    try:
        return UUID(request.path["key_id"])
    except ValueError:
        raise NotFound(f"There is no key {request.path['key_id']} in this project.") from None


def _created(created: NewKey) -> Response:
    return json_response(KeyResponse(key=_shown(created.key), text=created.text))


def _shown(key: Key) -> KeyOut:
    members: dict[str, Any] = key._asdict()
    return KeyOut(**{name: members[name] for name in KeyOut.model_fields})


KEY_ROUTES: Final = (
    Route("GET", "/projects/keys", list_keys, "List the keys of the project.", TAG, KeysResponse, needs=KeyScope.ADMIN),
    Route(
        "POST",
        "/projects/keys",
        create_key,
        "Create a key.",
        TAG,
        KeyResponse,
        body=CreateKey,
        body_required=True,
        needs=KeyScope.ADMIN,
        refused_statuses=(409,),
    ),
    Route(
        "POST",
        "/projects/keys/{key_id}/rotate",
        rotate_key,
        "Replace a key by a new one.",
        TAG,
        KeyResponse,
        body=RotateKey,
        needs=KeyScope.ADMIN,
        refused_statuses=(404, 409),
    ),
    Route(
        "DELETE",
        "/projects/keys/{key_id}",
        revoke_key,
        "Revoke a key.",
        TAG,
        KeyResponse,
        needs=KeyScope.ADMIN,
        refused_statuses=(404,),
    ),
)
