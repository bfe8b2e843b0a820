"""Projects, their API keys, and the users who are the authors of changes.

A key belongs to one project and one user, is shown once, and is stored only as a hash. It is ``<prefix>.<secret>``: 8
characters that find and list it, and a secret of 64 hexadecimal digits. Users grant nothing: the project of a key
decides what a request may see. An account is a user with a new project, and a key to it if one is wanted.
"""

from __future__ import annotations

import hashlib
import re
import secrets
from collections.abc import Hashable, Mapping
from datetime import datetime
from hmac import compare_digest
from pathlib import Path
from typing import Final, Generic, NamedTuple, TypeVar
from uuid import UUID, uuid4

from common.errors import NotFound, ServiceError
from common.ids import DEFAULT_USER_ID
from common.named_sql import load_named_sql
from common.postgres.pool import Database, Transaction
from common.times import Clock

SQL: Final = load_named_sql(Path(__file__).with_name("queries.sql"))

FIRST_ENVIRONMENTS: Final = ("development", "staging", "production")
"""The environments of a new project (contract §5)."""

REMEMBERED_MAX: Final = 10_000
"""Projects, keys and owners of keys that a process remembers, of each kind."""

PRESENT_FOR_S: Final = 10.0
"""How long a worker may still store spans of a deleted project; retention removes them."""

ABSENT_FOR_S: Final = 1.0
"""A new project must be found soon, but a flood of records with an unknown project must not reach Postgres."""

VALID_FOR_S: Final = 5.0
"""How long a revoked key may still work in another process."""

INVALID_FOR_S: Final = 1.0

ALONE_FOR_S: Final = 1.0
"""How long a project counts as the only one with keys after that was read."""

NEIGHBOURS_FOR_S: Final = 30.0
"""How long a project counts as one of several with keys after that was read."""

_SHAPE: Final = re.compile(r"([A-Za-z0-9_-]{8})\.([0-9a-f]{64})")

KEY_NAME: Final = "account"
"""The name of the key of a new account."""

Name = TypeVar("Name", bound=Hashable)
Value = TypeVar("Value")


class Remembering(Generic[Name, Value]):
    """Values by key, each until it expires. Above ``count_max`` the oldest is dropped."""

    def __init__(self, clock: Clock, *, count_max: int) -> None:
        self._clock = clock
        self._count_max = count_max
        self._values: dict[Name, tuple[Value, float]] = {}

    def recall(self, key: Name, /) -> tuple[Value] | None:
        """Return the value in a tuple, because it may be ``None``; ``None`` if nothing is known."""
        value_until = self._values.get(key)
        if value_until is None or value_until[1] <= self._clock.monotonic_s():
            return None
        return (value_until[0],)

    def remember(self, key: Name, value: Value, /, *, for_s: float) -> None:
        """Keep a value for ``for_s`` seconds."""
        self._values.pop(key, None)
        while len(self._values) >= self._count_max:
            del self._values[next(iter(self._values))]
        self._values[key] = (value, self._clock.monotonic_s() + for_s)

    def forget_all(self) -> None:
        """Forget all values."""
        self._values.clear()


class Project(NamedTuple):
    """One project."""

    id: UUID
    name: str
    created_at: datetime


class Projects:
    """The projects of an installation."""

    def __init__(self, database: Database, clock: Clock) -> None:
        self._database = database
        self._remembered: Remembering[UUID, bool] = Remembering(clock, count_max=REMEMBERED_MAX)

    async def exists(self, project_id: UUID, /) -> bool:
        """Return whether the project exists. A new one is seen within a second."""
        known = self._remembered.recall(project_id)
        if known is not None:
            return known[0]
        exists = await self._database.fetch_one(SQL["project_exists"], project_id) is not None
        self._remembered.remember(project_id, exists, for_s=PRESENT_FOR_S if exists else ABSENT_FOR_S)
        return exists

    async def create(self, name: str, /, *, seed_defaults: bool = True) -> Project:
        """Create a project, with environments unless ``seed_defaults`` is false. Names need not be unique."""
        return await insert_project(self._database, name, seed_defaults=seed_defaults)

    async def find(self, project_id: UUID, /) -> Project | None:
        """Return the project of that id."""
        row = await self._database.fetch_one(SQL["find_project"], project_id)
        return None if row is None else Project(**row)

    async def delete(self, project_id: UUID, /) -> Project | None:
        """Delete a project with its keys, histories, subscriptions and rules; return it, ``None`` if there is none.

        Its spans are removed by a run of retention (``query_api/retention``), which begins now. Other processes notice
        within ``PRESENT_FOR_S``.
        """
        row = await self._database.fetch_one(SQL["delete_project"], project_id)
        self._remembered.forget_all()
        return None if row is None else Project(**row)

    async def named(self, name: str, /) -> list[Project]:
        """Return the projects of that name, oldest first."""
        return [Project(**row) for row in await self._database.fetch_all(SQL["projects_named"], name)]

    async def all(self) -> list[Project]:
        """Return all projects, oldest first."""
        return [Project(**row) for row in await self._database.fetch_all(SQL["list_projects"])]


async def insert_project(
    executor: Database | Transaction, name: str, /, *, seed_defaults: bool = True, user_id: UUID = DEFAULT_USER_ID
) -> Project:
    """Create a project like ``Projects.create``, also within a transaction.

    ``user_id`` is the author of its environments.
    """
    environments = FIRST_ENVIRONMENTS if seed_defaults else ()
    (row,) = await executor.fetch_all(SQL["create_project"], uuid4(), name, environments, user_id)
    return Project(**row)


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
        return [Key(**row) for row in await self._database.fetch_all(SQL["list_keys"], project_id)]

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
    return NewKey(Key(**row), f"{prefix}.{secret}")


def _hash(text: str) -> bytes:
    return hashlib.sha256(text.encode()).digest()


class User(NamedTuple):
    """One user. The user of requests without authentication has no address."""

    id: UUID
    email: str | None
    created_at: datetime


class WantedAccount(NamedTuple):
    """The account to create. A known address means the same user; the project is always new."""

    email: str
    with_key: bool
    seed_defaults: bool = True


class Account(NamedTuple):
    """An account that was created."""

    user: User
    project: Project
    key: NewKey | None


async def open_accounts(database: Database, wanted: Mapping[str, WantedAccount], /) -> dict[str, Account]:
    """Create accounts, all or none, and return them by the given names. A new project has the address as its name."""
    async with database.transaction() as transaction:
        # Always in one order, so that two requests about the same addresses wait for each other without a deadlock.
        in_order = sorted(wanted.items(), key=lambda named: named[1].email)
        created = {name: await _open(transaction, account) for name, account in in_order}
    return {name: created[name] for name in wanted}


async def ensure_user(executor: Database | Transaction, email: str, /) -> User:
    """Return the user of an address; create it if it is new."""
    (row,) = await executor.fetch_all(SQL["ensure_user"], uuid4(), email)
    return User(**row)


async def _open(transaction: Transaction, wanted: WantedAccount) -> Account:
    user = await ensure_user(transaction, wanted.email)
    project = await insert_project(transaction, wanted.email, seed_defaults=wanted.seed_defaults, user_id=user.id)
    key = await insert_key(transaction, project.id, name=KEY_NAME, user_id=user.id) if wanted.with_key else None
    return Account(user, project, key)
