"""Refusals that are counted before they are written, so that a flood of them is a few entries (ADR 0023)."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass
from typing import Final, NamedTuple
from uuid import UUID

from common.postgres.audit import AuditActor, AuditSubject, CountedRefusals
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
