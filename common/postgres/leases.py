"""Leases: work that one process at a time does, in one table of Postgres (ADR 0018).

A process claims what is due, renews while it works, and releases it with the time of the next run. Each claim makes a
new ``holder``. A user who changes what a lease is about takes the lease back: what the run before the change still
writes is refused. Time is that of Postgres.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Collection, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass
from datetime import datetime
from enum import StrEnum
from pathlib import Path
from typing import Final, NamedTuple
from uuid import UUID

from common.named_sql import load_named_sql
from common.postgres.pool import Database, Transaction

_SQL: Final = load_named_sql(Path(__file__).with_name("leases.sql"))

RETENTION_ID: Final = UUID(int=0)
"""The leases of retention and of settling belong to no project."""


class Kind(StrEnum):
    """What a lease is about."""

    SUBSCRIPTION = "subscription"
    ALERT = "alert"
    MESSAGES = "messages"
    """The messages of an alert; ``id`` is that of the alert."""

    RETENTION = "retention"
    SETTLING = "settling"


class LeaseLost(Exception):
    """The lease was taken back by a user, or has expired and belongs to another process."""


class Lease(NamedTuple):
    """A claim. ``failures`` are the runs in a row before it that failed unexpectedly."""

    kind: Kind
    id: UUID
    project_id: UUID | None
    holder: UUID
    failures: int


class Schedule(NamedTuple):
    """When the next run begins."""

    next_run: datetime
    is_running: bool


@dataclass(frozen=True, slots=True)
class Leases:
    """The leases that processes hold. They end after ``lease_s`` unless they are renewed."""

    database: Database
    lease_s: float

    async def claim(self, kinds: Sequence[Kind], *, full: Collection[tuple[Kind, UUID]]) -> Lease | None:
        """Claim what is due longest, except of the kinds and projects that are ``full``; ``None`` if nothing is."""
        arguments = ([kind for kind, _ in full], [project_id for _, project_id in full])
        row = await self.database.fetch_one(_SQL["claim"], self.lease_s, kinds, *arguments)
        return None if row is None else Lease(**{**row, "kind": Kind(row["kind"])})

    async def renew(self, leases: Collection[Lease], /) -> set[UUID]:
        """Keep leases; return the holders of those that are still held."""
        holders = [lease.holder for lease in leases]
        return {row["holder"] for row in await self.database.fetch_all(_SQL["renew"], self.lease_s, holders)}

    async def release(self, lease: Lease, next_run: datetime | None) -> None:
        """End a run; without a ``next_run`` the lease rests until it is woken."""
        await self.database.fetch_all(_SQL["release"], lease.holder, next_run)

    async def fail(self, lease: Lease, *, delay_s: float) -> None:
        """End a run that failed unexpectedly; the next one begins after ``delay_s`` seconds."""
        await self.database.fetch_all(_SQL["fail"], lease.holder, delay_s)

    async def give_back(self, leases: Collection[Lease], /) -> None:
        """End runs that are not done, so that another process need not wait."""
        await self.database.fetch_all(_SQL["give_back"], [lease.holder for lease in leases])

    @asynccontextmanager
    async def holding(self, lease: Lease) -> AsyncIterator[Transaction]:
        """Yield a transaction during which the lease stays held. Raises ``LeaseLost``."""
        async with self.database.transaction() as transaction:
            if await transaction.fetch_one(_SQL["hold"], lease.holder) is None:
                raise LeaseLost
            yield transaction


async def add_leases(transaction: Transaction, kinds: Sequence[Kind], id_: UUID, project_id: UUID) -> None:
    """Add leases that are due at once."""
    await transaction.fetch_all(_SQL["add"], id_, project_id, kinds)


async def take_back(transaction: Transaction, id_: UUID) -> None:
    """End the runs of an id before it is changed; the next ones begin at once, and read what it is then."""
    await transaction.fetch_all(_SQL["lock"], id_)
    await transaction.fetch_all(_SQL["take_back"], id_)


async def remove_leases(transaction: Transaction, id_: UUID) -> None:
    """Remove the leases of an id before it is deleted."""
    await transaction.fetch_all(_SQL["lock"], id_)
    await transaction.fetch_all(_SQL["remove"], id_)


async def remove_leases_of_project(transaction: Transaction, project_id: UUID) -> None:
    """Remove the leases of a project before it is deleted."""
    await transaction.fetch_all(_SQL["remove_of_project"], project_id)


async def wake(database: Database | Transaction, kind: Kind, id_: UUID, *, within_s: float = 0.0) -> None:
    """Let the next run of a lease begin within some seconds, unless it begins earlier anyway."""
    await database.fetch_all(_SQL["wake"], kind, id_, within_s)


async def schedule_of(database: Database, kind: Kind, id_: UUID) -> Schedule | None:
    """Return when the next run of a lease begins; ``None`` if there is no such lease."""
    row = await database.fetch_one(_SQL["find"], kind, id_)
    return None if row is None else Schedule(**row)
