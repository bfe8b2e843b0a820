"""What the processes that evaluate and send read and write of an alert, while they hold a lease of it (ADR 0018)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from typing import Any, Final, NamedTuple
from uuid import UUID

import orjson

from common.named_sql import load_named_sql
from common.postgres.leases import Kind, Lease, LeaseLost, Leases, wake
from common.postgres.pool import Row
from jobs.failures import Failing

_TEXTS: Final = load_named_sql(Path(__file__).with_name("queries.sql"))
_SQL: Final = {name: text.replace("{next_at}", _TEXTS["next_at"]) for name, text in _TEXTS.items()}


class DueAlert(NamedTuple):
    """An alert to evaluate."""

    slug: str
    definition: Mapping[str, Any]
    selection: Mapping[str, Any]
    next_at: datetime
    waiting_count: int


class SendingAlert(NamedTuple):
    """An alert whose messages are sent."""

    slug: str
    target: Mapping[str, Any]
    secrets: Mapping[str, Any]
    failing: Failing


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
class LeasedAlerts:
    """Alerts of which this process holds a lease. Writes raise ``LeaseLost``, and the errors of ``Database``."""

    leases: Leases

    async def due(self, lease: Lease) -> DueAlert | None:
        """Return the alert to evaluate; ``None`` if it is paused or deleted."""
        row = await self._row("due_alert", lease)
        return None if row is None else DueAlert(**_with_objects(row, "definition", "selection"))

    async def breaches(self, lease: Lease) -> dict[bytes, tuple[Mapping[str, Any], datetime]]:
        """Return the groups in breach: by their keys their values, and since when."""
        rows = await self.leases.database.fetch_all(_SQL["breaches_of"], lease.project_id, lease.id)
        return {row["key"]: (orjson.loads(row["by"]), row["since"]) for row in rows}

    async def finish(
        self, lease: Lease, change: BreachChange, *, at: datetime, groups_count: int, left_out_count: int
    ) -> datetime:
        """Store an evaluation with its messages; return the time of the next one."""
        key = (lease.project_id, lease.id)
        async with self.leases.holding(lease) as transaction:
            if change.messages:
                await wake(transaction, Kind.MESSAGES, lease.id)
            counts = (groups_count, left_out_count, len(change.messages))
            row = await transaction.fetch_one(_SQL["finish_evaluation"], *key, at, *counts)
            if row is None:
                raise LeaseLost
            if change.breaching:
                keys, by, values = zip(*change.breaching, strict=True)
                texts = list(map(_dumped, by))
                await transaction.fetch_one(_SQL["add_breaches"], *key, list(keys), texts, list(values), at)
            if change.ended:
                await transaction.fetch_one(_SQL["remove_breaches"], *key, list(change.ended))
            if change.messages:
                kinds, contents = zip(*change.messages, strict=True)
                texts = list(map(_dumped, contents))
                await transaction.fetch_one(_SQL["add_messages"], *key, row["before_number"], list(kinds), texts, at)
        next_at: datetime = row["next_at"]
        return next_at

    async def fail(self, lease: Lease, *, reason: str) -> datetime:
        """Store that an evaluation failed; return the time of the next one, which is the usual one."""
        async with self.leases.holding(lease) as transaction:
            row = await transaction.fetch_one(_SQL["fail_evaluation"], lease.project_id, lease.id, reason)
        if row is None:
            raise LeaseLost
        next_at: datetime = row["next_at"]
        return next_at

    async def sending(self, lease: Lease) -> SendingAlert | None:
        """Return the alert whose messages are to be sent; ``None`` if it is paused or deleted."""
        row = await self._row("alert_with_messages", lease)
        if row is None:
            return None
        failing = Failing(row["attempts"], row["failing_since"], row["retry_at"])
        return SendingAlert(row["slug"], orjson.loads(row["target"]), orjson.loads(row["secrets"]), failing)

    async def messages(self, lease: Lease, *, max_count: int) -> list[AlertMessage]:
        """Return the first messages that are not acknowledged, in their order."""
        rows = await self.leases.database.fetch_all(_SQL["messages_to_send"], lease.project_id, lease.id, max_count)
        return [AlertMessage(**_with_objects(row, "data")) for row in rows]

    async def delete_message(self, lease: Lease, message: AlertMessage) -> None:
        """Delete an acknowledged message."""
        async with self.leases.holding(lease) as transaction:
            await transaction.fetch_all(_SQL["count_delivered"], lease.project_id, lease.id)
            await transaction.fetch_all(_SQL["delete_message"], lease.project_id, lease.id, message.number)

    async def _row(self, statement: str, lease: Lease) -> Row | None:
        return await self.leases.database.fetch_one(_SQL[statement], lease.project_id, lease.id)


def _with_objects(row: Row, *names: str) -> dict[str, Any]:
    return {**row, **{name: orjson.loads(row[name]) for name in names}}


def _dumped(value: Mapping[str, Any]) -> str:
    return orjson.dumps(value).decode()
