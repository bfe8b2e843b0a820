"""Create, list, rotate and revoke the API keys of the project of the key. All of them need the scope ``admin``."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Annotated, Any, Final
from uuid import UUID

from pydantic import AfterValidator, AwareDatetime, ConfigDict, Field

from common.errors import InvalidInput, NotFound
from common.postgres.keys import EXPIRES_AT_MAX, Key, Keys, KeyWanted, NewKey
from common.scopes import KeyScope
from query_api.request.context import database_of
from query_api.request.json_body import ApiModel, Listed, Strict, json_response
from query_api.request.references import Text
from query_api.request.route import Request, Response, Route

NAME_CHARACTERS_MAX: Final = 200
"""Characters of the name of a key."""

OVERLAP_S: Final = 3_600.0
"""How long a key that was rotated still works, unless the request says otherwise."""

OVERLAP_S_MAX: Final = 90 * 86_400.0

_EXAMPLE: Final[dict[str, Any]] = {
    "key": {"name": "checkout service", "scopes": ["ingest"], "expires_at": "2027-01-01T00:00:00Z"}
}


def _storable(time: datetime) -> datetime:
    if time > EXPIRES_AT_MAX:
        raise ValueError(f"must be at the latest {EXPIRES_AT_MAX.isoformat()}")
    return time


class KeyIn(Strict):
    """What a new key may do, for how long, and how much."""

    name: Annotated[Text, Field(min_length=1, max_length=NAME_CHARACTERS_MAX)] = Field(description="What it is for.")
    scopes: Annotated[Listed[KeyScope], Field(min_length=1, max_length=len(KeyScope))] = Field(
        description="`ingest` sends spans. `read` reads everything. `write` reads, changes histories, saved queries,"
        " subscriptions and alerts, and deletes traces. `admin` may do everything, also with keys, masking and"
        " retention."
    )
    requests_per_s: float | None = Field(
        None, gt=0, le=1_000_000, description="Requests a second, in each process of the API; beyond that 429."
    )
    concurrent_max: int | None = Field(
        None, gt=0, le=1_000_000, description="Requests at the same time, in each process of the API; beyond that 429."
    )
    expires_at: Annotated[AwareDatetime, AfterValidator(_storable)] | None = Field(
        None, description="When the key stops working, at the latest at the beginning of the year 9999. Absent: never."
    )


class CreateKey(Strict):
    """The key to create."""

    model_config = ConfigDict(json_schema_extra={"examples": [_EXAMPLE]})

    key: KeyIn = Field(description="The key.")


class RotateKey(Strict):
    """How the key is replaced by a new one with the same name, scopes, limits and length of life."""

    overlap_s: float = Field(OVERLAP_S, ge=0, le=OVERLAP_S_MAX, description="How many seconds the old key still works.")


class KeyOut(ApiModel):
    """A key, without its secret."""

    id: UUID = Field(description="The id of the key.")
    name: str = Field(description="What it is for.")
    prefix: str = Field(description="The first 8 characters of the key.")
    scopes: list[KeyScope] = Field(description="What it may do.")
    requests_per_s: float | None = Field(None, description="Requests a second; absent if there is no limit.")
    concurrent_max: int | None = Field(None, description="Requests at the same time; absent if there is no limit.")
    created_at: datetime = Field(description="When it was created.")
    expires_at: datetime | None = Field(None, description="When it stops working. Absent: never.")
    revoked_at: datetime | None = Field(None, description="When it was revoked.")
    last_used_at: datetime | None = Field(None, description="When it was last used, up to a minute old.")


class KeyResponse(ApiModel):
    """One key."""

    count: int = Field(1, description="Always 1.")
    key: KeyOut = Field(description="The key.")
    text: str | None = Field(
        None,
        description="What to send as `Authorization: ApiKey …`; only in the response that"
        " creates it, and stored nowhere.",
    )


class KeysResponse(ApiModel):
    """The keys of the project, oldest first, revoked and expired ones included."""

    count: int = Field(description="The number of keys.")
    keys: list[KeyOut] = Field(description="The keys.")


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
