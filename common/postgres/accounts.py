"""Accounts: a user with a project of their own, and a key to it if they want one. All of a request, or nothing of it."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final, NamedTuple

from common.postgres.keys import NewKey, insert_key
from common.postgres.pool import Database, Transaction
from common.postgres.projects import Project, insert_project
from common.postgres.users import User, ensure_user

KEY_NAME: Final = "account"


class WantedAccount(NamedTuple):
    """What is asked for: an address that is known already is the same user, and the project is new all the same."""

    email: str
    with_key: bool
    seed_defaults: bool = True


class Account(NamedTuple):
    """What was made."""

    user: User
    project: Project
    key: NewKey | None


async def open_accounts(database: Database, wanted: Mapping[str, WantedAccount], /) -> dict[str, Account]:
    """The accounts by the names under which they were asked for; each has a fresh project that bears its address."""
    async with database.transaction() as transaction:
        # In one order everywhere, so that two requests about the same addresses wait for each other and do not lock.
        in_order = sorted(wanted.items(), key=lambda named: named[1].email)
        made = {name: await _open(transaction, account) for name, account in in_order}
    return {name: made[name] for name in wanted}


async def _open(transaction: Transaction, wanted: WantedAccount) -> Account:
    user = await ensure_user(transaction, wanted.email)
    project = await insert_project(transaction, wanted.email, seed_defaults=wanted.seed_defaults, user_id=user.id)
    key = await insert_key(transaction, project.id, name=KEY_NAME, user_id=user.id) if wanted.with_key else None
    return Account(user, project, key)
