"""What has been stored about spans that are not stored: it waits for them (contract §3.6)."""

from __future__ import annotations

from typing import Final, NamedTuple
from uuid import UUID

from common.clickhouse.engines import SQL
from common.clickhouse.store import ColumnStore, Statement
from common.ids import SHOWN_SPAN_ID_SQL

PROJECTS_MAX: Final = 1_000
"""How many projects are read, those with the most first."""


class WaitingEvents(NamedTuple):
    """What waits in one project: events of log records, evaluations and verdicts of annotations, and the oldest."""

    project_id: UUID
    events_count: int
    evaluations_count: int
    verdicts_count: int
    oldest_us: int


async def read_waiting(store: ColumnStore, *, deadline_s: float) -> list[WaitingEvents]:
    """Return what waits in each project. Raises the errors of ``ColumnStore``."""
    sql = SQL["waiting_events"].replace("{shown_span_id}", SHOWN_SPAN_ID_SQL)
    rows = await store.select(Statement(sql, {"projects_max": PROJECTS_MAX}), deadline_s=deadline_s)
    columns = (rows.column(name).to_pylist() for name in WaitingEvents._fields[1:])
    projects = (UUID(project.decode()) for project in rows.column("project").to_pylist())
    return [WaitingEvents(*row) for row in zip(projects, *columns, strict=True)]
