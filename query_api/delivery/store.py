"""The table of subscriptions, as users see and change it."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime
from typing import Final, NamedTuple
from uuid import UUID

from common.postgres.leases import Kind
from query_api.delivery.stored import NOT_FAILING, JsonObject, ResourceTable, Values, Verbatim

NO_BATCH: Final[Values] = {"pending": None, "pending_revision": None, "pending_expired": 0, **NOT_FAILING}
"""The batch that is being delivered is given up: the next one has a new number."""

PASSED_BATCH: Final[Values] = {
    **NO_BATCH,
    "position": Verbatim("pending"),
    "expired_spans": Verbatim("expired_spans + pending_expired"),
    "expired_at": Verbatim("CASE WHEN pending_expired > 0 THEN clock_timestamp() ELSE expired_at END"),
}
"""The position is after the batch that is being delivered."""


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


SUBSCRIPTIONS: Final = ResourceTable(
    "subscriptions",
    make=Subscription,
    columns=Subscription._fields,
    json_columns=frozenset({"selection", "target", "skipped"}),
    kinds=(Kind.SUBSCRIPTION,),
    limit="CLEARSPAN_DELIVERY__SUBSCRIPTIONS_MAX",
    on_resume=NOT_FAILING,
    on_change={},
)


def batch_id_of(subscription_id: UUID, number: int) -> str:
    """Return the id of a batch: the same on every retry (ADR 0018)."""
    return f"msg_{subscription_id.hex}_{number}"
