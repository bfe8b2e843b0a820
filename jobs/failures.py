"""What is recorded when a target does not take what is delivered: the next try, or why a user must look at it.

Subscriptions and alerts have the same columns for it, each in its own table.
"""

from __future__ import annotations

import random
from datetime import datetime, timedelta
from pathlib import Path
from typing import Final, NamedTuple

from common.named_sql import load_named_sql
from common.postgres.leases import Kind, Lease, Leases
from common.postgres.pool import Database
from common.settings import DeliverySettings
from common.telemetry import get_logger
from query_api.delivery.targets.target import TargetUnavailable

RETRY_S: Final = 1.0
JITTER: Final = 0.2
TABLES: Final = {Kind.SUBSCRIPTION: "subscriptions", Kind.ALERT: "alerts", Kind.MESSAGES: "alerts"}

_SQL: Final = load_named_sql(Path(__file__).with_name("failures.sql"))
_log: Final = get_logger(__name__)


class Failing(NamedTuple):
    """The tries that have failed since the last one that succeeded, and when the next one is."""

    attempts: int = 0
    since: datetime | None = None
    retry_at: datetime | None = None


def after_failure(
    failing: Failing, failure: TargetUnavailable, now: datetime, *, settings: DeliverySettings
) -> Failing | None:
    """Return when to try again after one more failure; ``None`` if it has failed for long enough."""
    attempts, since = failing.attempts + 1, failing.since or now
    if (now - since).total_seconds() >= settings.retry_for_s:
        return None
    delay_s = max(retry_delay_s(attempts, max_s=settings.retry_delay_max_s), failure.retry_after_s or 0.0)
    return Failing(attempts, since, now + timedelta(seconds=delay_s))


def retry_delay_s(attempts: int, *, max_s: float) -> float:
    """Return the pause after this number of failed tries, in seconds: twice as long each time, with some jitter."""
    doubled_s = RETRY_S * 2.0 ** min(attempts - 1, 30)
    return min(doubled_s, max_s) * random.uniform(1 - JITTER, 1 + JITTER)  # noqa: S311 - not a secret


async def retry_or_pause(
    leases: Leases,
    lease: Lease,
    failing: Failing,
    failure: TargetUnavailable,
    now: datetime,
    *,
    settings: DeliverySettings,
) -> Failing | None:
    """Record a failed try and return the next one; pause and return ``None`` if it has failed for long enough.

    Raises ``LeaseLost``.
    """
    later = after_failure(failing, failure, now, settings=settings)
    if later is None:
        await pause(leases, lease, f"{failure.reason} This was tried for {settings.retry_for_s / 3600:g} h.")
        return None
    async with leases.holding(lease) as transaction:
        await transaction.fetch_all(
            _sql("record_retry", lease.kind), lease.project_id, lease.id, *later, failure.reason
        )
    return later


async def pause(leases: Leases, lease: Lease, reason: str) -> None:
    """Pause a subscription or an alert that cannot be delivered. Raises ``LeaseLost``."""
    _log.warning("A delivery was paused.", kind=lease.kind, id=str(lease.id), reason=reason)
    async with leases.holding(lease) as transaction:
        await transaction.fetch_all(_sql("pause", lease.kind), lease.project_id, lease.id, reason)


async def counts_by_state(database: Database, kind: Kind) -> dict[str, int]:
    """Return how many subscriptions or alerts of all projects are active, retrying and paused."""
    return {row["state"]: row["number"] for row in await database.fetch_all(_sql("count_by_status", kind))}


def _sql(name: str, kind: Kind) -> str:
    return _SQL[name].replace("{table}", TABLES[kind])
