"""Alerts in Postgres: what users change, and what the processes that evaluate and send write (ADR 0019).

Only this file reads and writes them. A process writes only while it holds the lease and no user has changed the alert
since it was claimed; otherwise the statement changes nothing and the method says so.
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

_TEXTS: Final = load_named_sql(Path(__file__).with_name("queries.sql"))
_PARTS: Final = ("shown_columns", "changed", "next_at")


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


class DueAlert(NamedTuple):
    """An alert to evaluate, under a lease."""

    project_id: UUID
    id: UUID
    slug: str
    definition: Mapping[str, Any]
    selection: Mapping[str, Any]
    next_at: datetime
    message_number: int
    waiting_count: int
    changes_count: int


class SendingAlert(NamedTuple):
    """An alert whose messages are sent, under a lease."""

    project_id: UUID
    id: UUID
    slug: str
    target: Mapping[str, Any]
    secrets: Mapping[str, Any]
    attempts: int
    failing_since: datetime | None
    changes_count: int


class AlertMessage(NamedTuple):
    """A message that is not acknowledged. ``data`` is its content."""

    number: int
    kind: str
    data: Mapping[str, Any]
    created_at: datetime


class BreachChange(NamedTuple):
    """What an evaluation changes: groups in breach, groups that no longer are, and the messages about them."""

    breaching: Sequence[tuple[bytes, Mapping[str, Any], float]]
    """Key, values and value of every group in breach, new ones among them."""

    ended: Sequence[bytes]
    messages: Sequence[tuple[str, Mapping[str, Any]]]
    """Kind and content."""


def message_id_of(alert_id: UUID, number: int) -> str:
    """Return the id of a message: the same on every retry."""
    return f"msg_{alert_id.hex}_{number}"


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
        return _alert(await self.database.fetch_one(SQL["delete_alert"], self.project_id, id_))

    async def pause(self, id_: UUID, /, *, reason: str) -> StoredAlert | None:
        """Pause an alert; its messages stay."""
        return await self._write("pause_alert", id_, reason)

    async def resume(self, id_: UUID, /) -> StoredAlert | None:
        """Resume an alert: it is evaluated and its messages are sent at once."""
        return await self._write("resume_alert", id_)

    async def skip(self, id_: UUID, /) -> StoredAlert | None:
        """Drop the first waiting message; ``None`` if there is none."""
        async with self.database.transaction() as transaction:
            if await transaction.fetch_one(SQL["drop_message"], self.project_id, id_) is None:
                return None
            return _alert(await transaction.fetch_one(SQL["skip_message"], self.project_id, id_, self.user_id))

    async def _write(self, statement: str, id_: UUID, *values: object) -> StoredAlert | None:
        arguments = (self.project_id, id_, self.user_id, *values)
        return _alert(await self.database.fetch_one(SQL[statement], *arguments))


@dataclass(frozen=True, slots=True)
class AlertLeases:
    """The leases of one process, ``owner``, over the alerts of all projects. A lease ends by itself after
    ``lease_s``.
    """

    database: Database
    owner: UUID
    lease_s: float

    async def claim_due(self, *, max_count: int, without: Sequence[UUID]) -> list[DueAlert]:
        """Claim alerts to evaluate now; none of the projects ``without``."""
        rows = await self.database.fetch_all(SQL["claim_due"], self.owner, self.lease_s, max_count, list(without))
        return [DueAlert(**_with_objects(row, "definition", "selection")) for row in rows]

    async def breaches(self, alert: DueAlert, /) -> dict[bytes, tuple[Mapping[str, Any], datetime]]:
        """Return the groups in breach: by their keys their values, and since when."""
        rows = await self.database.fetch_all(SQL["breaches_of"], alert.project_id, alert.id)
        return {row["key"]: (_loaded(row["by"]), row["since"]) for row in rows}

    async def finish(
        self, alert: DueAlert, change: BreachChange, *, at: datetime, groups_count: int, left_out_count: int
    ) -> bool:
        """Store an evaluation with its messages; return whether the lease still held."""
        key = (alert.project_id, alert.id)
        async with self.database.transaction() as transaction:
            counts = (groups_count, left_out_count, len(change.messages))
            row = await transaction.fetch_one(
                SQL["finish_evaluation"], *key, self.owner, alert.changes_count, at, *counts
            )
            if row is None:
                return False
            if change.breaching:
                keys, by, values = zip(*change.breaching, strict=True)
                await transaction.fetch_one(
                    SQL["add_breaches"], *key, list(keys), list(map(_dumped, by)), list(values), at
                )
            if change.ended:
                await transaction.fetch_one(SQL["remove_breaches"], *key, list(change.ended))
            if change.messages:
                kinds, contents = zip(*change.messages, strict=True)
                await transaction.fetch_one(
                    SQL["add_messages"], *key, row["before_number"], list(kinds), list(map(_dumped, contents)), at
                )
        return True

    async def fail(self, alert: DueAlert, *, reason: str) -> bool:
        """Store that an evaluation failed; the next one is at its usual time."""
        arguments = (alert.project_id, alert.id, self.owner, alert.changes_count, reason)
        return await self.database.fetch_one(SQL["fail_evaluation"], *arguments) is not None

    async def claim_to_send(self, *, max_count: int, without: Sequence[UUID]) -> list[SendingAlert]:
        """Claim alerts whose messages can be sent now; none of the projects ``without``."""
        rows = await self.database.fetch_all(SQL["claim_to_send"], self.owner, self.lease_s, max_count, list(without))
        return [SendingAlert(**_with_objects(row, "target", "secrets")) for row in rows]

    async def messages(self, alert: SendingAlert, *, max_count: int) -> list[AlertMessage]:
        """Return the first messages that are not acknowledged, in their order."""
        rows = await self.database.fetch_all(SQL["messages_to_send"], alert.project_id, alert.id, max_count)
        return [AlertMessage(**_with_objects(row, "data")) for row in rows]

    async def sent(self, alert: SendingAlert, message: AlertMessage) -> bool:
        """Delete an acknowledged message and keep the lease; return whether it still held."""
        arguments = (*self._of(alert), message.number, self.lease_s)
        return await self.database.fetch_one(SQL["finish_message"], *arguments) is not None

    async def end(self, alert: SendingAlert, /) -> None:
        """Give the lease back."""
        await self.database.fetch_one(SQL["end_sending"], *self._of(alert))

    async def retry_later(
        self, alert: SendingAlert, *, attempts: int, since: datetime, retry_at: datetime, reason: str
    ) -> None:
        """Store that a try failed, and when the next one is."""
        await self.database.fetch_one(SQL["retry_later"], *self._of(alert), attempts, since, retry_at, reason)

    async def pause(self, alert: SendingAlert, *, reason: str) -> None:
        """Pause an alert whose messages cannot be delivered."""
        await self.database.fetch_one(SQL["pause_failed"], *self._of(alert), reason)

    async def release(self) -> None:
        """Give all leases of this process back, so that another one need not wait for their end."""
        await self.database.fetch_one(SQL["release_leases"], self.owner)

    async def counts(self) -> dict[str, int]:
        """Return how many alerts of all projects are active, retrying and paused."""
        return {row["state"]: row["number"] for row in await self.database.fetch_all(SQL["count_by_status"])}

    def _of(self, alert: SendingAlert) -> tuple[UUID, UUID, UUID, int]:
        return alert.project_id, alert.id, self.owner, alert.changes_count


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
