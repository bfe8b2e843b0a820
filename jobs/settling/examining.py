"""The two looks at windows: which of their traces settle (contract §3.6, ADR 0049).

A look goes on from its frontiers, part by part. A part is some arrivals of a window::

    the first arrivals that are left ── due? ── complete? ── settled
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final, NamedTuple
from uuid import UUID

from common.clickhouse.settled_traces import SettledTrace, SettlingReason, TraceName
from common.clickhouse.settling import (
    ArrivedTrace,
    RecordPlace,
    Settlings,
    SomeProjects,
    changed_traces,
    read_arrivals,
    settlings_of,
)
from common.clickhouse.store import ColumnStore
from common.parts import parts_of
from jobs.settling.frontiers import Allowance, Frontier, Frontiers
from jobs.settling.judging import Judge
from jobs.settling.records import SettlingRecords
from jobs.settling.windows import Ranges, StoredWindow, part_of, ranges_in_parts, rest_of, without_rest

TRACES_TOGETHER: Final = 5_000
"""Traces in one statement."""

PART_ROWS: Final = 100
"""A part counts as at least as many arrivals: what its statements cost."""

NEVER: Final = Settlings(0, 0, 0)


class Run(NamedTuple):
    """A run under way. ``clock_us`` is that before anything was read, ``time_us`` the time at it."""

    number: int
    clock_us: int
    time_us: int
    ranges: Ranges
    """What is new since the run before."""


class Look(NamedTuple):
    """One of the two times that windows are examined."""

    reason: SettlingReason
    until_us: int
    """The time of the last window that is due."""

    later: Ranges
    """Traces that have arrivals there do not settle yet."""

    before: Frontiers | None
    """The frontiers of the other look, if it comes first."""

    def last_settling(self, known: Settlings) -> int:
        """Return the run after which a trace settles in this look only if it has changed."""
        return known.complete_run if self.reason is SettlingReason.COMPLETE else known.last_run

    def may_examine(self, project_id: UUID | None, window: StoredWindow) -> bool:
        """Return whether the other look has examined a window: for a project, or in common."""
        if self.before is None:
            return True
        frontier = self.before.common if project_id is None else self.before.of(project_id)
        return window.run <= frontier.run


@dataclass(slots=True)
class Examination:
    """What a run examines, and what it has found so far."""

    store: ColumnStore
    records: SettlingRecords
    run: Run
    rows_max: int
    judge: Judge
    settled: dict[TraceName, SettledTrace] = field(default_factory=dict)
    incomplete: dict[int, int] = field(default_factory=dict)
    """How many traces were quiet and not complete, by window."""

    async def examine(self, look: Look, frontiers: Frontiers, allowance: Allowance) -> Frontiers:
        """Examine the next parts of windows that are due; return the frontiers after them."""
        common = allowance.part(2) if frontiers.own else allowance
        frontiers = await self._examine_common(look, frontiers, common)
        if common is not allowance:
            allowance.count_part(common)
        if frontiers.own:
            frontiers = await self._examine_own(look, frontiers, allowance)
        return frontiers.joined().with_large(common.large_users() if common.is_used_up else ())

    async def _examine_common(self, look: Look, frontiers: Frontiers, allowance: Allowance) -> Frontiers:
        while not allowance.is_used_up:
            window = await self.records.next_window(frontiers.common.run, until_us=look.until_us)
            if window is None or not look.may_examine(None, window):
                break
            if look.before is not None:
                frontiers = frontiers.with_own(look.before.behind(window.run))
            projects = SomeProjects(frontiers.own.keys(), are_left_out=True)
            ranges = _ranges(frontiers.common, window)
            frontier = await self._examine_part(look, window, frontiers.common, projects, ranges, allowance)
            frontiers = frontiers._replace(common=frontier)
        return frontiers

    async def _examine_own(self, look: Look, frontiers: Frontiers, allowance: Allowance) -> Frontiers:
        """Go on with each project that is behind; another one comes first in each run."""
        first = self.run.number % len(frontiers.own)
        behind = sorted(frontiers.own)
        for index, project_id in enumerate([*behind[first:], *behind[:first]]):
            if allowance.is_used_up:
                break
            part = allowance.part(len(behind) - index)
            frontier = await self._examine_project(look, frontiers, project_id, part)
            frontiers = frontiers.with_one(project_id, frontier)
            allowance.count_part(part)
        return frontiers

    async def _examine_project(
        self, look: Look, frontiers: Frontiers, project_id: UUID, allowance: Allowance
    ) -> Frontier:
        """Examine windows for one project, at most as far as the common frontier."""
        common, frontier = frontiers.common, frontiers.own[project_id]
        while frontier != common and not allowance.is_used_up:
            window = await self.records.next_window(frontier.run, until_us=look.until_us)
            if window is None or not look.may_examine(project_id, window):
                break
            rest = common.rest or {} if window.run > common.run else {}
            ranges = without_rest(_ranges(frontier, window), rest)
            projects = SomeProjects([project_id], are_left_out=False)
            frontier = await self._examine_part(look, window, frontier, projects, ranges, allowance)
        return frontier

    async def _examine_part(
        self,
        look: Look,
        window: StoredWindow,
        frontier: Frontier,
        projects: SomeProjects,
        ranges: Ranges,
        allowance: Allowance,
    ) -> Frontier:
        """Examine the first arrivals of ``ranges``, which are due in a window; return the frontier after them."""
        part = part_of(ranges, offsets_max=self.rows_max)
        read = await read_arrivals(self.store, part, projects, rows_max=allowance.rows_left)
        for arrived in read.traces:
            allowance.use(arrived.name.project_id, rows=arrived.arrivals_count)
        arrivals_count = sum(arrived.arrivals_count for arrived in read.traces)
        allowance.rows_used += max(0, PART_ROWS - arrivals_count)
        last = await self._settle(look, window, read.traces, allowance)
        rest = rest_of(_ranges(frontier, window), part, last or read.last)
        return Frontier(frontier.run, rest) if rest else Frontier(window.run)

    async def _settle(
        self, look: Look, window: StoredWindow, arrived: Sequence[ArrivedTrace], allowance: Allowance
    ) -> RecordPlace | None:
        """Settle those of the traces that are due. Return the last record before those for which the allowance did not
        suffice; ``None`` if it did.
        """
        changed: set[TraceName] = set()
        names = [trace.name for trace in arrived]
        for ranges in ranges_in_parts(look.later) if names else ():
            changed |= await changed_traces(self.store, ranges, names)
        firsts = {trace.name: trace.first for trace in arrived}
        for traces in parts_of([name for name in names if name not in changed], TRACES_TOGETHER):
            known = await settlings_of(self.store, traces)
            left = [name for name in traces if self._is_due(look, window, name, known)]
            while left:
                first = firsts[left[0]]
                if allowance.is_judged_up and first != arrived[0].first:
                    return RecordPlace(first.partition_id, first.offset - 1)
                judged, visible = await self.judge.judge(left)
                left = left[len(judged) :]
                for name, trace in visible.items():
                    allowance.use(name.project_id, versions=trace.versions_count)
                    self._note(look, window, name, known, is_complete=trace.is_complete)
        return None

    def _is_due(self, look: Look, window: StoredWindow, name: TraceName, known: Mapping[TraceName, Settlings]) -> bool:
        return name not in self.settled and look.last_settling(known.get(name, NEVER)) < window.run

    def _note(
        self,
        look: Look,
        window: StoredWindow,
        name: TraceName,
        known: Mapping[TraceName, Settlings],
        *,
        is_complete: bool,
    ) -> None:
        """Note that a trace settles, or that it is not complete."""
        if is_complete or look.reason is SettlingReason.INCOMPLETE:
            generation = known.get(name, NEVER).generation + 1
            self.settled[name] = SettledTrace(name, self.run.number, generation, self.run.clock_us, look.reason)
        else:
            self.incomplete[window.run] = self.incomplete.get(window.run, 0) + 1


def _ranges(frontier: Frontier, window: StoredWindow) -> Ranges:
    """Return what is left of a window."""
    return window.ranges if frontier.rest is None else frontier.rest
