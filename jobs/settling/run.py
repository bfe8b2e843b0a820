"""Runs of settling: which traces are complete and quiet, or have waited too long (contract §3.6, ADR 0049).

One process works at a time, under a lease. A run is bounded: it examines the next parts of windows, and the next run
goes on after them. ::

    positions ── what is new is the window of this run
    windows that are SETTLING_S old ── quiet? complete? ── settled, complete
    windows that are SETTLING_MAX_S old ── settled since? ── settled, incomplete
    finish in Postgres, with what was settled ── insert into ClickHouse ── the feed may show the run

A run that does not finish has changed nothing. One that finished and did not insert is inserted by the next run, so
readers see all traces of a run or none.
"""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field
from typing import Final, NamedTuple

from common.clickhouse.settled_traces import (
    SETTLED_TRACES_TABLE,
    SettlingReason,
    TraceName,
    pack_settled,
    settled_rows,
    unpack_settled,
)
from common.clickhouse.settling import STATEMENT_S
from common.clickhouse.store import ColumnStore
from common.clickhouse.stored_through import read_positions_of
from common.errors import ServiceError
from common.postgres.leases import Lease
from common.stored_position import ALL_PROJECTS
from common.telemetry import (
    SETTLING_BEHIND_SECONDS,
    SETTLING_INCOMPLETE_TRACES,
    SETTLING_RUN_SECONDS,
    TRACES_SETTLED,
)
from common.times import Clock
from jobs.runner import JobRun
from jobs.settling.examining import Examination, Look, Run
from jobs.settling.frontiers import Allowance, Frontiers, allowance_of
from jobs.settling.judging import Judge
from jobs.settling.records import FinishedRun, SettlingRecords, SettlingState
from jobs.settling.windows import moved, together
from query_api.freshness.settled import read_settling_progress

INTERVAL_S_MAX: Final = 3.0
INTERVAL_SHARE: Final = 0.1
"""The time from one run to the next, as a share of the time after which a trace is complete."""

ROWS_MAX: Final = 50_000
"""Arrivals that a run reads in each look: at most as many traces."""

ROWS_MIN: Final = 500
"""After a failure a run reads half as many, so that it does not fail again and again."""

REST: Final = 1.0
"""The rest after a run that has left something, in multiples of its duration."""


class SettlingTimes(NamedTuple):
    """After how many seconds a trace settles: without a change if it is complete, and otherwise."""

    complete_s: float
    incomplete_s: float

    @property
    def interval_s(self) -> float:
        """Seconds from one run to the next."""
        return min(self.complete_s * INTERVAL_SHARE, INTERVAL_S_MAX)


@dataclass(slots=True)
class Settling:
    """The runs of one process."""

    store: ColumnStore
    records: SettlingRecords
    times: SettlingTimes
    clock: Clock
    now_us: Callable[[], Awaitable[int]]
    """Returns the clock of the runs."""

    rows_max: int = ROWS_MAX
    _rows: int = field(default=ROWS_MAX, init=False)
    _failures: Counter[TraceName] = field(default_factory=Counter, init=False)

    async def work(self, run: JobRun) -> None:
        """Do runs until the process stops or the lease is lost. Raises ``LeaseLost`` and the errors of the stores."""
        self._rows = min(self._rows, self.rows_max)
        while not run.stopping.is_set():
            began_s = self.clock.monotonic_s()
            try:
                with SETTLING_RUN_SECONDS.time():
                    is_behind = await self.step(run.lease)
                await self._report()
            except ServiceError:
                self._rows = max(self._rows // 2, ROWS_MIN)
                raise
            self._rows = min(self._rows * 2, self.rows_max)
            rest_s = (self.clock.monotonic_s() - began_s) * REST if is_behind else self.times.interval_s
            await asyncio.sleep(rest_s)

    async def step(self, lease: Lease) -> bool:
        """Do one run; return whether it has left something that is due."""
        state = await self.records.load()
        if state.pending is not None:
            await self._insert(lease, state.run, state.pending)
        clock_us = await self.now_us()
        stored = await read_positions_of(self.store, ALL_PROJECTS, deadline_s=STATEMENT_S)
        positions = {position.partition_id: position.through_offset for position in stored}
        run = Run(state.run + 1, clock_us, state.time_at(clock_us), moved(state.positions, positions))
        examination = Examination(self.store, self.records, run, self._rows, Judge(self.store, self._failures))
        complete, is_complete_left = await self._look_for_complete(examination, state.complete)
        incomplete, is_incomplete_left = await self._look_for_old(examination, state.incomplete, complete)
        is_moved = (complete, incomplete) != (state.complete, state.incomplete)
        if is_moved or positions != state.positions or state.clock_us is None or clock_us < state.clock_us:
            await self._finish(lease, state, examination, positions, complete, incomplete)
        return is_moved and (is_complete_left or is_incomplete_left)

    async def _look_for_complete(self, examination: Examination, frontiers: Frontiers) -> tuple[Frontiers, bool]:
        """Examine the windows after which traces may be quiet; return how far, and whether something is left."""
        run = examination.run
        until_us = run.time_us - round(self.times.complete_s * 1e6)
        later = together([*(each.ranges for each in await self.records.windows_since(until_us)), run.ranges])
        look = Look(SettlingReason.COMPLETE, until_us, later, None)
        allowance = allowance_of(self._rows)
        frontiers = await examination.examine(look, frontiers, allowance)
        return frontiers, _is_left(frontiers, allowance)

    async def _look_for_old(
        self, examination: Examination, frontiers: Frontiers, complete: Frontiers
    ) -> tuple[Frontiers, bool]:
        """Examine windows again that are old: what has not settled since settles, although it may change again."""
        until_us = examination.run.time_us - round(self.times.incomplete_s * 1e6)
        look = Look(SettlingReason.INCOMPLETE, until_us, {}, complete)
        allowance = allowance_of(self._rows)
        frontiers = await examination.examine(look, frontiers, allowance)
        return frontiers, _is_left(frontiers, allowance)

    async def _finish(
        self,
        lease: Lease,
        state: SettlingState,
        examination: Examination,
        positions: dict[str, int],
        complete: Frontiers,
        incomplete: Frontiers,
    ) -> None:
        run, settled = examination.run, [*examination.settled.values()]
        noted_us = max(await self.now_us(), run.clock_us)
        pending = pack_settled(settled) if settled else None
        after = SettlingState(
            run.number, state.time_at(noted_us), noted_us, positions, pending, complete, incomplete
        )  # fmt: skip
        await self.records.finish(lease, FinishedRun(after, run.ranges, examination.incomplete))
        for reason, count in Counter(trace.reason for trace in settled).items():
            TRACES_SETTLED.labels(reason).inc(count)
        if pending is not None:
            await self._insert(lease, after.run, pending)

    async def _report(self) -> None:
        progress = await read_settling_progress(self.records.leases.database)
        SETTLING_BEHIND_SECONDS.set(progress.behind_s(self.times.complete_s))
        SETTLING_INCOMPLETE_TRACES.set(progress.incomplete_count)

    async def _insert(self, lease: Lease, run: int, pending: bytes) -> None:
        """Insert what a finished run has settled. Again and again it is the same rows."""
        rows = settled_rows(unpack_settled(pending))
        token = f"settled/{run}"
        await self.store.insert(SETTLED_TRACES_TABLE, rows, dedup_token=token, deadline_s=STATEMENT_S)
        await self.records.mark_inserted(lease, run)


def _is_left(frontiers: Frontiers, allowance: Allowance) -> bool:
    return allowance.is_used_up or bool(frontiers.own)
