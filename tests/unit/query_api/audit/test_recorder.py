"""The audit log's background work when the table fails in unexpected ways."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from typing import Any
from uuid import UUID

import pytest
from structlog.testing import capture_logs

from common.errors import InvalidInput, ServiceError, Unavailable
from common.postgres.audit import NO_PROJECT, AuditActor, AuditKind, AuditSubject, CountedRefusals
from common.settings import AccessSettings
from common.telemetry import AUDIT_ENTRIES, AUDIT_LOST
from common.times import SystemClock
from query_api.audit import recorder
from query_api.audit.recorder import AuditRecorder

SUBJECT = AuditSubject(NO_PROJECT, AuditActor.NOBODY, "fetch_trace")
WITHIN_S = 60.0


class FailingLog:
    """A table whose first deletion by age fails with a defect, and which cannot store refusals."""

    def __init__(self, error: ServiceError | None = None) -> None:
        self.error = error
        self.trims_count = 0
        self.trimmed = asyncio.Event()

    async def trim_age(self, _days: float, /) -> int:
        self.trims_count += 1
        if self.trims_count == 1:
            raise RuntimeError("a defect")
        self.trimmed.set()
        return 0

    async def trim_project(self, _project_id: UUID, _kind: AuditKind, /, *, count_max: int) -> int:
        return 0

    async def add_refusals(self, _refusals: Sequence[CountedRefusals], /) -> None:
        if self.error is not None:
            raise self.error


def recorder_of(log: Any) -> AuditRecorder:
    return AuditRecorder(log, SystemClock(), AccessSettings())


async def test_trimming_survives_a_defect(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(recorder, "TRIM_S", 0.0)
    log = FailingLog()
    trimming = asyncio.create_task(recorder_of(log).keep_trimming())

    async with asyncio.timeout(WITHIN_S):
        done, _ = await asyncio.wait(
            [trimming, asyncio.create_task(log.trimmed.wait())], return_when=asyncio.FIRST_COMPLETED
        )

    assert trimming not in done
    trimming.cancel()


def counted(metric: Any) -> float:
    return float(metric.labels(AuditKind.REFUSAL)._value.get())


@pytest.mark.parametrize(
    ("error", "written", "lost"), [(None, 1, 0), (InvalidInput("never"), 0, 1), (Unavailable("later"), 0, 0)]
)
async def test_only_refusals_that_are_stored_count_as_written(
    error: ServiceError | None, written: int, lost: int
) -> None:
    before = counted(AUDIT_ENTRIES), counted(AUDIT_LOST)
    audited = recorder_of(FailingLog(error))
    audited.refuse(SUBJECT, 401)

    with capture_logs() as lines:
        await audited.flush()

    assert (counted(AUDIT_ENTRIES) - before[0], counted(AUDIT_LOST) - before[1]) == (written, lost)
    assert not [line for line in lines if "hanges are refused" in str(line)]
