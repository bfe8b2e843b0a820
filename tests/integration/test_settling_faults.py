"""No reader of the feed sees a part of a trace without a later generation, whatever fails (contract §3.6, ADR 0049).

Workers of several partitions store spans of the same traces. Their inserts are visible before they are recorded as
stored, records come twice, jobs fail at any statement, two jobs work at once, the lease is lost, clocks jump. One
project sends more than the others, and runs read little, so that projects have frontiers of their own.
"""

from __future__ import annotations

import random
from collections import defaultdict
from contextlib import suppress
from dataclasses import dataclass, field
from functools import partial
from typing import Any, NamedTuple
from uuid import UUID

import pyarrow as pa
import pytest

from common.clickhouse.store import ColumnStore, Statement
from common.errors import ServiceError, Unavailable
from common.ids import DEFAULT_PROJECT_ID
from common.postgres.leases import Lease, LeaseLost
from common.postgres.pool import Database
from tests.integration.test_settled_feed import SettledReader
from tests.support.scale import scaled
from tests.support.settling import SettlingWorld, span_in

PARTITIONS = tuple(f"cluster/spans/{number}" for number in range(3))
PROJECTS = (DEFAULT_PROJECT_ID, UUID(int=77), UUID(int=78))


class NamedTrace(NamedTuple):
    """A trace of a project, by number."""

    project_id: UUID
    number: int


class FailingStore:
    """Passes statements on; some of them fail, before or after they have taken effect."""

    def __init__(self, store: ColumnStore, source: random.Random) -> None:
        self._store = store
        self._source = source

    def __getattr__(self, name: str) -> object:
        return getattr(self._store, name)

    async def select(self, statement: Statement, /, *, deadline_s: float) -> pa.Table:
        self._fail(0.05)
        return await self._store.select(statement, deadline_s=deadline_s)

    async def insert(self, table: str, rows: pa.Table, /, *, dedup_token: str, deadline_s: float) -> None:
        self._fail(0.2)
        await self._store.insert(table, rows, dedup_token=dedup_token, deadline_s=deadline_s)
        self._fail(0.2)

    def _fail(self, probability: float) -> None:
        if self._source.random() < probability:
            raise Unavailable("killed")


@dataclass
class Chaos:
    """What happens at random, and what a reader has seen."""

    world: SettlingWorld
    source: random.Random
    readers: dict[UUID, SettledReader]
    sent: dict[NamedTrace, int] = field(default_factory=lambda: defaultdict(int))
    """How many spans of each trace are stored."""

    unrecorded: dict[str, list[int]] = field(default_factory=lambda: defaultdict(list))
    seen: dict[NamedTrace, list[tuple[int, int]]] = field(default_factory=lambda: defaultdict(list))
    """Generation and number of spans, as a reader that goes on has seen them."""

    leases: list[Lease] = field(default_factory=list)

    async def do_something(self) -> None:
        act = self.source.choices((self.send, self.record, self.settle, self.read), weights=(4, 3, 5, 2))[0]
        await act()

    async def send(self) -> None:
        """Store spans of some traces, of which the root often comes last."""
        partition_id = self.source.choice(PARTITIONS)
        project_id = self.source.choices(PROJECTS, weights=(8, 1, 1))[0]
        spans = []
        for trace in {NamedTrace(project_id, self.source.randrange(1, 9)) for _ in range(3)}:
            number = self.sent[trace] + 1
            self.sent[trace] = number
            parent = None if number == 2 else 2
            spans.append(span_in(trace.number, number, parent))
        send = partial(self.world.send, *spans, partition_id=partition_id, project_id=project_id, is_recorded=False)
        offset = await send()
        if self.source.random() < 0.2:  # the insert is repeated
            await send(offset=offset)
        self.unrecorded[partition_id].append(offset)

    async def record(self) -> None:
        partition_id = self.source.choice(PARTITIONS)
        if self.unrecorded[partition_id]:
            await self.world.record(self.unrecorded[partition_id].pop(0), partition_id=partition_id)

    async def settle(self) -> None:
        """A run of one of two jobs, which may have lost its lease, after some time."""
        if self.source.random() < 0.3 or not self.leases:
            self.leases.append(await self.world.lease())
        self.world.rows_max = self.source.choice((1, 3, 50_000))
        job = self.world.job(FailingStore(self.world.store, self.source))  # type: ignore[arg-type]
        with suppress(LeaseLost, ServiceError):
            await job.step(self.source.choice(self.leases[-2:]))
        self.world.clock.advance(self.source.choice((0.5, 3.0, 11.0, 40.0, 1_000.0, -500.0)))

    async def read(self) -> None:
        reader = self.readers[self.source.choice(PROJECTS)]
        page = await reader.page(windowing={"limit": self.source.choice((1, 2, 100))})
        for trace in page["traces"]:
            self.note(reader.project_id, trace)

    def note(self, project_id: UUID, trace: dict[str, Any]) -> None:
        name = NamedTrace(project_id, int(trace["trace_id"], 16))
        self.seen[name].append((trace["settled"]["generation"], _count(trace)))

    async def finish(self) -> None:
        """Record everything, let enough time pass, and read to the end."""
        for partition_id, offsets in self.unrecorded.items():
            for offset in offsets:
                await self.world.record(offset, partition_id=partition_id)
        self.world.rows_max = self.source.choice((1, 7, 50_000))
        for seconds in (1_000.0, 31.0, 900.0, 31.0):
            await self.world.run(seconds)
        for reader in self.readers.values():
            while (page := await reader.page())["count"]:
                for trace in page["traces"]:
                    self.note(reader.project_id, trace)


def _count(node: dict[str, Any]) -> int:
    children = [
        child for each in node.get("spans", {}).values() for child in (each if isinstance(each, list) else [each])
    ]
    return len(children) + sum(map(_count, children))


@pytest.mark.parametrize("seed", range(scaled(2, 200)))
async def test_no_part_of_a_trace_without_a_later_generation(store: ColumnStore, database: Database, seed: int) -> None:
    source = random.Random(seed)
    world = SettlingWorld(store, database)
    chaos = Chaos(world, source, {each: SettledReader(world, project_id=each) for each in PROJECTS})
    for _ in range(scaled(60, 150)):
        await chaos.do_something()
    await chaos.finish()

    assert chaos.seen.keys() == chaos.sent.keys()
    for trace, seen in chaos.seen.items():
        generations = [generation for generation, _ in seen]
        assert generations == sorted(set(generations)), "a generation came twice, or a lower one later"
        assert seen[-1][1] == chaos.sent[trace], "the last settling is of the whole trace"
    whole: dict[NamedTrace, int] = {}
    for project_id in PROJECTS:
        late = SettledReader(world, project_id=project_id)
        whole |= {NamedTrace(project_id, number): spans for number, _, _, spans in await late.rest()}
    assert whole == dict(chaos.sent)
