"""Alerts in Postgres, as users see and change them. Every statement has the project as ``$1``.

A change takes the leases back. What the processes that evaluate and send write is in ``jobs/alerts``.
"""

from __future__ import annotations

from collections.abc import Mapping
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
_PARTS: Final = ("shown_columns", "changed")


def _filled(text: str) -> str:
    for name in _PARTS:
        text = text.replace(f"{{{name}}}", _TEXTS[name])
    return text


SQL: Final = {name: _filled(text) for name, text in _TEXTS.items()}


class StoredAlert(NamedTuple):
    """An alert as its project sees it, without its secrets."""

    id: UUID
    slug: str
    name: str | None
    definition: Mapping[str, Any]
    selection: Mapping[str, Any]
    target: Mapping[str, Any]
    status: str
    reason: str | None
    next_at: datetime
    evaluated_at: datetime | None
    groups_count: int
    left_out_count: int
    message_number: int
    waiting_count: int
    attempts: int
    failing_since: datetime | None
    retry_at: datetime | None
    delivered_count: int
    delivered_at: datetime | None
    last_error: str | None
    last_error_at: datetime | None
    created_at: datetime
    created_by: UUID
    updated_at: datetime | None
    updated_by: UUID | None


class AlertValues(NamedTuple):
    """The members of an alert that a user sets, in the order of the statements."""

    name: str | None
    definition: Mapping[str, Any]
    every_s: float
    selection: Mapping[str, Any]
    target: Mapping[str, Any]
    secrets: Mapping[str, Any]


class StoredBreach(NamedTuple):
    """A group that is in breach."""

    by: Mapping[str, Any]
    value: float
    since: datetime


@dataclass(frozen=True, slots=True)
class Alerts:
    """The alerts of one project. What does not exist is ``None``. Raises the errors of ``Database``."""

    database: Database
    project_id: UUID
    user_id: UUID

    async def create(self, slug: str, values: AlertValues, /, *, max_count: int) -> StoredAlert:
        """Create an alert. Raises ``Conflict`` at ``max_count``, ``UniqueViolation`` if the slug is in use."""
        async with self.database.transaction() as transaction:
            await transaction.fetch_one(SQL["lock_project"], self.project_id)
            row = await transaction.fetch_one(SQL["count_alerts"], self.project_id)
            if row is not None and row["number"] >= max_count:
                raise Conflict(
                    f"This project has {row['number']} alerts, and CLEARSPAN_DELIVERY__ALERTS_MAX allows {max_count}:"
                    " delete one first."
                )
            name, *others = _sql_values(values)
            arguments = (self.project_id, self.user_id, slug, name, *others)
            created = _alert(await transaction.fetch_one(SQL["create_alert"], *arguments))
            assert created is not None  # noqa: S101 - an INSERT of one row returns it, or raises
            await add_leases(transaction, [Kind.ALERT, Kind.MESSAGES], created.id, self.project_id)
        return created

    async def find(self, id_or_slug: UUID | str, /) -> StoredAlert | None:
        """Return the alert of that id or slug."""
        key = (id_or_slug, None) if isinstance(id_or_slug, UUID) else (None, id_or_slug)
        return _alert(await self.database.fetch_one(SQL["find_alert"], self.project_id, *key))

    async def all(self) -> list[StoredAlert]:
        """Return every alert, oldest first."""
        rows = await self.database.fetch_all(SQL["list_alerts"], self.project_id)
        return [found for row in rows if (found := _alert(row)) is not None]

    async def secrets(self, id_: UUID, /) -> Mapping[str, Any]:
        """Return the members of the target that reads do not show."""
        row = await self.database.fetch_one(SQL["find_secrets"], self.project_id, id_)
        return {} if row is None else _loaded(row["secrets"])

    async def breaches_counts(self) -> dict[UUID, int]:
        """Return how many groups of each alert are in breach; alerts without any are absent."""
        rows = await self.database.fetch_all(SQL["count_breaches"], self.project_id)
        return {row["alert_id"]: row["number"] for row in rows}

    async def breaches(self, id_: UUID, /, *, max_count: int) -> list[StoredBreach]:
        """Return groups of an alert that are in breach, the oldest first."""
        rows = await self.database.fetch_all(SQL["list_breaches"], self.project_id, id_, max_count)
        return [StoredBreach(_loaded(row["by"]), row["value"], row["since"]) for row in rows]

    async def edit(self, id_: UUID, values: AlertValues, /) -> StoredAlert | None:
        """Replace what a user sets."""
        return await self._write("edit_alert", id_, *_sql_values(values))

    async def delete(self, id_: UUID, /) -> StoredAlert | None:
        """Delete an alert with its messages, and return it."""
        async with self.database.transaction() as transaction:
            await remove_leases(transaction, id_)
            return _alert(await transaction.fetch_one(SQL["delete_alert"], self.project_id, id_))

    async def pause(self, id_: UUID, /, *, reason: str) -> StoredAlert | None:
        """Pause an alert; its messages stay."""
        return await self._write("pause_alert", id_, reason)

    async def resume(self, id_: UUID, /) -> StoredAlert | None:
        """Resume an alert: it is evaluated and its messages are sent at once."""
        return await self._write("resume_alert", id_)

    async def skip(self, id_: UUID, /) -> StoredAlert | None:
        """Drop the first waiting message; ``None`` if there is none."""
        async with self.database.transaction() as transaction:
            await take_back(transaction, id_)
            if await transaction.fetch_one(SQL["drop_message"], self.project_id, id_) is None:
                return None
            return _alert(await transaction.fetch_one(SQL["skip_message"], self.project_id, id_, self.user_id))

    async def _write(self, statement: str, id_: UUID, *values: object) -> StoredAlert | None:
        async with self.database.transaction() as transaction:
            await take_back(transaction, id_)
            return _alert(await transaction.fetch_one(SQL[statement], self.project_id, id_, self.user_id, *values))


def _alert(row: Row | None) -> StoredAlert | None:
    return None if row is None else StoredAlert(**_with_objects(row, "definition", "selection", "target"))


def _with_objects(row: Row, *names: str) -> dict[str, Any]:
    return {**row, **{name: _loaded(row[name]) for name in names}}


def _sql_values(values: AlertValues) -> list[object]:
    return [_dumped(value) if isinstance(value, Mapping) else value for value in values]


def _loaded(text: str) -> Mapping[str, Any]:
    found: Mapping[str, Any] = orjson.loads(text)
    return found


def _dumped(value: Mapping[str, Any]) -> str:
    return orjson.dumps(value).decode()
