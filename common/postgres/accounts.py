"""Users, and accounts: a user with a new project, and a key to it if one is wanted.

Users are recorded as the authors of changes. They grant nothing: the project of a key decides what a request may see.
"""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime
from typing import Final, NamedTuple
from uuid import UUID, uuid4

from common.postgres.keys import NewKey, insert_key
from common.postgres.pool import Database, Transaction
from common.postgres.projects import Project, insert_project
from common.postgres.queries import SQL

KEY_NAME: Final = "account"


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
