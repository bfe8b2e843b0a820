"""The rules of projects, and what runs have deleted, in Postgres."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any, Final, NamedTuple
from uuid import UUID

from common.errors import Unavailable
from common.named_sql import load_named_sql
from common.postgres.leases import RETENTION_ID, Kind, Schedule, schedule_of, wake
from common.postgres.pool import Database

POSTGRES_SQL: Final = load_named_sql(Path(__file__).with_name("queries.sql"))


class KeepRules(NamedTuple):
    """What a project keeps. A rule that is ``None`` does not apply."""

    max_age_days: float | None = None
    max_bytes: int | None = None
    updated_at: datetime | None = None


NO_RULES: Final = KeepRules()


class RunResult(NamedTuple):
    """What the last run has deleted of a project, and all runs together. ``ended_at`` is ``None`` while it runs."""

    started_at: datetime
    ended_at: datetime | None
    failure: str | None
    traces_count: int
    spans_count: int
    bytes_count: int
    traces_total: int
    spans_total: int
    bytes_total: int


class ToFree(NamedTuple):
    """A project of which rows may be dead. ``is_due``: the last check that found none is long ago."""

    project_id: UUID
    before_us: int
    is_due: bool


class RetentionRecords:
    """The tables of retention."""

    def __init__(self, database: Database) -> None:
        self._database = database

    async def find_rules(self, project_id: UUID, /) -> KeepRules | None:
        """Return the rules of a project, ``None`` if it has none."""
        row = await self._database.fetch_one(POSTGRES_SQL["find_rules"], project_id)
        return None if row is None else KeepRules(**row)

    async def set_rules(self, project_id: UUID, rules: KeepRules, /, *, user_id: UUID) -> None:
        """Replace the rules of a project."""
        values = (project_id, rules.max_age_days, rules.max_bytes, user_id)
        await self._database.fetch_all(POSTGRES_SQL["set_rules"], *values)

    async def remove_rules(self, project_id: UUID, /) -> None:
        """Remove the rules of a project: it keeps everything from now on."""
        await self._database.fetch_all(POSTGRES_SQL["remove_rules"], project_id)

    async def projects_with_rules(self) -> dict[UUID, KeepRules]:
        """Return the rules of all projects, in the order in which a run should take them."""
        rows = await self._database.fetch_all(POSTGRES_SQL["projects_with_rules"])
        return {row["project_id"]: KeepRules(row["max_age_days"], row["max_bytes"], row["updated_at"]) for row in rows}

    async def find_result(self, project_id: UUID, /) -> RunResult | None:
        """Return what runs have deleted of a project, ``None`` before the first one."""
        row = await self._database.fetch_one(POSTGRES_SQL["find_result"], project_id)
        return None if row is None else RunResult(**{name: row[name] for name in RunResult._fields})

    async def begin_result(self, project_id: UUID, /) -> None:
        """Record that a run begins with a project."""
        await self._database.fetch_all(POSTGRES_SQL["begin_result"], project_id)

    async def raise_before(self, project_id: UUID, before_us: int, /) -> None:
        """Record that a run is about to delete traces that end before a time."""
        await self._database.fetch_all(POSTGRES_SQL["raise_before"], project_id, before_us)

    async def add_to_result(self, project_id: UUID, /, *, traces: int, spans: int, bytes_: int) -> None:
        """Record what a step of the run has deleted."""
        await self._database.fetch_all(POSTGRES_SQL["add_to_result"], project_id, traces, spans, bytes_)

    async def end_result(self, project_id: UUID, /, *, failure: str | None = None) -> None:
        """Record that the run is done with a project, or why it is not."""
        await self._database.fetch_all(POSTGRES_SQL["end_result"], project_id, failure)

    async def to_free(self, *, is_due_after: timedelta) -> list[ToFree]:
        """Return the projects of which runs have deleted something."""
        rows = await self._database.fetch_all(POSTGRES_SQL["results_to_free"], is_due_after)
        return [ToFree(**row) for row in rows]

    async def mark_freed(self, project_id: UUID, /) -> None:
        """Record that a check has found no row to free."""
        await self._database.fetch_all(POSTGRES_SQL["mark_freed"], project_id)

    async def find_schedule(self) -> Schedule:
        """Return when the next run begins. Raises ``Unavailable`` if nothing says it."""
        schedule = await schedule_of(self._database, Kind.RETENTION, RETENTION_ID)
        if schedule is None:
            raise Unavailable("The lease of retention is missing.")
        return schedule

    async def run_within(self, delay_s: float, /) -> None:
        """Let the next run begin after ``delay_s`` seconds, unless it begins earlier anyway."""
        await wake(self._database, Kind.RETENTION, RETENTION_ID, within_s=delay_s)

    async def deleted_projects(self, *, is_final_after: timedelta) -> Mapping[UUID, bool]:
        """Return the deleted projects that may have rows, and whether no worker can store more of them."""
        rows: list[Mapping[str, Any]] = await self._database.fetch_all(POSTGRES_SQL["deleted_projects"], is_final_after)
        return {row["id"]: row["is_final"] for row in rows}

    async def forget_deleted_project(self, project_id: UUID, /) -> None:
        """Record that a deleted project has no rows any more."""
        await self._database.fetch_all(POSTGRES_SQL["forget_deleted_project"], project_id)
