"""Projects, and the users who are the authors of changes.

Users grant nothing: the project and the scopes of a key (``keys.py``) decide what a request may see and do. An account
is a user with a new project, and a key to it if one is wanted.
"""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime
from pathlib import Path
from typing import Final, NamedTuple
from uuid import UUID, uuid4

from common.ids import DEFAULT_USER_ID
from common.named_sql import load_named_sql
from common.postgres.keys import KeyWanted, NewKey, insert_key
from common.postgres.leases import remove_leases_of_project
from common.postgres.pool import Database, Transaction
from common.remembering import REMEMBERED_MAX, Remembering
from common.times import Clock

SQL: Final = load_named_sql(Path(__file__).with_name("queries.sql"))

FIRST_ENVIRONMENTS: Final = ("development", "staging", "production")
"""The environments of a new project (contract §5)."""

PRESENT_FOR_S: Final = 10.0
"""How long a worker may still store spans of a deleted project; retention removes them."""

ABSENT_FOR_S: Final = 1.0
"""A new project must be found soon, but a flood of records with an unknown project must not reach Postgres."""

USERS_MAX: Final = 1_000
"""Users of one project that are listed."""

KEY_NAME: Final = "account"
"""The name of the key of a new account."""


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

    async def users(self, project_id: UUID, /) -> list[User]:
        """Return the users of the keys of a project, also of revoked ones, oldest first, at most ``USERS_MAX``."""
        return [User(**row) for row in await self._database.fetch_all(SQL["users_of_project"], project_id, USERS_MAX)]

    async def delete(self, project_id: UUID, /) -> Project | None:
        """Delete a project with its keys, histories, subscriptions and rules; return it, ``None`` if there is none.

        Its spans are removed by a run of retention (``jobs/retention``), which begins now. Other processes notice
        within ``PRESENT_FOR_S``.
        """
        async with self._database.transaction() as transaction:
            await remove_leases_of_project(transaction, project_id)
            row = await transaction.fetch_one(SQL["delete_project"], project_id)
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
    key = await insert_key(transaction, project.id, KeyWanted(KEY_NAME), user_id=user.id) if wanted.with_key else None
    return Account(user, project, key)
