"""Users: whom changes are put down to. What a request may see is not theirs to decide: that is the project of its key."""

from __future__ import annotations

from datetime import datetime
from typing import NamedTuple
from uuid import UUID, uuid4

from common.postgres.pool import Database, Transaction
from common.postgres.queries import SQL


class User(NamedTuple):
    """One user. The one that stands for everybody has no address."""

    id: UUID
    email: str | None
    created_at: datetime


async def ensure_user(door: Database | Transaction, email: str, /) -> User:
    """The user of an address, made now if it is new."""
    (row,) = await door.fetch_all(SQL["ensure_user"], uuid4(), email)
    return User(**row)
