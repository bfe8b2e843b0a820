"""Which traces settle, when and why, with real stores and a clock that the tests move (contract §3.6, ADR 0049)."""

from __future__ import annotations

from typing import Any
from uuid import UUID

import pyarrow as pa
import pytest

from common.clickhouse.store import ColumnStore, Statement
from common.errors import DeadlineExceeded, Unavailable
from common.ids import DEFAULT_PROJECT_ID
from common.postgres.leases import LeaseLost
from common.postgres.pool import Database
from jobs.settling import judging
from jobs.settling.judging import ATTEMPTS
from jobs.settling.records import rewind
from jobs.settling.run import SettlingTimes
from query_api.freshness.settled import read_settling_progress
from query_api.spans.latest_versions import delete_trace
from query_api.spans.project_spans import ProjectSpans
from tests.support.settling import PARTITION, SettlingWorld, span_in

OTHER = UUID(int=77)


@pytest.fixture
def world(store: ColumnStore, database: Database) -> SettlingWorld:
    return SettlingWorld(store, database)


async def test_quiet_trace_with_root_and_all_parents_is_complete(world: SettlingWorld) -> None:
    await world.send(span_in(1, 1), span_in(1, 2, 1))
    await world.run(29.0)
    assert await world.settled() == []
    await world.run(2.0)
    assert await world.settled() == [(1, 1, "complete")]
    await world.run(2_000.0)
    assert await world.settled() == [(1, 1, "complete")]
    assert await world.windows_count() == 0


async def test_trace_that_changes_is_not_quiet(world: SettlingWorld) -> None:
    await world.send(span_in(1, 1))
    await world.run(20.0)
    await world.send(span_in(1, 2, 1), partition_id="cluster/spans/1")
    await world.run(20.0)
    assert await world.settled() == []
    await world.run(20.0)
    assert await world.settled() == [(1, 1, "complete")]


async def test_trace_that_changes_after_it_settled_settles_again(world: SettlingWorld) -> None:
    await world.send(span_in(1, 1), span_in(2, 1))
    await world.run(31.0)
    await world.send(span_in(1, 1, name="again"))
    await world.run(31.0)
    assert await world.settled() == [(1, 1, "complete"), (2, 1, "complete"), (1, 2, "complete")]


@pytest.mark.parametrize(
    "spans", [[span_in(1, 2, 9)], [span_in(1, 1), span_in(1, 2, 9)], [span_in(1, 1, 2), span_in(1, 2, 1)]]
)
async def test_incomplete_trace_settles_after_the_longer_time(world: SettlingWorld, spans: list[object]) -> None:
    """Without a root, with a parent that is missing, or of a cycle alone."""
    await world.send(*spans)  # type: ignore[arg-type] # spans
    await world.run(890.0)
    assert await world.settled() == []
    await world.run(20.0)
    assert await world.settled() == [(1, 1, "incomplete")]
    await world.run(5_000.0)
    assert await world.settled() == [(1, 1, "incomplete")]


async def test_trace_with_a_running_span_is_not_complete(world: SettlingWorld) -> None:
    root, child = span_in(1, 1), span_in(1, 2, 1)
    await world.send(root._replace(end_ns=root.start_ns, is_running=True), child)
    await world.run(31.0)
    assert await world.settled() == []

    await world.send(root)
    await world.send(root._replace(end_ns=root.start_ns, is_running=True))
    await world.run(31.0)
    assert await world.settled() == [(1, 1, "complete")]


async def test_incomplete_trace_whose_root_comes_is_complete(world: SettlingWorld) -> None:
    await world.send(span_in(1, 2, 1))
    await world.run(910.0)
    await world.send(span_in(1, 1))
    await world.run(31.0)
    assert await world.settled() == [(1, 1, "incomplete"), (1, 2, "complete")]


async def test_trace_that_always_changes_settles_as_incomplete_and_then_as_complete(world: SettlingWorld) -> None:
    for number in range(46):
        await world.send(span_in(1, number + 1, 1 if number else None))
        await world.run(20.0)
    assert await world.settled() == [(1, 1, "incomplete")]
    await world.run(31.0)
    assert (await world.settled())[-1] == (1, 2, "complete")
    await world.run(5_000.0)
    assert len(await world.settled()) == 2


async def test_self_parent_below_a_root_does_not_matter(world: SettlingWorld) -> None:
    await world.send(span_in(1, 1), span_in(1, 2, 2), span_in(1, 3, 4), span_in(1, 4, 3))
    await world.run(31.0)
    assert await world.settled() == [(1, 1, "complete")]


async def test_latest_version_decides(world: SettlingWorld) -> None:
    """A span that is sent again with another parent, in another partition."""
    await world.send(span_in(1, 1), span_in(1, 2, 9))
    await world.run(40.0)
    await world.send(span_in(1, 2, 1), partition_id="cluster/spans/1")
    await world.run(40.0)
    assert await world.settled() == [(1, 1, "complete")]


async def test_projects_with_the_same_trace_id_are_apart(world: SettlingWorld) -> None:
    await world.send(span_in(1, 1), span_in(2, 2, 9))
    await world.send(span_in(1, 2, 9), project_id=OTHER)
    await world.run(31.0)
    assert (await world.settled(), await world.settled(OTHER)) == ([(1, 1, "complete")], [])
    await world.run(900.0)
    assert await world.settled() == [(1, 1, "complete"), (2, 1, "incomplete")]
    assert await world.settled(OTHER) == [(1, 1, "incomplete")]


async def test_deleted_trace_does_not_settle(world: SettlingWorld) -> None:
    await world.send(span_in(1, 1), span_in(2, 5, 6))
    spans = ProjectSpans(world.store, DEFAULT_PROJECT_ID, clock=world.clock, budget_s=60.0)
    for trace in (1, 2):
        await delete_trace(spans, trace.to_bytes(16, "big"))
    await world.run(31.0)
    await world.run(900.0)
    assert await world.settled() == []


async def test_what_is_not_recorded_as_stored_is_not_new(world: SettlingWorld) -> None:
    """A slow insert whose rows are visible before it has ended."""
    await world.send(span_in(1, 1))
    late = await world.send(span_in(1, 2, 1), is_recorded=False)
    await world.run(31.0)
    assert await world.settled() == [(1, 1, "complete")]
    await world.record(late)
    await world.run(31.0)
    assert await world.settled() == [(1, 1, "complete"), (1, 2, "complete")]


async def test_pause_of_an_hour_is_not_an_hour_of_quiet(world: SettlingWorld) -> None:
    await world.send(span_in(1, 1), span_in(2, 1))
    await world.run()
    world.clock.advance(3_600.0)
    await world.send(span_in(1, 2, 1))
    await world.run()
    assert await world.settled() == [(1, 1, "incomplete"), (2, 1, "complete")]
    await world.run(31.0)
    assert sorted(await world.settled()) == [(1, 1, "incomplete"), (1, 2, "complete"), (2, 1, "complete")]


async def test_clock_that_is_set_back_delays_nothing(world: SettlingWorld) -> None:
    await world.send(span_in(1, 1))
    await world.run(10.0)
    world.clock.advance(-7_200.0)
    await world.run()
    await world.run(31.0)
    assert await world.settled() == [(1, 1, "complete")]


async def test_run_that_reads_little_goes_on(world: SettlingWorld) -> None:
    world.rows_max = 3
    for number in range(20):
        await world.send(span_in(number, 1), span_in(number + 100, 1, 7), partition_id=f"cluster/spans/{number % 3}")
    await world.run(31.0)
    assert sorted(await world.settled()) == [(number, 1, "complete") for number in range(20)]
    await world.run(900.0)
    incomplete = [(number + 100, 1, "incomplete") for number in range(20)]
    assert sorted(await world.settled()) == [*((number, 1, "complete") for number in range(20)), *incomplete]


async def test_record_with_more_spans_than_a_run_reads(world: SettlingWorld) -> None:
    world.rows_max = 3
    await world.send(*(span_in(number, 1) for number in range(1, 11)))
    await world.send(*(span_in(number, 1) for number in range(11, 15)))
    await world.run(31.0)
    assert sorted(await world.settled()) == [(number, 1, "complete") for number in range(1, 15)]


class FailingInserts:
    """Passes everything on, and fails after the insert of settled traces, or before it."""

    def __init__(self, store: ColumnStore, *, is_inserted: bool) -> None:
        self._store = store
        self._is_inserted = is_inserted

    def __getattr__(self, name: str) -> object:
        return getattr(self._store, name)

    async def insert(self, table: str, rows: pa.Table, /, *, dedup_token: str, deadline_s: float) -> None:
        if self._is_inserted:
            await self._store.insert(table, rows, dedup_token=dedup_token, deadline_s=deadline_s)
        raise Unavailable("the engine is away")


@pytest.mark.parametrize("is_inserted", [False, True])
async def test_run_that_finished_without_its_insert_is_inserted_by_the_next(
    world: SettlingWorld, is_inserted: bool
) -> None:
    await world.send(span_in(1, 1))
    await world.run()
    world.clock.advance(31.0)
    with pytest.raises(Unavailable):
        await world.job(FailingInserts(world.store, is_inserted=is_inserted)).step(await world.lease())  # type: ignore[arg-type]
    await world.run()
    assert await world.settled() == [(1, 1, "complete")]


async def test_job_that_lost_its_lease_changes_nothing(world: SettlingWorld) -> None:
    await world.send(span_in(1, 1))
    await world.run()
    world.clock.advance(31.0)
    lost = await world.lease()
    await world.lease()
    with pytest.raises(LeaseLost):
        await world.job().step(lost)
    assert await world.settled() == []
    await world.run()
    assert await world.settled() == [(1, 1, "complete")]


async def test_equal_times(world: SettlingWorld) -> None:
    world.times = SettlingTimes(30.0, 30.0)
    await world.send(span_in(1, 1), span_in(2, 1, 5))
    await world.run(31.0)
    assert await world.settled() == [(1, 1, "complete"), (2, 1, "incomplete")]


async def test_trace_with_a_running_span_is_incomplete_until_it_ends(world: SettlingWorld) -> None:
    root = span_in(1, 1)
    await world.send(root._replace(is_running=True, end_ns=root.start_ns), span_in(1, 2, 1))
    await world.run(60.0)
    assert await world.settled() == []
    await world.run(900.0)
    assert await world.settled() == [(1, 1, "incomplete")]
    await world.send(root, partition_id="cluster/spans/1")
    await world.run(31.0)
    assert await world.settled() == [(1, 1, "incomplete"), (1, 2, "complete")]


async def test_progress_says_how_far_settling_is(world: SettlingWorld) -> None:
    before = await read_settling_progress(world.database)
    assert (before.through_us, before.behind_s(30.0), before.incomplete_count) == (None, 0.0, 0)
    await world.send(span_in(1, 1), span_in(2, 1, 9))
    await world.run()
    stored_us = world.clock.now_ns() // 1_000
    await world.run(20.0)
    assert (await read_settling_progress(world.database)).through_us == stored_us
    await world.send(span_in(3, 1))
    await world.run(20.0)
    after = await read_settling_progress(world.database)
    assert (after.through_us, after.incomplete_count, after.is_running) == (stored_us + 20_000_000, 1, True)
    assert after.behind_s(30.0) == 0.0
    assert after.behind_s(5.0) == 15.0
    await world.run(900.0)
    assert (await read_settling_progress(world.database)).incomplete_count == 0


class SlowForOne:
    """Does not end the statement about whole traces in time if one of them is too large."""

    def __init__(self, store: ColumnStore, trace_id: bytes) -> None:
        self._store = store
        self._trace_id = trace_id

    def __getattr__(self, name: str) -> object:
        return getattr(self._store, name)

    async def select(self, statement: Statement, /, *, deadline_s: float) -> pa.Table:
        if "is_complete" in statement.sql and self._trace_id in statement.parameters["trace_ids"]:
            raise DeadlineExceeded("too slow")
        return await self._store.select(statement, deadline_s=deadline_s)


async def test_trace_that_cannot_be_judged_does_not_stop_others(world: SettlingWorld) -> None:
    """It is not complete, once it has made some runs fail: the engine may have been overloaded."""
    await world.send(*(span_in(trace, 1) for trace in range(1, 8)))
    await world.run()
    slow: Any = SlowForOne(world.store, (3).to_bytes(16, "big"))
    job = world.job(slow)
    world.clock.advance(31.0)
    for _ in range(ATTEMPTS):
        with pytest.raises(DeadlineExceeded):
            await job.step(await world.lease())
        assert await world.settled() == []
    await job.step(await world.lease())
    complete = [(trace, 1, "complete") for trace in range(1, 8) if trace != 3]
    assert await world.settled() == complete
    world.clock.advance(900.0)
    await job.step(await world.lease())
    assert await world.settled() == [*complete, (3, 1, "incomplete")]


async def test_trace_that_is_too_large_to_be_judged_stops_no_run(
    world: SettlingWorld, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(judging, "VERSIONS_TOGETHER", 10)
    await world.send(*(span_in(3, span, 1 if span > 1 else None) for span in range(1, 12)))
    await world.send(*(span_in(trace, 1) for trace in (1, 2)))
    await world.run()
    world.clock.advance(31.0)
    slow: Any = SlowForOne(world.store, (3).to_bytes(16, "big"))
    await world.job(slow).step(await world.lease())
    assert await world.settled() == [(1, 1, "complete"), (2, 1, "complete")]


async def test_restored_tables_lose_no_settling(world: SettlingWorld) -> None:
    """The tables are from before a run and before the last record; Postgres is from after both."""
    await world.send(span_in(1, 1))
    await world.run(31.0)
    lost = await world.send(span_in(2, 1))
    await world.run(31.0)
    for table in ("settled_traces", "trace_settlings", "span_arrivals", "stored_through"):
        condition = f"record_offset = {lost}" if table == "span_arrivals" else "1"
        await world.store.execute(Statement(f"DELETE FROM {table} WHERE {condition}"), deadline_s=60.0)
    await world.record(lost - 1)

    await rewind(world.database, {PARTITION: lost - 1})
    await world.send(span_in(2, 1), offset=lost)
    await world.send(span_in(3, 1))
    await world.run(31.0)
    assert sorted(await world.settled()) == [(1, 1, "complete"), (2, 1, "complete"), (3, 1, "complete")]
