"""Runs of retention: delete what rules do not keep, free the disk space, remove the rows of deleted projects.

One process works at a time, under a lease. Every run continues from what is in the tables, so a process may die at any
moment.
"""

from __future__ import annotations

import asyncio
from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import timedelta
from itertools import product
from typing import Final
from uuid import UUID

from common.clickhouse.freeing import (
    TABLES,
    TABLES_OF_PROJECT,
    DeadPart,
    DeadRange,
    drop_dead_parts,
    find_dead,
    is_rewriting,
    rewrite_partitions,
)
from common.clickhouse.store import ColumnStore, Shard
from common.clickhouse.stored_through import read_positions_of
from common.errors import DeadlineExceeded, Overloaded, ServiceError
from common.limits import SpanLimits
from common.telemetry import RETENTION_FREED_ROWS, RETENTION_RUN_SECONDS, get_logger
from common.times import Clock
from jobs.retention.expire import LIMITS, STEP_S, Expiring, RetentionLimits
from jobs.runner import JobRun
from query_api.retention.rules import RetentionRecords

REWRITE_S: Final = 3_600.0
"""How long a run waits for the engine to rewrite a table; the rewrite goes on without it."""

PROJECT_S: Final = 600.0
"""Time of a run for one project; the next run continues with it after the others."""

FINAL_AFTER: Final = timedelta(hours=1)
"""After this time no worker stores spans of a deleted project: all have read that it does not exist."""

_log: Final = get_logger("clearspan.retention")


@dataclass(frozen=True, slots=True)
class Retention:
    """The runs of one process."""

    store: ColumnStore
    records: RetentionRecords
    clock: Clock
    interval_s: float
    limits: RetentionLimits = LIMITS
    ahead_us: int = SpanLimits().ahead_ns_max // 1_000
    """How much later than it was stored a span may start."""

    async def work(self, _run: JobRun) -> None:
        """Do a run; the next one begins ``interval_s`` after this one began."""
        await self.records.run_within(self.interval_s)
        with RETENTION_RUN_SECONDS.time():
            await self.run()

    async def run(self) -> None:
        """Delete what rules do not keep, and free what is deleted. A failure for one project does not stop others."""
        await self._remove_deleted_projects()
        for project_id, rules in (await self.records.projects_with_rules()).items():
            failure: str | None = None
            await self.records.begin_result(project_id)
            expiring = Expiring(self.store, self.records, self.clock, self.limits)
            try:
                async with asyncio.timeout(PROJECT_S):
                    deleted = await expiring.expire(project_id, rules)
                if deleted.spans_count:
                    _log.info("Deleted old traces.", project_id=str(project_id), spans=deleted.spans_count)
            except TimeoutError:
                failure = f"The run ended after {PROJECT_S:g} s; the next one continues."
            except ServiceError as error:
                failure = error.public_message
                _log.warning("Retention of a project failed.", project_id=str(project_id), error=error.detail)
            await self.records.end_result(project_id, failure=failure)
        await self.free()

    async def free(self) -> None:
        """Free the rows of deleted traces, in partitions where that is worth it or due."""
        ranges = [await self._range(*each) for each in await self.records.to_free(is_due_after=self.limits.due_after)]
        left: dict[UUID, int] = defaultdict(int)
        async with self.store.shards() as shards:
            for shard, table in product(shards, TABLES):
                for dead in await self._free_table(shard, table, ranges):
                    left[dead.project_id] += 1
        for dead in ranges:
            if not left[dead.project_id]:
                await self.records.mark_freed(dead.project_id)

    async def _range(self, project_id: UUID, before_us: int, is_due: bool) -> DeadRange:  # noqa: FBT001 - a row's field
        positions = await read_positions_of(self.store, project_id, deadline_s=STEP_S)
        through = {position.partition_id: position.through_offset for position in positions}
        return DeadRange(project_id, before_us, through, is_due, self.ahead_us)

    async def _free_table(self, shard: Shard, table: str, ranges: Sequence[DeadRange]) -> list[DeadRange]:
        """Free the dead rows of a table as far as that is worth it; return the ranges that still have some."""
        found = await self._find_dead(shard, table, ranges)
        freed = await drop_dead_parts(shard, table, found)
        if freed:
            found = await self._find_dead(shard, table, ranges)
        rewritten = await rewrite_partitions(shard, table, found)
        RETENTION_FREED_ROWS.labels(table).inc(freed + rewritten)
        if rewritten:
            await self._wait_for_rewrite(shard, table)
            found = await self._find_dead(shard, table, ranges)
        return [dead.range for dead in found]

    async def _find_dead(self, shard: Shard, table: str, ranges: Sequence[DeadRange]) -> list[DeadPart]:
        found: list[DeadPart] = []
        for dead in ranges:
            try:
                found += await find_dead(shard, table, dead)
            except (DeadlineExceeded, Overloaded) as error:  # of a very large project; others go on
                _log.warning("Cannot find the rows to free.", project_id=str(dead.project_id), error=error.detail)
        return found

    async def _remove_deleted_projects(self) -> None:
        """Remove the rows of deleted projects. A worker may store more for a moment, so a later run looks again."""
        deleted = await self.records.deleted_projects(is_final_after=FINAL_AFTER)
        ranges = [DeadRange(project_id, is_due=True) for project_id in deleted]
        left: set[UUID] = set()
        async with self.store.shards() as shards:
            for shard, table in product(shards, TABLES_OF_PROJECT):
                left |= {dead.project_id for dead in await self._free_table(shard, table, ranges)}
        for project_id, is_final in deleted.items():
            if is_final and project_id not in left:
                await self.records.forget_deleted_project(project_id)

    async def _wait_for_rewrite(self, shard: Shard, table: str) -> None:
        ends_s = self.clock.monotonic_s() + REWRITE_S
        while await is_rewriting(shard, table) and self.clock.monotonic_s() < ends_s:  # noqa: ASYNC110
            await asyncio.sleep(self.limits.rewrite_poll_s)
