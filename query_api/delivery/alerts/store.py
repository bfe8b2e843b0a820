"""The table of alerts, as users see and change it, and the groups that are in breach."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime
from pathlib import Path
from typing import Any, Final, NamedTuple
from uuid import UUID

import orjson

from common.named_sql import load_named_sql
from common.postgres.leases import Kind
from query_api.delivery.stored import DEFAULT, NOT_FAILING, ResourceTable, Rows

_SQL: Final = load_named_sql(Path(__file__).with_name("queries.sql"))


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


class StoredBreach(NamedTuple):
    """A group that is in breach."""

    by: Mapping[str, Any]
    value: float
    since: datetime


ALERTS: Final = ResourceTable(
    "alerts",
    make=StoredAlert,
    columns=StoredAlert._fields,
    json_columns=frozenset({"definition", "selection", "target"}),
    kinds=(Kind.ALERT, Kind.MESSAGES),
    limit="CLEARSPAN_DELIVERY__ALERTS_MAX",
    on_resume={"next_at": DEFAULT},
    on_change=NOT_FAILING,
)


async def breaches_counts(alerts: Rows[StoredAlert]) -> dict[UUID, int]:
    """Return how many groups of each alert are in breach; alerts without any are absent."""
    rows = await alerts.database.fetch_all(_SQL["count_breaches"], alerts.project_id)
    return {row["alert_id"]: row["number"] for row in rows}


async def breaches_of(alerts: Rows[StoredAlert], id_: UUID, /, *, max_count: int) -> list[StoredBreach]:
    """Return groups of an alert that are in breach, the oldest first."""
    rows = await alerts.database.fetch_all(_SQL["list_breaches"], alerts.project_id, id_, max_count)
    return [StoredBreach(orjson.loads(row["by"]), row["value"], row["since"]) for row in rows]


async def drop_message(alerts: Rows[StoredAlert], id_: UUID, /) -> StoredAlert | None:
    """Drop the first waiting message; ``None`` if there is none."""
    columns = ", ".join(f"alerts.{name}" for name in StoredAlert._fields)
    return await alerts.execute(_SQL["drop_message"].replace("{columns}", columns), id_)
