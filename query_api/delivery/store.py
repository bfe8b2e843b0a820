"""Subscriptions in Postgres: what users change, and what the process that delivers writes (ADR 0018).

Only this file reads and writes them. Every statement of ``Subscriptions`` has the project as ``$1``. A process writes
only while it holds the lease and no user has changed the subscription since it was loaded; otherwise the statement
changes nothing and returns no row.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from typing import Any, Final, NamedTuple
from uuid import UUID

import orjson

from common.errors import Conflict
from common.named_sql import load_named_sql
from common.postgres.pool import Database, Row
from query_api.delivery.targets.target import RejectedSpans

_TEXTS: Final = load_named_sql(Path(__file__).with_name("queries.sql"))
SQL: Final = {
    name: text.replace("{shown_columns}", _TEXTS["shown_columns"]).replace("{leased_columns}", _TEXTS["leased_columns"])
    for name, text in _TEXTS.items()
}

JsonObject = Mapping[str, Any]


class Subscription(NamedTuple):
    """A subscription as its project sees it, without its secrets."""

    id: UUID
    slug: str
    name: str | None
    selection: JsonObject
    target: JsonObject
    status: str
    reason: str | None
    position: bytes
    through_at: datetime
    batch_number: int
    pending: bytes | None
    pending_spans: int
    attempts: int
    failing_since: datetime | None
    retry_at: datetime | None
    last_error: str | None
    last_error_at: datetime | None
    delivered_spans: int
    delivered_count: int
    delivered_at: datetime | None
    skipped: Sequence[JsonObject]
    rejected_spans: int
    last_rejection: str | None
    last_rejection_at: datetime | None
    expired_spans: int
    expired_at: datetime | None
    created_at: datetime
    created_by: UUID
    updated_at: datetime | None
    updated_by: UUID | None


class LeasedSubscription(NamedTuple):
    """What the process that holds the lease needs to deliver."""

    project_id: UUID
    id: UUID
    slug: str
    selection: JsonObject
    target: JsonObject
    secrets: JsonObject
    position: bytes
    through_at: datetime
    batch_number: int
    pending: bytes | None
    pending_revision: UUID | None
    attempts: int
    failing_since: datetime | None
    retry_at: datetime | None
    changes_count: int


class NewSubscription(NamedTuple):
    """A subscription to create. ``secrets`` are the members of its target that reads do not show."""

    slug: str
    name: str | None
    selection: JsonObject
    target: JsonObject
    secrets: JsonObject
    position: bytes
    through_at: datetime


class EditedSubscription(NamedTuple):
    """The members of a subscription that a user may change."""

    name: str | None
    selection: JsonObject
    target: JsonObject
    secrets: JsonObject


class NewBatch(NamedTuple):
    """What is stored before a batch is delivered, in the order of the statement."""

    position: bytes
    pending: bytes
    revision_id: UUID | None
    spans_count: int
    passed_expired_count: int
    """Spans that expired between the stored position and ``position``."""

    expired_count: int
    """Spans that expired inside the batch."""


def batch_id_of(subscription_id: UUID, number: int) -> str:
    """Return the id of a batch: the same on every retry (ADR 0018)."""
    return f"msg_{subscription_id.hex}_{number}"


@dataclass(frozen=True, slots=True)
class Subscriptions:
    """The subscriptions of one project. What does not exist is ``None``. Raises the errors of ``Database``."""

    database: Database
    project_id: UUID
    user_id: UUID

    async def create(self, new: NewSubscription, /, *, max_count: int) -> Subscription:
        """Create a subscription. Raises ``Conflict`` at ``max_count``, ``UniqueViolation`` if the slug is in use."""
        async with self.database.transaction() as transaction:
            await transaction.fetch_one(SQL["lock_project"], self.project_id)
            row = await transaction.fetch_one(SQL["count_subscriptions"], self.project_id)
            if row is not None and row["number"] >= max_count:
                raise Conflict(
                    f"This project has {row['number']} subscriptions, and CLEARSPAN_DELIVERY__SUBSCRIPTIONS_MAX allows"
                    f" {max_count}: delete one first."
                )
            values = (_json(value) if isinstance(value, Mapping) else value for value in new)
            created = await transaction.fetch_one(SQL["create_subscription"], self.project_id, self.user_id, *values)
        found = _shown(created)
        assert found is not None  # noqa: S101 - an INSERT of one row returns it, or raises
        return found

    async def find(self, id_or_slug: UUID | str, /) -> Subscription | None:
        """Return the subscription of that id or slug."""
        key = (id_or_slug, None) if isinstance(id_or_slug, UUID) else (None, id_or_slug)
        return _shown(await self.database.fetch_one(SQL["find_subscription"], self.project_id, *key))

    async def all(self) -> list[Subscription]:
        """Return every subscription, oldest first."""
        rows = await self.database.fetch_all(SQL["list_subscriptions"], self.project_id)
        return [found for row in rows if (found := _shown(row)) is not None]

    async def secrets(self, id_: UUID, /) -> JsonObject:
        """Return what reads do not show of a target."""
        row = await self.database.fetch_one(SQL["find_secrets"], self.project_id, id_)
        return {} if row is None else _object(row["secrets"])

    async def edit(self, id_: UUID, edited: EditedSubscription, /, *, gives_up_batch: bool) -> Subscription | None:
        """Change a subscription. ``gives_up_batch``: the batch that is being delivered is read again as a new one."""
        values = (_json(value) if isinstance(value, Mapping) else value for value in edited)
        return await self._write("edit_subscription", id_, *values, gives_up_batch)

    async def delete(self, id_: UUID, /) -> Subscription | None:
        """Delete a subscription and return it."""
        return _shown(await self.database.fetch_one(SQL["delete_subscription"], self.project_id, id_))

    async def pause(self, id_: UUID, /, *, reason: str) -> Subscription | None:
        """Pause a subscription; its position and its batch stay."""
        return await self._write("pause_subscription", id_, reason)

    async def resume(self, id_: UUID, /) -> Subscription | None:
        """Resume a subscription at once, also one that waits for its next try."""
        return await self._write("resume_subscription", id_)

    async def replay(self, id_: UUID, /, *, position: bytes, through_at: datetime) -> Subscription | None:
        """Move a subscription to another position."""
        return await self._write("replay_subscription", id_, position, through_at)

    async def skip(self, id_: UUID, /, *, skipped: Sequence[JsonObject], batch_number: int) -> Subscription | None:
        """Pass the batch of that number; ``None`` if it is not the one that is being delivered."""
        return await self._write("skip_batch", id_, orjson.dumps(skipped).decode(), batch_number)

    async def _write(self, statement: str, id_: UUID, *values: object) -> Subscription | None:
        arguments = (self.project_id, id_, self.user_id, *values)
        return _shown(await self.database.fetch_one(SQL[statement], *arguments))


@dataclass(frozen=True, slots=True)
class Leases:
    """The leases of one process, ``owner``, over the subscriptions of all projects."""

    database: Database
    owner: UUID
    lease_s: float

    async def claim(self, *, max_count: int) -> list[LeasedSubscription]:
        """Take over active subscriptions that no process holds, at most ``max_count``."""
        rows = await self.database.fetch_all(SQL["claim_leases"], self.owner, self.lease_s, max_count)
        return [_leased(row) for row in rows]

    async def renew(self, ids: Sequence[UUID], /) -> dict[UUID, int]:
        """Keep leases; return those that this process still holds, with the number of changes by users."""
        rows = await self.database.fetch_all(SQL["renew_leases"], self.owner, self.lease_s, list(ids))
        return {row["id"]: row["changes_count"] for row in rows}

    async def release(self, held: LeasedSubscription, /) -> None:
        """Give a lease back, so that another process need not wait for its end."""
        await self.database.fetch_all(SQL["release_lease"], self.owner, held.id, held.project_id)

    async def load(self, held: LeasedSubscription, /) -> LeasedSubscription | None:
        """Return the subscription as it is now; ``None`` if this process does not hold it or it is paused."""
        row = await self.database.fetch_one(SQL["leased_subscription"], held.project_id, held.id, self.owner)
        return None if row is None else _leased(row)

    async def advance(
        self, held: LeasedSubscription, position: bytes, through_at: datetime, *, expired_count: int
    ) -> bool:
        """Store a position after spans that do not match or have expired; return whether this process still holds the
        lease.
        """
        return await self._write("advance", held, position, through_at, expired_count)

    async def begin(self, held: LeasedSubscription, new: NewBatch, /) -> int | None:
        """Store the borders of a batch before it is delivered, and return its number; ``None`` if the lease is lost."""
        arguments = (held.project_id, held.id, self.owner, held.changes_count)
        row = await self.database.fetch_one(SQL["begin_batch"], *arguments, *new)
        return None if row is None else int(row["batch_number"])

    async def end(
        self,
        held: LeasedSubscription,
        *,
        through_at: datetime,
        spans_count: int,
        expired_count: int,
        rejected: RejectedSpans | None = None,
    ) -> bool:
        """Store that the batch is acknowledged, what expired before, and what the target rejected."""
        count, reason = (0, None) if rejected is None else (rejected.count, rejected.reason.replace("\0", ""))
        return await self._write("end_batch", held, through_at, spans_count, count, reason, expired_count)

    async def fail(
        self, held: LeasedSubscription, *, attempts: int, since: datetime, retry_at: datetime, reason: str
    ) -> bool:
        """Store that a try failed, and when the next one is."""
        return await self._write("record_failure", held, attempts, since, retry_at, reason)

    async def pause(self, held: LeasedSubscription, *, reason: str) -> bool:
        """Pause a subscription that cannot be delivered, and give the lease back."""
        return await self._write("pause_failed", held, reason)

    async def counts(self) -> dict[str, int]:
        """Return how many subscriptions of all projects are active, retrying and paused."""
        rows = await self.database.fetch_all(SQL["count_by_status"])
        return {row["state"]: row["number"] for row in rows}

    async def _write(self, statement: str, held: LeasedSubscription, *values: object) -> bool:
        arguments = (held.project_id, held.id, self.owner, held.changes_count)
        return await self.database.fetch_one(SQL[statement], *arguments, *values) is not None


def _shown(row: Row | None) -> Subscription | None:
    if row is None:
        return None
    values = {**row, "selection": _object(row["selection"]), "target": _object(row["target"])}
    return Subscription(**{**values, "skipped": orjson.loads(row["skipped"])})


def _leased(row: Row) -> LeasedSubscription:
    objects = {name: _object(row[name]) for name in ("selection", "target", "secrets")}
    return LeasedSubscription(**{**row, **objects})


def _object(text: str) -> JsonObject:
    value: JsonObject = orjson.loads(text)
    return value


def _json(value: JsonObject) -> str:
    return orjson.dumps(value).decode()
