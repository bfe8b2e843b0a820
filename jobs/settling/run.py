"""Runs of settling: which traces are complete and quiet, or have waited too long (contract §3.6, ADR 0049).

One process works at a time, under a lease. A run is bounded: it examines the next part of two windows, and the next run
goes on after it. ::

    positions ── what is new is the window of this run
    windows that are SETTLING_S old ── quiet? complete? ── settled, complete
    windows that are SETTLING_MAX_S old ── settled since? ── settled, incomplete
    finish in Postgres, with what was settled ── insert into ClickHouse ── the feed may show the run

A run that does not finish has changed nothing. One that finished and did not insert is inserted by the next run, so
readers see all traces of a run or none.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Final, NamedTuple

from common.clickhouse.settled_traces import (
    SETTLED_TRACES_TABLE,
    SettledTrace,
    SettlingReason,
    TraceName,
    pack_settled,
    settled_rows,
    unpack_settled,
)
from common.clickhouse.settling import (
    STATEMENT_S,
    Settlings,
    changed_traces,
    read_arrivals,
    settlings_of,
    visible_traces,
)
from common.clickhouse.store import ColumnStore
from common.clickhouse.stored_through import read_positions_of
from common.errors import DeadlineExceeded, OutOfMemory, ServiceError
from common.postgres.leases import Lease
from common.stored_position import ALL_PROJECTS
from common.telemetry import (
    SETTLING_BEHIND_SECONDS,
    SETTLING_INCOMPLETE_TRACES,
    SETTLING_RUN_SECONDS,
    TRACES_SETTLED,
    get_logger,
)
from common.times import Clock
from jobs.runner import JobRun
from jobs.settling.records import FinishedRun, SettlingRecords, SettlingState
from jobs.settling.windows import (
    Frontier,
    Range,
    Ranges,
    RecordPlace,
    StoredWindow,
    moved,
    part_of,
    parts_of,
    rest_of,
    together,
)
from query_api.freshness.settled import read_settling_progress

INTERVAL_S_MAX: Final = 3.0
INTERVAL_SHARE: Final = 0.1
"""The time from one run to the next, as a share of the time after which a trace is complete."""

ROWS_MAX: Final = 50_000
"""Arrivals that a run reads of a window: at most as many traces."""

ROWS_MIN: Final = 500
"""After a failure a run reads half as many, so that it does not fail again and again."""

TRACES_TOGETHER: Final = 5_000
"""Traces in one statement."""

REST: Final = 1.0
"""The rest after a run that has left something, in multiples of its duration."""

NEVER: Final = Settlings(0, 0, 0)

_log: Final = get_logger("clearspan.settling")


class SettlingTimes(NamedTuple):
    """After how many seconds a trace settles: without a change if it is complete, and otherwise."""

    complete_s: float
    incomplete_s: float

    @property
    def interval_s(self) -> float:
        """Seconds from one run to the next."""
        return min(self.complete_s * INTERVAL_SHARE, INTERVAL_S_MAX)


@dataclass(slots=True)
class Examined:
    """What a run has found so far in windows, and how far it is."""

    frontier: Frontier
    rows_left: int
    """Arrivals that it may still read."""

    settled: dict[TraceName, SettledTrace] = field(default_factory=dict)
    incomplete: dict[int, int] = field(default_factory=dict)
    """How many traces were quiet and not complete, by window."""


class Run(NamedTuple):
    """A run under way. ``clock_us`` is that before anything was read, ``time_us`` the time at it."""

    number: int
    clock_us: int
    time_us: int
    ranges: dict[str, Range]
    """What is new since the run before."""


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
        complete = await self._examine_quiet(run, state.complete)
        incomplete = await self._examine_old(run, state.incomplete, complete)
        settled = [*complete.settled.values(), *incomplete.settled.values()]
        noted_us = max(await self.now_us(), clock_us)
        after = SettlingState(
            run.number,
            state.time_at(noted_us),
            noted_us,
            positions,
            pack_settled(settled) if settled else None,
            complete.frontier,
            incomplete.frontier,
        )
        is_moved = (complete.frontier, incomplete.frontier) != (state.complete, state.incomplete)
        if is_moved or positions != state.positions or state.clock_us is None or clock_us < state.clock_us:
            await self.records.finish(lease, FinishedRun(after, run.ranges, complete.incomplete))
            TRACES_SETTLED.labels(SettlingReason.COMPLETE).inc(len(complete.settled))
            TRACES_SETTLED.labels(SettlingReason.INCOMPLETE).inc(len(incomplete.settled))
            if after.pending is not None:
                await self._insert(lease, after.run, after.pending)
        return min(complete.rows_left, incomplete.rows_left) <= 0

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

    async def _examine_quiet(self, run: Run, frontier: Frontier) -> Examined:
        """Settle what is complete in the next windows after which traces may be quiet."""
        until_us = run.time_us - round(self.times.complete_s * 1e6)
        examined = Examined(frontier, self._rows)
        window = await self.records.next_window(frontier.run, until_us=until_us)
        if window is None:
            return examined
        later = together([*(each.ranges for each in await self.records.windows_since(until_us)), run.ranges])
        while window is not None and examined.rows_left > 0:
            traces = await self._next_part(examined, window)
            await self._settle_quiet(
                run, window, [name for name in traces if name not in examined.settled], later, examined
            )
            window = await self.records.next_window(examined.frontier.run, until_us=until_us)
        return examined

    async def _settle_quiet(
        self, run: Run, window: StoredWindow, traces: Sequence[TraceName], later: Ranges, examined: Examined
    ) -> None:
        """Settle those traces of a window that are complete and do not change in ``later``."""
        changed: set[TraceName] = set()
        for ranges in parts_of(later):
            changed |= await changed_traces(self.store, ranges, traces)
        visible = await self._visible([name for name in traces if name not in changed])
        complete = [name for name, is_complete in visible.items() if is_complete]
        known = await self._known(complete)
        for name in complete:
            if known.get(name, NEVER).complete_run < window.run:
                examined.settled[name] = _settled(name, run, known, SettlingReason.COMPLETE)
        if len(visible) > len(complete):
            before = examined.incomplete.get(window.run, 0)
            examined.incomplete[window.run] = before + len(visible) - len(complete)

    async def _examine_old(self, run: Run, frontier: Frontier, complete: Examined) -> Examined:
        """Settle what has not settled since the next windows that are old, although it may change again."""
        until_us = run.time_us - round(self.times.incomplete_s * 1e6)
        examined = Examined(frontier, self._rows)
        while examined.rows_left > 0:
            window = await self.records.next_window(examined.frontier.run, until_us=until_us)
            if window is None or window.run > complete.frontier.run:
                break
            traces = await self._next_part(examined, window)
            known = await self._known(traces)
            waiting = [
                name
                for name in traces
                if name not in complete.settled
                and name not in examined.settled
                and known.get(name, NEVER).last_run < window.run
            ]
            for name in await self._visible(waiting):
                examined.settled[name] = _settled(name, run, known, SettlingReason.INCOMPLETE)
        return examined

    async def _next_part(self, examined: Examined, window: StoredWindow) -> list[TraceName]:
        """Return the traces of the next part of a window, and move the frontier after it."""
        frontier = examined.frontier
        ranges = window.ranges if frontier.rest is None else frontier.rest
        part = part_of(ranges, offsets_max=self._rows)
        read = await read_arrivals(self.store, part, rows_max=examined.rows_left)
        rest = rest_of(ranges, part, None if read.last is None else RecordPlace(*read.last))
        examined.frontier = Frontier(frontier.run, rest) if rest else Frontier(window.run)
        examined.rows_left -= max(read.arrivals_count, 1)
        return read.traces

    async def _visible(self, traces: Sequence[TraceName]) -> dict[TraceName, bool]:
        found: dict[TraceName, bool] = {}
        for some in _parts(traces):
            found |= await self._visible_together(some)
        return found

    async def _visible_together(self, traces: Sequence[TraceName]) -> dict[TraceName, bool]:
        """Return which traces are visible, and which of these complete. One that is too large to be judged is not
        complete: it must not stop all others.
        """
        try:
            visible = await visible_traces(self.store, traces)
        except (DeadlineExceeded, OutOfMemory) as error:
            if len(traces) == 1:
                _log.warning(
                    "A trace is too large to be judged.", trace_id=traces[0].trace_id.hex(), error=error.detail
                )
                return {traces[0]: False}
            middle = len(traces) // 2
            return {
                **await self._visible_together(traces[:middle]),
                **await self._visible_together(traces[middle:]),
            }
        return {name: visible[name] for name in traces if name in visible}

    async def _known(self, traces: Sequence[TraceName]) -> dict[TraceName, Settlings]:
        found: dict[TraceName, Settlings] = {}
        for some in _parts(traces):
            found |= await settlings_of(self.store, some)
        return found


def _parts(traces: Sequence[TraceName]) -> Iterator[Sequence[TraceName]]:
    return (traces[first : first + TRACES_TOGETHER] for first in range(0, len(traces), TRACES_TOGETHER))


def _settled(name: TraceName, run: Run, known: dict[TraceName, Settlings], reason: SettlingReason) -> SettledTrace:
    generation = known.get(name, NEVER).generation + 1
    return SettledTrace(name, run.number, generation, run.clock_us, reason)
