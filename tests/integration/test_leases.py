"""Leases in a real Postgres: one process at a time, nothing lost, a fair share for each project."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from datetime import UTC, datetime, timedelta
from typing import Any
from uuid import UUID, uuid4

import pytest

from common.errors import Unavailable
from common.postgres.leases import (
    RETENTION_ID,
    Kind,
    Lease,
    LeaseLost,
    Leases,
    add_leases,
    remove_leases,
    schedule_of,
    take_back,
    wake,
)
from common.postgres.pool import Database
from common.postgres.projects import Projects
from common.times import SystemClock
from jobs.runner import Job, JobRun, LeaseRunner

KINDS = [Kind.SUBSCRIPTION, Kind.ALERT]


async def project(database: Database) -> UUID:
    return (await Projects(database, SystemClock()).create("leases")).id


async def add(database: Database, project_id: UUID, *kinds: Kind) -> UUID:
    id_ = uuid4()
    async with database.transaction() as transaction:
        await add_leases(transaction, kinds or [Kind.ALERT], id_, project_id)
    return id_


async def row_of(database: Database, id_: UUID) -> Any:
    return await database.fetch_one(
        "SELECT holder, failures, next_run <= now() AS is_due, next_run = 'infinity' AS rests FROM leases WHERE id=$1",
        id_,
    )


async def all_claimed(leases: Leases, *, full: Any = ()) -> list[Lease]:
    claimed = []
    while (lease := await leases.claim(KINDS, full=full)) is not None:
        claimed.append(lease)
    return claimed


async def test_each_lease_is_claimed_once_by_any_number_of_processes(database: Database) -> None:
    project_id = await project(database)
    ids = [await add(database, project_id, *KINDS) for _ in range(5)]

    found = await asyncio.gather(*(all_claimed(Leases(database, 60)) for _ in range(3)))

    claimed = [(lease.kind, lease.id) for each in found for lease in each]
    assert sorted(claimed) == sorted((kind, id_) for kind in KINDS for id_ in ids)


async def test_what_is_due_longest_comes_first_and_full_shares_wait(database: Database) -> None:
    first, second = [await project(database) for _ in range(2)]
    late = await add(database, first)
    early = await add(database, second)
    await database.fetch_all("UPDATE leases SET next_run = next_run - interval '1 minute' WHERE id = $1", early)

    claimed = await all_claimed(Leases(database, 60), full=[(Kind.ALERT, first), (Kind.SUBSCRIPTION, second)])
    assert [lease.id for lease in claimed] == [early]
    assert [lease.id for lease in await all_claimed(Leases(database, 60))] == [late]


async def test_lease_that_expired_is_taken_over_and_its_last_holder_cannot_write(database: Database) -> None:
    leases = Leases(database, 60)
    await add(database, await project(database))
    [lost] = await all_claimed(leases)
    assert await leases.renew([lost]) == {lost.holder}
    await database.fetch_all("UPDATE leases SET expires_at = now() - interval '1 s' WHERE holder = $1", lost.holder)

    [held] = await all_claimed(leases)

    assert await leases.renew([lost, held]) == {held.holder}
    with pytest.raises(LeaseLost):
        async with leases.holding(lost):
            pass
    await leases.release(lost, None)
    async with leases.holding(held):
        pass


async def test_what_wakes_a_lease_during_its_run_is_not_lost(database: Database) -> None:
    leases = Leases(database, 60)
    id_ = await add(database, await project(database))
    [lease] = await all_claimed(leases)
    await wake(database, Kind.ALERT, id_)
    assert await all_claimed(leases) == []

    await leases.release(lease, None)

    [again] = await all_claimed(leases)
    await leases.release(again, None)
    assert (await row_of(database, id_))["rests"]


async def test_user_ends_a_run(database: Database) -> None:
    leases = Leases(database, 60)
    id_ = await add(database, await project(database), *KINDS)
    claimed = await all_claimed(leases)
    async with database.transaction() as transaction:
        await take_back(transaction, id_)

    assert await leases.renew(claimed) == set()
    assert len(await all_claimed(leases)) == 2
    async with database.transaction() as transaction:
        await remove_leases(transaction, id_)
    assert await row_of(database, id_) is None


async def test_schedule_says_when_the_next_run_is(database: Database) -> None:
    leases = Leases(database, 60)
    lease = await leases.claim([Kind.RETENTION], full=[])
    assert lease is not None
    await wake(database, Kind.RETENTION, RETENTION_ID, within_s=3_600)

    schedule = await schedule_of(database, Kind.RETENTION, RETENTION_ID)

    assert schedule is not None
    assert schedule.is_running
    assert timedelta(minutes=59) < schedule.next_run - datetime.now(UTC) < timedelta(minutes=61)


@asynccontextmanager
async def running(database: Database, job: Job, *, lease_s: float = 60) -> AsyncIterator[LeaseRunner]:
    """A runner of the leases of alerts."""
    clock = SystemClock()
    runner = LeaseRunner(Leases(database, lease_s), {Kind.ALERT: job}, clock, report=lambda *_: None, tick_s=0.01)
    task = asyncio.create_task(runner.run())
    try:
        yield runner
    finally:
        task.cancel()
        await asyncio.wait({task})
        await runner.close()


async def until(condition: Callable[[], bool]) -> None:
    async with asyncio.timeout(60):
        while not condition():  # noqa: ASYNC110 - of a job
            await asyncio.sleep(0.01)


async def test_project_has_at_most_its_share_of_a_process(database: Database) -> None:
    first, second = [await project(database) for _ in range(2)]
    for project_id in (first, first, first, first, second):
        await add(database, project_id)
    runs: list[UUID | None] = []

    async def job(run: JobRun) -> None:
        runs.append(run.lease.project_id)
        await asyncio.sleep(3_600)

    async with running(database, Job(job, 4, 2)):
        await until(lambda: len(runs) == 3)
        await asyncio.sleep(0.1)

    assert sorted(runs, key=str) == sorted([first, first, second], key=str)


async def test_job_that_fails_is_tried_again_after_a_pause_and_others_go_on(database: Database) -> None:
    project_id = await project(database)
    bad, good = [await add(database, project_id) for _ in range(2)]
    runs: list[UUID] = []

    async def job(run: JobRun) -> None:
        runs.append(run.lease.id)
        if run.lease.id == bad:
            raise Unavailable("not now") if len(runs) % 2 else ValueError("a defect")

    async with running(database, Job(job, 4, 4)), asyncio.timeout(60):
        while (await row_of(database, bad))["failures"] < 2:  # noqa: ASYNC110 - Postgres is asked
            await asyncio.sleep(0.01)

    assert runs.count(bad) == 2
    assert runs.count(good) == 1
    state = await row_of(database, bad)
    assert (state["holder"], state["failures"], state["is_due"], state["rests"]) == (None, 2, False, False)
    assert (await row_of(database, good))["rests"]


async def test_run_ends_when_its_lease_is_taken_back_and_begins_again(database: Database) -> None:
    id_ = await add(database, await project(database))
    began, ended = [], []

    async def job(run: JobRun) -> None:
        began.append(run.lease.holder)
        try:
            await asyncio.sleep(3_600)
        finally:
            ended.append(run.lease.holder)

    async with running(database, Job(job, 4, 4)):
        await until(lambda: len(began) == 1)
        async with database.transaction() as transaction:
            await take_back(transaction, id_)
        await until(lambda: len(began) == 2)

    assert ended == began
    assert (await row_of(database, id_))["is_due"], "the stop gives it back"


async def test_stop_finishes_what_is_busy_and_ends_the_rest(database: Database) -> None:
    project_id = await project(database)
    busy, idle = [await add(database, project_id) for _ in range(2)]
    began, finished = [], []

    async def job(run: JobRun) -> None:
        run.is_busy = run.lease.id == busy
        began.append(run.lease.id)
        await run.stopping.wait()
        await asyncio.sleep(0.05)
        finished.append(run.lease.id)

    async with running(database, Job(job, 4, 4)):
        await until(lambda: len(began) == 2)

    assert finished == [busy]
    assert [(await row_of(database, id_))["holder"] for id_ in (busy, idle)] == [None, None]
