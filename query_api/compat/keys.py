"""List, create and delete the API keys of the project in the shapes of the reference, which knows a key by its prefix.

``query_api/keys`` has our own routes, which also name a key, limit it and replace it.
"""

from __future__ import annotations

from dataclasses import replace
from datetime import datetime
from typing import Final

from pydantic import Field, RootModel

from common.errors import NotFound
from common.postgres.keys import KeyWanted
from common.scopes import KeyScope
from query_api.keys.handlers import TAG, keys_of
from query_api.request.json_body import ApiModel, Strict, json_response
from query_api.request.route import Request, Response, Route

KEY_NAME: Final = "POST /keys"
"""The name of a key for which nobody chose one."""


class PrefixedKey(ApiModel):
    """A key that is not revoked, without its secret."""

    prefix: str = Field(description="The first 8 characters of the key, which no other key has.")
    created_at: datetime = Field(description="When it was created.")
    last_used_at: datetime | None = Field(None, description="When it was last used, up to a minute old.")
    expiration_date: datetime | None = Field(None, description="When it stops working. Absent: never.")


class PrefixedKeys(RootModel[list[PrefixedKey]]):
    """The keys of the project that are not revoked, oldest first."""


class NoOptions(Strict):
    """An empty object: what a key may do and for how long, `POST /projects/keys` takes."""


class KeyText(RootModel[str]):
    """The text of a new key: what to send as `Authorization: ApiKey …`. It is stored nowhere."""


class KeyDeleted(ApiModel):
    """The result of a deletion."""

    message: str = Field(description="A sentence that says what was done.")


async def list_prefixed_keys(request: Request) -> Response:
    """Return the keys of the project that are not revoked, oldest first, without their secrets."""
    keys = await keys_of(request).of_project(request.project_id)
    shown = [
        PrefixedKey(
            prefix=key.prefix,
            created_at=key.created_at,
            last_used_at=key.last_used_at,
            expiration_date=key.expires_at,
        )
        for key in keys
        if key.revoked_at is None
    ]
    return json_response(PrefixedKeys(shown))


async def create_unlimited_key(request: Request) -> Response:
    """Create a key that may do everything in the project and does not expire, and return its text, which is stored
    nowhere. Return 409 if the project has too many keys in force.
    """
    wanted = KeyWanted(KEY_NAME)
    created = await keys_of(request).create(request.project_id, wanted, user_id=request.user_id)
    return replace(json_response(KeyText(created.text)), changed_ids=(created.key.id,))


async def delete_prefixed_key(request: Request) -> Response:
    """Revoke the key that begins with these 8 characters and end its requests; other processes of the API do so within
    a second.
    """
    keys, prefix = keys_of(request), request.path["prefix"]
    for key in await keys.of_project(request.project_id):
        if key.prefix == prefix and key.revoked_at is None:
            revoked = await keys.revoke(request.project_id, key.id)
            response = json_response(KeyDeleted(message=f"The key {prefix} is revoked."))
            return replace(response, changed_ids=(revoked.id,))
    raise NotFound(f"There is no key {prefix} in this project.")


PREFIXED_KEY_ROUTES: Final = tuple(
    replace(route, needs=KeyScope.ADMIN)
    for route in (
        Route("GET", "/keys", list_prefixed_keys, "List the keys that are not revoked.", TAG, PrefixedKeys),
        Route(
            "POST",
            "/keys",
            create_unlimited_key,
            "Create a key that may do everything.",
            TAG,
            KeyText,
            body=NoOptions,
            refused_statuses=(409,),
        ),
        Route(
            "DELETE",
            "/keys/{prefix}",
            delete_prefixed_key,
            "Revoke a key by its prefix.",
            TAG,
            KeyDeleted,
            refused_statuses=(404,),
        ),
    )
)
