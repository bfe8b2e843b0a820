"""Writes the audit log: changes before they begin, their outcomes and refusals after the response (ADR 0023).

One task writes what has come together, so that many changes at the same time are one statement. A change waits for its
entry and is refused without one. Refusals and outcomes wait for nothing: while Postgres is away they stay in memory,
counted and bounded, and are tried again. Refusals are counted before they are written, so that a flood of them is a
few entries.
"""

from __future__ import annotations

import asyncio
from collections import Counter, deque
from collections.abc import AsyncIterator, Coroutine, Sequence
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass
from typing import Any, Final, NamedTuple
from uuid import UUID

from common.errors import ServiceError, Unavailable
from common.postgres.audit import (
    TRIM_ROWS,
    AuditActor,
    AuditKind,
    AuditLog,
    AuditSubject,
    BegunWrite,
    CountedRefusals,
    EndedWrite,
    Entities,
)
from common.settings import AccessSettings
from common.telemetry import AUDIT_ENTRIES, AUDIT_FAILURES, AUDIT_LOST, get_logger
from common.times import Clock

REPEAT_S: Final = 60.0
"""The first of equal refusals is written at once, those that follow it once in this time."""

GROUPS_OF_PROJECT_MAX: Final = 20
"""Different refusals of a project that are counted separately in that time; the others share ``SEVERAL``."""

GROUPS_MAX: Final = 2_000
"""Different refusals of all projects that are counted separately; the others are one group a project and status."""

SEVERAL: Final = "several"
"""The operation of refusals that share an entry although they differ."""


class RefusalGroup(NamedTuple):
    """Refusals that are equal in an entry."""

    subject: AuditSubject
    status: int


@dataclass(slots=True)
class _Count:
    count: int
    first_s: float
    last_s: float
    due_s: float
    """When it is written next, on the clock that only goes forward."""


class RefusalCounts:
    """Counts refusals until they are written. Never more than ``GROUPS_MAX`` groups, and one a project and status."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._counts: dict[RefusalGroup, _Count] = {}
        self._groups_of: Counter[UUID] = Counter()

    def __len__(self) -> int:
        return len(self._counts)

    def add(self, subject: AuditSubject, status: int) -> None:
        """Count one refusal."""
        now_s = self._clock.monotonic_s()
        group = RefusalGroup(subject, status)
        if group not in self._counts and self._is_full(subject.project_id):
            shared = AuditSubject(subject.project_id, AuditActor.NOBODY, SEVERAL)
            group = RefusalGroup(shared, status)
        known = self._counts.get(group)
        if known is None:
            self._counts[group] = _Count(1, now_s, now_s, now_s)
            self._groups_of[subject.project_id] += 1
            return
        if not known.count:
            known.first_s = now_s
        known.count += 1
        known.last_s = now_s

    def due(self, *, is_last: bool = False) -> list[CountedRefusals]:
        """Return what is to be written now; with ``is_last`` everything. Confirm it with ``written``."""
        now_s = self._clock.monotonic_s()
        return [
            CountedRefusals(group.subject, group.status, each.count, now_s - each.first_s, now_s - each.last_s)
            for group, each in self._counts.items()
            if each.count and (is_last or each.due_s <= now_s)
        ]

    def written(self, refusals: list[CountedRefusals]) -> None:
        """Subtract what was written; forget groups that have not occurred again."""
        now_s = self._clock.monotonic_s()
        for refusal in refusals:
            known = self._counts[RefusalGroup(refusal.subject, refusal.status)]
            known.count -= refusal.requests_count
            known.first_s, known.due_s = now_s, now_s + REPEAT_S
        for group in [group for group, each in self._counts.items() if not each.count and each.due_s <= now_s]:
            del self._counts[group]
            self._groups_of[group.subject.project_id] -= 1
            if not self._groups_of[group.subject.project_id]:
                del self._groups_of[group.subject.project_id]

    def total(self) -> int:
        """Return how many refusals are not written."""
        return sum(each.count for each in self._counts.values())

    def _is_full(self, project_id: UUID) -> bool:
        return self._groups_of[project_id] >= GROUPS_OF_PROJECT_MAX or len(self._counts) >= GROUPS_MAX


FLUSH_S: Final = 0.25
"""How long a refusal or an outcome waits before it is written together with others, or tried again."""

RETRY_S: Final = 0.25
"""The pause after a failure."""

BATCH_MAX: Final = 500
"""Entries of one statement."""

ENDED_MAX: Final = 10_000
"""Outcomes that wait while Postgres is away; the entries of further ones stay without an outcome."""

TRIM_S: Final = 60.0
"""How often the oldest entries are deleted of projects that have new ones."""

TRIM_AGE_S: Final = 3_600.0
"""How often entries are deleted that are too old."""

_CHANGES_REFUSED: Final = "Changes are refused until it can."
_TRIED_AGAIN: Final = "Outcomes and refusals wait until it can."
_DROPPED: Final = "Outcomes or refusals are dropped, and counted."

_log: Final = get_logger("clearspan.audit")


class _Waiting(NamedTuple):
    write: BegunWrite
    entry_id: asyncio.Future[int]


class AuditRecorder:
    """The audit log of one process. ``work`` must run."""

    def __init__(self, log: AuditLog, clock: Clock, settings: AccessSettings) -> None:
        self._table = log
        self._clock = clock
        self._settings = settings
        self._begun: deque[_Waiting] = deque()
        self._ended: deque[EndedWrite] = deque()
        self._refusals = RefusalCounts(clock)
        self._wake = asyncio.Event()
        self._touched: set[tuple[UUID, AuditKind]] = set()
        self._failing: set[str] = set()
        """The consequences of failures that were logged since the last success."""
        self._flushing = asyncio.Lock()

    async def begin(self, write: BegunWrite) -> int:
        """Write the entry of a change; return its id. Raises ``Unavailable`` if that fails: the change must not be."""
        waiting = _Waiting(write, asyncio.get_running_loop().create_future())
        self._begun.append(waiting)
        self._wake.set()
        return await waiting.entry_id

    def end(self, write: EndedWrite) -> None:
        """Record the outcome of a change, soon."""
        if len(self._ended) >= ENDED_MAX:
            AUDIT_LOST.labels(AuditKind.WRITE).inc()
            return
        self._ended.append(write)

    def refuse(self, subject: AuditSubject, status: int) -> None:
        """Record a refusal, soon."""
        self._refusals.add(subject, status)

    async def work(self) -> None:
        """Write what comes, until cancelled."""
        rest_due_s = 0.0
        while True:
            with suppress(TimeoutError):
                async with asyncio.timeout(max(0.0, rest_due_s - self._clock.monotonic_s())):
                    await self._wake.wait()
            self._wake.clear()
            is_rest_due = self._clock.monotonic_s() >= rest_due_s
            if is_rest_due:
                rest_due_s = self._clock.monotonic_s() + FLUSH_S
            try:
                succeeded = await (self.flush() if is_rest_due else self._flush_begun())
            except Exception:  # noqa: BLE001 - a defect must not end the log, for which all changes wait
                _log.exception("The audit log failed unexpectedly.")
                succeeded = False
            if not succeeded:
                await asyncio.sleep(RETRY_S)

    async def flush(self, *, is_last: bool = False) -> bool:
        """Write what waits; return whether that succeeded. What can never be written is dropped and counted."""
        async with self._flushing:
            while True:
                succeeded = await self._write_begun()
                succeeded &= await self._write_ended()
                succeeded &= await self._write_refusals(is_last=is_last)
                if not succeeded:
                    return False
                if not self._begun:
                    self._failing.clear()
                    return True

    async def _flush_begun(self) -> bool:
        """Write the entries for which changes wait; return whether that succeeded."""
        async with self._flushing:
            while self._begun:
                if not await self._write_begun():
                    return False
        return True

    async def _write_ended(self) -> bool:
        while self._ended:
            batch = [self._ended[place] for place in range(min(BATCH_MAX, len(self._ended)))]
            if not await self._tried(self._end(batch), AuditKind.WRITE, len(batch)):
                return False
            for _ in batch:
                self._ended.popleft()
        return True

    async def _end(self, batch: list[EndedWrite]) -> None:
        """Write outcomes; one by one if one of them can never be written, so that the others are."""
        try:
            await self._table.end(batch)
        except ServiceError as error:
            if error.transient or len(batch) == 1:
                raise
            for write in batch:
                if not await self._tried(self._table.end([write]), AuditKind.WRITE, 1):
                    raise Unavailable("The other outcomes cannot be written now.") from error

    async def _write_refusals(self, *, is_last: bool) -> bool:
        while due := self._refusals.due(is_last=is_last)[:BATCH_MAX]:
            count = sum(each.requests_count for each in due)
            if not await self._tried(self._add_refusals(due), AuditKind.REFUSAL, count):
                return False
            self._refusals.written(due)
        self._refusals.written([])
        return True

    async def _add_refusals(self, due: Sequence[CountedRefusals]) -> None:
        await self._table.add_refusals(due)
        AUDIT_ENTRIES.labels(AuditKind.REFUSAL).inc(len(due))
        self._touched.update((each.subject.project_id, AuditKind.REFUSAL) for each in due)

    async def _tried(self, writing: Coroutine[Any, Any, None], kind: AuditKind, count: int) -> bool:
        """Return whether something is written, or can never be."""
        try:
            await writing
        except ServiceError as error:
            if error.transient:
                self._report(error, _TRIED_AGAIN)
                return False
            self._report(error, _DROPPED)
            AUDIT_LOST.labels(kind).inc(count)
        return True

    async def _write_begun(self) -> bool:
        batch = [self._begun.popleft() for _ in range(min(BATCH_MAX, len(self._begun)))]
        batch = [waiting for waiting in batch if not waiting.entry_id.done()]  # of requests that are still there
        if not batch:
            return True
        try:
            ids = await self._table.begin([waiting.write for waiting in batch])
        except BaseException as error:
            failure = Unavailable(
                f"The audit log cannot be written: {error}",
                public_message="Changes are recorded in the audit log, which cannot be written now.",
            )
            for waiting in batch:
                if not waiting.entry_id.done():
                    waiting.entry_id.set_exception(failure)
            if not isinstance(error, ServiceError):
                raise
            self._report(error, _CHANGES_REFUSED)
            return False
        for waiting, entry_id in zip(batch, ids, strict=True):
            if not waiting.entry_id.done():
                waiting.entry_id.set_result(entry_id)
        AUDIT_ENTRIES.labels(AuditKind.WRITE).inc(len(batch))
        self._touched.update((waiting.write.subject.project_id, AuditKind.WRITE) for waiting in batch)
        return True

    async def trim(self, *, by_age: bool) -> None:
        """Delete the oldest entries of projects that have new ones, and with ``by_age`` those that are too old."""
        count_max = {
            AuditKind.WRITE: self._settings.audit_writes_max,
            AuditKind.REFUSAL: self._settings.audit_refusals_max,
        }
        while self._touched:
            project_id, kind = self._touched.pop()
            try:
                while await self._table.trim_project(project_id, kind, count_max=count_max[kind]) == TRIM_ROWS:
                    pass
            except BaseException:
                self._touched.add((project_id, kind))
                raise
        while by_age and await self._table.trim_age(self._settings.audit_days_max) == TRIM_ROWS:
            pass

    async def keep_trimming(self) -> None:
        """Trim every ``TRIM_S``, until cancelled."""
        aged_s = self._clock.monotonic_s() - TRIM_AGE_S
        while True:
            by_age = self._clock.monotonic_s() >= aged_s + TRIM_AGE_S
            try:
                await self.trim(by_age=by_age)
            except ServiceError as error:
                _log.warning("The audit log is not trimmed yet.", reason=error.detail)
            except Exception:  # noqa: BLE001 - a defect must not end the trimming, which bounds the log
                _log.exception("Trimming the audit log failed unexpectedly.")
            else:
                aged_s = self._clock.monotonic_s() if by_age else aged_s
            await asyncio.sleep(TRIM_S)

    async def close(self) -> None:
        """Write what is left; say what is lost."""
        await self.flush(is_last=True)
        outcomes, refusals = len(self._ended), self._refusals.total()
        if outcomes or refusals:
            AUDIT_LOST.labels(AuditKind.WRITE).inc(outcomes)
            AUDIT_LOST.labels(AuditKind.REFUSAL).inc(refusals)
            _log.error("The audit log lacks what could not be written.", outcomes=outcomes, refusals=refusals)

    def _report(self, error: ServiceError, consequence: str) -> None:
        AUDIT_FAILURES.inc()
        if consequence not in self._failing:
            _log.error("The audit log cannot be written.", consequence=consequence, reason=error.detail)
        self._failing.add(consequence)


def ended(entry_id: int, status: int, entities: Entities) -> EndedWrite:
    """Return the end of a change; without entities those of its begin stay."""
    return EndedWrite(entry_id, status, entities or None)


@asynccontextmanager
async def recording(recorder: AuditRecorder) -> AsyncIterator[None]:
    """Write and trim in the background while inside; then write what is left."""
    tasks = [
        asyncio.create_task(recorder.work(), name="write-audit-log"),
        asyncio.create_task(recorder.keep_trimming(), name="trim-audit-log"),
    ]
    try:
        yield
    finally:
        for task in tasks:
            task.cancel()
        await asyncio.wait(tasks)
        await recorder.close()
