"""API keys: each belongs to one project and one user, is shown once, and is stored only as a hash.

A key is ``<prefix>.<secret>``: 8 characters that find and list it, and a secret of 64 hexadecimal digits.
"""

from __future__ import annotations

import hashlib
import re
import secrets
from datetime import datetime
from hmac import compare_digest
from typing import Final, NamedTuple
from uuid import UUID, uuid4

from common.errors import NotFound, ServiceError
from common.ids import DEFAULT_USER_ID
from common.postgres.pool import Database, Row, Transaction
from common.postgres.queries import SQL
from common.postgres.remembering import Remembering
from common.times import Clock

REMEMBERED_MAX: Final = 10_000
VALID_FOR_S: Final = 5.0
"""How long a revoked key may still work in another process."""

INVALID_FOR_S: Final = 1.0

ALONE_FOR_S: Final = 1.0
"""How long a project counts as the only one with keys after that was read."""

NEIGHBOURS_FOR_S: Final = 30.0
"""How long a project counts as one of several with keys after that was read."""

_SHAPE: Final = re.compile(r"([A-Za-z0-9_-]{8})\.([0-9a-f]{64})")


class Key(NamedTuple):
    """One key, without its secret."""

    id: UUID
    project_id: UUID
    user_id: UUID
    name: str
    prefix: str
    created_at: datetime
    revoked_at: datetime | None


class NewKey(NamedTuple):
    """A new key, with the text that is shown only once."""

    key: Key
    text: str


class KeyOwner(NamedTuple):
    """The project that a request with the key may see, and the user recorded as the author of its changes."""

    project_id: UUID
    user_id: UUID


class Keys:
    """The keys of all projects."""

    def __init__(self, database: Database, clock: Clock) -> None:
        self._database = database
        self._remembered: Remembering[bytes, KeyOwner | None] = Remembering(clock, count_max=REMEMBERED_MAX)
        self._neighbors: Remembering[UUID, bool] = Remembering(clock, count_max=REMEMBERED_MAX)

    async def create(self, project_id: UUID, /, *, name: str, user_id: UUID = DEFAULT_USER_ID) -> NewKey:
        """Create a key of a project for an existing user. Raises ``NotFound`` if the project does not exist."""
        return await insert_key(self._database, project_id, name=name, user_id=user_id)

    async def of_project(self, project_id: UUID, /) -> list[Key]:
        """Return the keys of a project, oldest first, revoked ones included."""
        return [_key(row) for row in await self._database.fetch_all(SQL["list_keys"], project_id)]

    async def revoke(self, project_id: UUID, key_id: UUID, /) -> None:
        """Revoke a key; other processes notice within ``VALID_FOR_S``. May be repeated.

        Raises ``NotFound`` if the project has no such key.
        """
        if await self._database.fetch_one(SQL["revoke_key"], project_id, key_id) is None:
            raise NotFound(f"There is no key {key_id} in this project.")
        self._remembered.forget_all()

    async def find(self, key_text: str, /) -> KeyOwner | None:
        """Return the owner of a valid key, else ``None``. Raises ``Unavailable`` if Postgres cannot say."""
        shape = _SHAPE.fullmatch(key_text)
        if shape is None:
            return None
        known = self._remembered.recall(_hash(key_text))
        if known is not None:
            return known[0]
        owner = await self._prove(prefix=shape[1], secret=shape[2])
        self._remembered.remember(_hash(key_text), owner, for_s=INVALID_FOR_S if owner is None else VALID_FOR_S)
        return owner

    async def has_neighbors(self, project_id: UUID, /) -> bool:
        """Return whether another project has a valid key; a second project is seen within ``ALONE_FOR_S``.

        True if Postgres cannot say: a share that is too small for a moment harms no other project.
        """
        known = self._neighbors.recall(project_id)
        if known is not None:
            return known[0]
        try:
            row = await self._database.fetch_one(SQL["another_project_has_a_key"], project_id)
        except ServiceError:
            row = None
        has_some = row is None or bool(row["is_so"])
        is_sure = row is not None and has_some
        self._neighbors.remember(project_id, has_some, for_s=NEIGHBOURS_FOR_S if is_sure else ALONE_FOR_S)
        return has_some

    async def _prove(self, *, prefix: str, secret: str) -> KeyOwner | None:
        row = await self._database.fetch_one(SQL["find_key"], prefix)
        if row is None or not compare_digest(row["secret_hash"], _hash(secret)):
            return None
        return KeyOwner(row["project_id"], row["user_id"])


async def insert_key(executor: Database | Transaction, project_id: UUID, /, *, name: str, user_id: UUID) -> NewKey:
    """Create a key like ``Keys.create``, also within a transaction."""
    prefix, secret = secrets.token_urlsafe(6), secrets.token_hex(32)
    row = await executor.fetch_one(SQL["create_key"], uuid4(), project_id, name, prefix, _hash(secret), user_id)
    if row is None:
        raise NotFound(f"There is no project {project_id}.")
    return NewKey(_key(row), f"{prefix}.{secret}")


def _hash(text: str) -> bytes:
    return hashlib.sha256(text.encode()).digest()


def _key(row: Row) -> Key:
    return Key(**row)
