"""No project makes the traces of others settle late: by the number of its spans, or by the size of its traces (contract §2,
ADR 0052).
"""

from __future__ import annotations

from typing import Any, Final
from uuid import UUID

import pyarrow as pa
import pytest

from common.clickhouse.store import ColumnStore, Statement
from common.errors import DeadlineExceeded
from common.ids import DEFAULT_PROJECT_ID
from common.postgres.pool import Database
from query_api.freshness.settled import read_settling_progress
from tests.support.settling import SettlingWorld, span_in

SMALL: Final = UUID(int=77)
RECORD_SPANS: Final = 100
TRACE_ID_BYTES: Final = 16


@pytest.fixture
def world(store: ColumnStore, database: Database) -> SettlingWorld:
    return SettlingWorld(store, database, rows_max=200)


async def steps(world: SettlingWorld, count: int) -> bool:
    """Do some runs; return whether the last one left something."""
    is_left = False
    for _ in range(count):
        is_left = await world.job().step(await world.lease())
    return is_left


async def send_many(world: SettlingWorld, traces: range, *, parent: int | None = None, **names: Any) -> None:
    """Store traces of one span each, some in each record."""
    for first in traces[::RECORD_SPANS]:
        spans = [span_in(trace, 1, parent) for trace in range(first, min(first + RECORD_SPANS, traces.stop))]
        await world.send(*spans, **names)


async def flood(world: SettlingWorld) -> None:
    """Store many traces of one project before, between and after two of another."""
    await send_many(world, range(1_000, 3_000))
    await world.send(span_in(1, 1), project_id=SMALL)
    await steps(world, 1)
    await send_many(world, range(3_000, 4_000), partition_id="cluster/spans/1")
    await world.send(span_in(2, 1), project_id=SMALL, partition_id="cluster/spans/2")
    await steps(world, 1)


async def settled_count(world: SettlingWorld) -> int:
    return len(await world.settled())


async def test_project_that_sends_much_delays_no_other(world: SettlingWorld):
    await flood(world)
    world.clock.advance(31.0)
    await steps(world, 3)
    assert await world.settled(SMALL) == [(1, 1, "complete"), (2, 1, "complete")]
    assert await settled_count(world) < 3_000
    await world.run()
    assert await settled_count(world) == 3_000
    assert len(set(await world.settled())) == 3_000
    await world.run(1_000.0)
    assert (await settled_count(world), await world.windows_count()) == (3_000, 0)


async def test_project_that_sends_much_delays_no_incomplete_trace_of_another(world: SettlingWorld):
    await send_many(world, range(1_000, 3_000), parent=9)
    await world.send(span_in(1, 1, 9), project_id=SMALL)
    await steps(world, 1)
    world.clock.advance(901.0)
    await steps(world, 4)
    assert await world.settled(SMALL) == [(1, 1, "incomplete")]
    assert await settled_count(world) < 2_000
    await world.run()
    assert len(set(await world.settled())) == await settled_count(world) == 2_000
    assert await world.windows_count() == 0


class SlowForMany:
    """Does not end the statement about whole traces in time if it is about several."""

    def __init__(self, store: ColumnStore) -> None:
        self._store = store

    def __getattr__(self, name: str) -> object:
        return getattr(self._store, name)

    async def select(self, statement: Statement, /, *, deadline_s: float) -> pa.Table:
        if "is_complete" in statement.sql and len(statement.parameters["trace_ids"]) > TRACE_ID_BYTES:
            raise DeadlineExceeded("too slow")
        return await self._store.select(statement, deadline_s=deadline_s)


async def test_project_with_large_traces_delays_no_other(world: SettlingWorld):
    """A run may judge 2,000 versions: 20 of these traces, which are judged one by one."""
    for trace in range(100, 160):
        await world.send(*(span_in(trace, span, 1 if span > 1 else None) for span in range(1, 101)))
    await world.run(31.0)
    for trace in range(100, 160):
        await world.send(span_in(trace, 1, name="again"))
    await world.send(span_in(1, 1), project_id=SMALL)
    await steps(world, 1)
    world.clock.advance(31.0)
    store: Any = SlowForMany(world.store)
    for _ in range(2):
        assert await world.job(store).step(await world.lease())
    assert await world.settled(SMALL) == [(1, 1, "complete")]
    assert 20 <= len([1 for _, generation, _ in await world.settled() if generation == 2]) < 60
    while await world.job(store).step(await world.lease()):
        pass
    assert sorted(await world.settled()) == [
        (trace, generation, "complete") for trace in range(100, 160) for generation in (1, 2)
    ]


async def test_project_that_is_behind_is_what_the_progress_says(world: SettlingWorld):
    await flood(world)
    world.clock.advance(31.0)
    await steps(world, 2)
    behind = await read_settling_progress(world.database)
    world.clock.advance(100.0)
    await world.send(span_in(3, 1), project_id=SMALL)
    await steps(world, 2)
    later = await read_settling_progress(world.database)
    assert behind.oldest_us is not None
    assert later.oldest_us == behind.oldest_us
    assert later.behind_s(30.0) > 100.0
    await world.run(31.0)
    assert (await read_settling_progress(world.database)).behind_s(30.0) == 0.0


async def test_trace_that_changes_while_its_project_is_behind_settles_again(world: SettlingWorld):
    await flood(world)
    world.clock.advance(31.0)
    await steps(world, 2)
    late = max(trace for trace, _, _ in await world.settled())
    await world.send(span_in(late, 2, 1), span_in(3_999, 2, 1))
    await world.run(31.0)
    settled = [(trace, generation) for trace, generation, _ in await world.settled()]
    assert settled[-2:] == [(late, 2), (3_999, 1)]
    assert len(settled) == 3_001


async def test_each_of_several_projects_that_send_much_goes_on(world: SettlingWorld):
    large = [DEFAULT_PROJECT_ID, UUID(int=78), UUID(int=79)]
    for project_id in large:
        await send_many(world, range(1_000, 2_000), project_id=project_id)
    await steps(world, 1)
    world.clock.advance(31.0)
    await steps(world, 14)
    counts = [len(await world.settled(project_id)) for project_id in large]
    assert min(counts) > 0, counts
    await world.run()
    assert [len(await world.settled(project_id)) for project_id in large] == [1_000] * 3
