"""The runner of leases: claims what is due, runs the job of its kind, keeps the lease meanwhile, and releases it.

::

    renew ── lost? cancel the run
    claim ── kind → job ── run ── release with the time of the next run
                            ↓ unexpected failure: release, the next run after a pause that doubles

If the process ends in between, the lease expires, and another process runs the job from what is stored.
"""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Awaitable, Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from datetime import datetime
from typing import Final, TypeAlias

from common.errors import ServiceError
from common.postgres.leases import Kind, Lease, LeaseLost, Leases
from common.telemetry import get_logger
from common.times import Clock
from jobs.failures import retry_delay_s

CLAIMED_MAX: Final = 20
"""Leases that a process claims at once, so that several processes share them."""

TICK_S: Final = 0.5
"""How often due leases are looked for; also when a run ends."""

FAILURE_DELAY_S_MAX: Final = 60.0
STOP_S: Final = 10.0
"""How long a stop waits for what is being finished."""

_log: Final = get_logger(__name__)

Report: TypeAlias = Callable[[str, str], object]
"""Takes the name of a system and why it is not available; an empty text if it is."""


@dataclass(eq=False, slots=True)
class JobRun:
    """One run under a lease. The job sets ``is_busy`` while the process must not end it; it ends by itself when it is
    ``stopping``.
    """

    lease: Lease
    stopping: asyncio.Event
    is_busy: bool = False


@dataclass(frozen=True, slots=True)
class Job:
    """What runs for a kind of leases. ``run`` returns the time of the next run, ``None`` to rest until it is woken.

    One process has at most ``max_count`` runs at the same time, of which a project has at most ``project_max``.
    """

    run: Callable[[JobRun], Awaitable[datetime | None]]
    max_count: int
    project_max: int
    count: Callable[[int], object] = field(default=lambda _: None)
    """Takes the number of runs."""


class LeaseRunner:
    """Runs the jobs of all projects that this process can claim, until it is cancelled."""

    def __init__(
        self, leases: Leases, jobs: Mapping[Kind, Job], clock: Clock, *, report: Report, tick_s: float = TICK_S
    ) -> None:
        self._leases = leases
        self._jobs = jobs
        self._clock = clock
        self._report = report
        self._tick_s = tick_s
        self._renewed_every_s = min(2 * tick_s, leases.lease_s / 5)
        self._stopping = asyncio.Event()
        self._wake = asyncio.Event()
        self._running: dict[JobRun, asyncio.Task[None]] = {}
        self._ending: set[asyncio.Task[None]] = set()
        self._renewed_s = clock.monotonic_s()

    async def run(self) -> None:
        """Keep and claim leases until cancelled."""
        while True:
            try:
                await self._renew()
                await self._claim()
                self._report("postgres", "")
            except ServiceError as exc:
                self._report("postgres", exc.detail)
                if self._clock.monotonic_s() - self._renewed_s >= self._leases.lease_s:
                    for run in list(self._running):
                        self._end(run)
            except Exception:  # noqa: BLE001 - what runs must not end with it
                _log.exception("Claiming leases failed unexpectedly.")
            with suppress(TimeoutError):
                async with asyncio.timeout(min(self._tick_s, self._renewed_every_s)):
                    await self._wake.wait()
            self._wake.clear()

    async def close(self) -> None:
        """End all runs, those that are busy after what they do, and give the leases back."""
        self._stopping.set()
        runs = dict(self._running)
        for run, task in runs.items():
            if not run.is_busy:
                task.cancel()
        if runs:
            await asyncio.wait(runs.values(), timeout=STOP_S)
        for run in runs:
            self._end(run)
        if self._ending:
            await asyncio.wait(self._ending, timeout=STOP_S)
        with suppress(ServiceError):
            await self._leases.give_back([run.lease for run in runs])

    async def _renew(self) -> None:
        if self._clock.monotonic_s() - self._renewed_s < self._renewed_every_s:
            return
        held = await self._leases.renew([run.lease for run in self._running])
        self._renewed_s = self._clock.monotonic_s()
        for run in list(self._running):
            if run.lease.holder not in held:
                self._end(run)

    async def _claim(self) -> None:
        for _ in range(CLAIMED_MAX):
            counts = Counter(run.lease.kind for run in self._running)
            shares = Counter((run.lease.kind, run.lease.project_id) for run in self._running)
            kinds = [kind for kind, job in self._jobs.items() if counts[kind] < job.max_count]
            full = [
                (kind, project_id)
                for (kind, project_id), count in shares.items()
                if project_id is not None and count >= self._jobs[kind].project_max
            ]
            lease = await self._leases.claim(kinds, full=full)
            if lease is None:
                break
            self._start(lease)
        for kind, job in self._jobs.items():
            job.count(sum(run.lease.kind is kind for run in self._running))

    def _start(self, lease: Lease) -> None:
        for run in list(self._running):
            if (run.lease.kind, run.lease.id) == (lease.kind, lease.id):
                self._end(run)  # taken back since the leases were renewed
        run = JobRun(lease, self._stopping)
        task = asyncio.create_task(self._run(run), name=f"{lease.kind}-{lease.id}")
        self._running[run] = task
        task.add_done_callback(lambda _: self._ended(run))

    def _end(self, run: JobRun) -> None:
        """Cancel a run. Closing its target may take a moment, for which nothing else waits."""
        task = self._running.pop(run, None)
        if task is not None and not task.done():
            task.cancel()
            self._ending.add(task)
            task.add_done_callback(self._ending.discard)

    def _ended(self, run: JobRun) -> None:
        self._running.pop(run, None)
        self._wake.set()

    async def _run(self, run: JobRun) -> None:
        """Run a job and release its lease. One job must not end the others."""
        lease = run.lease
        try:
            next_run = await self._jobs[lease.kind].run(run)
        except LeaseLost:
            _log.info("What a lease is about was changed, or another process holds it now.", kind=lease.kind)
            await self._release(lambda: self._leases.give_back([lease]))
            return
        except ServiceError as exc:
            _log.warning("A job is given up; it begins again.", kind=lease.kind, id=str(lease.id), reason=exc.detail)
        except Exception:  # noqa: BLE001 - see above
            _log.exception("A job failed unexpectedly; it begins again.", kind=lease.kind, id=str(lease.id))
        else:
            if not self._stopping.is_set() or next_run is not None:
                await self._release(lambda: self._leases.release(lease, next_run))
            return
        delay_s = retry_delay_s(lease.failures + 1, max_s=FAILURE_DELAY_S_MAX)
        await self._release(lambda: self._leases.fail(lease, delay_s=delay_s))

    async def _release(self, release: Callable[[], Awaitable[None]]) -> None:
        try:
            await release()
        except ServiceError as exc:
            _log.warning("A lease is not released; it expires.", reason=exc.detail)
