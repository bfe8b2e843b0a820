"""What the process that delivers reads and writes of a subscription, while it holds the lease (ADR 0018)."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from typing import Any, Final, NamedTuple
from uuid import UUID

import orjson

from common.named_sql import load_named_sql
from common.postgres.leases import Lease, LeaseLost, Leases
from common.postgres.pool import Row
from query_api.delivery.targets.target import RejectedSpans

_SQL: Final = load_named_sql(Path(__file__).with_name("queries.sql"))


class LeasedSubscription(NamedTuple):
    """What is needed to deliver. ``pending`` is the position after the batch that is being delivered."""

    slug: str
    feed: str
    selection: Mapping[str, Any]
    target: Mapping[str, Any]
    secrets: Mapping[str, Any]
    position: bytes
    through_at: datetime
    batch_number: int
    pending: bytes | None
    pending_revision: UUID | None
    attempts: int
    failing_since: datetime | None
    retry_at: datetime | None


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


@dataclass(frozen=True, slots=True)
class LeasedSubscriptions:
    """Subscriptions whose leases this process holds. Writes raise ``LeaseLost``, and the errors of ``Database``."""

    leases: Leases

    async def load(self, lease: Lease, /) -> LeasedSubscription | None:
        """Return the subscription as it is now; ``None`` if it is paused or deleted."""
        row = await self.leases.database.fetch_one(_SQL["load"], lease.project_id, lease.id)
        if row is None:
            return None
        objects = {name: orjson.loads(row[name]) for name in ("selection", "target", "secrets")}
        return LeasedSubscription(**{**row, **objects})

    async def advance(self, lease: Lease, position: bytes, through_at: datetime, *, expired_count: int) -> None:
        """Store a position after spans that do not match or have expired."""
        await self._write("advance", lease, position, through_at, expired_count)

    async def begin(self, lease: Lease, new: NewBatch, /) -> int:
        """Store the borders of a batch before it is delivered, and return its number."""
        row = await self._write("begin_batch", lease, *new)
        return int(row["batch_number"])

    async def end(
        self,
        lease: Lease,
        *,
        through_at: datetime,
        spans_count: int,
        expired_count: int,
        rejected: RejectedSpans | None = None,
    ) -> None:
        """Store that the batch is acknowledged, what expired before, and what the target rejected."""
        count, reason = (0, None) if rejected is None else (rejected.count, rejected.reason.replace("\0", ""))
        await self._write("end_batch", lease, through_at, spans_count, count, reason, expired_count)

    async def _write(self, statement: str, lease: Lease, *values: object) -> Row:
        async with self.leases.holding(lease) as transaction:
            row = await transaction.fetch_one(_SQL[statement], lease.project_id, lease.id, *values)
        if row is None:  # an earlier write took effect, and its answer was lost
            raise LeaseLost
        return row
