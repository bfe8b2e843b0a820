"""Subscriptions in Postgres, as users see and change them. Every statement has the project as ``$1``.

A change takes the lease back, so that the process that delivers reads the subscription again. What that process writes
is in ``jobs/subscriptions``.
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
from common.postgres.leases import Kind, add_leases, remove_leases, take_back
from common.postgres.pool import Database, Row

_TEXTS: Final = load_named_sql(Path(__file__).with_name("queries.sql"))
SQL: Final = {name: text.replace("{shown_columns}", _TEXTS["shown_columns"]) for name, text in _TEXTS.items()}

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
            row = await transaction.fetch_one(SQL["create_subscription"], self.project_id, self.user_id, *values)
            created = _shown(row)
            assert created is not None  # noqa: S101 - an INSERT of one row returns it, or raises
            await add_leases(transaction, [Kind.SUBSCRIPTION], created.id, self.project_id)
        return created

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
        async with self.database.transaction() as transaction:
            await remove_leases(transaction, id_)
            return _shown(await transaction.fetch_one(SQL["delete_subscription"], self.project_id, id_))

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
        async with self.database.transaction() as transaction:
            await take_back(transaction, id_)
            return _shown(await transaction.fetch_one(SQL[statement], self.project_id, id_, self.user_id, *values))


def _shown(row: Row | None) -> Subscription | None:
    if row is None:
        return None
    values = {**row, "selection": _object(row["selection"]), "target": _object(row["target"])}
    return Subscription(**{**values, "skipped": orjson.loads(row["skipped"])})


def _object(text: str) -> JsonObject:
    value: JsonObject = orjson.loads(text)
    return value


def _json(value: JsonObject) -> str:
    return orjson.dumps(value).decode()
