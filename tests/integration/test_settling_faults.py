"""No reader of the feed sees a part of a trace without a later generation, whatever fails (contract §3.6, ADR 0049).

Workers of several partitions store spans of the same traces. Their inserts are visible before they are recorded as
stored, records come twice, jobs fail at any statement, two jobs work at once, the lease is lost, clocks jump.
"""

from __future__ import annotations

import random
from collections import defaultdict
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Any

import pyarrow as pa
import pytest

from common.clickhouse.store import ColumnStore, Statement
from common.errors import ServiceError, Unavailable
from common.postgres.leases import Lease, LeaseLost
from common.postgres.pool import Database
from tests.integration.test_settled_feed import SettledReader
from tests.support.scale import scaled
from tests.support.settling import SettlingWorld, span_in

PARTITIONS = tuple(f"cluster/spans/{number}" for number in range(3))


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
    reader: SettledReader
    sent: dict[int, int] = field(default_factory=lambda: defaultdict(int))
    """How many spans of each trace are stored."""

    unrecorded: dict[str, list[int]] = field(default_factory=lambda: defaultdict(list))
    seen: dict[int, list[tuple[int, int]]] = field(default_factory=lambda: defaultdict(list))
    """Generation and number of spans, as a reader that goes on has seen them."""

    leases: list[Lease] = field(default_factory=list)

    async def do_something(self) -> None:
        act = self.source.choices((self.send, self.record, self.settle, self.read), weights=(4, 3, 5, 2))[0]
        await act()

    async def send(self) -> None:
        """Store spans of some traces, of which the root often comes last."""
        partition_id = self.source.choice(PARTITIONS)
        spans = []
        for trace in {self.source.randrange(1, 9) for _ in range(3)}:
            number = self.sent[trace] + 1
            self.sent[trace] = number
            parent = None if number == 2 else 2
            spans.append(span_in(trace, number, parent))
        offset = await self.world.send(*spans, partition_id=partition_id, is_recorded=False)
        if self.source.random() < 0.2:  # the insert is repeated
            await self.world.send(*spans, partition_id=partition_id, is_recorded=False, offset=offset)
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
        page = await self.reader.page(windowing={"limit": self.source.choice((1, 2, 100))})
        for trace in page["traces"]:
            self.note(trace)

    def note(self, trace: dict[str, Any]) -> None:
        number = int(trace["trace_id"], 16)
        self.seen[number].append((trace["settled"]["generation"], _count(trace)))

    async def finish(self) -> None:
        """Record everything, let enough time pass, and read to the end."""
        for partition_id, offsets in self.unrecorded.items():
            for offset in offsets:
                await self.world.record(offset, partition_id=partition_id)
        self.world.rows_max = 50_000
        for seconds in (1_000.0, 31.0, 900.0, 31.0):
            await self.world.run(seconds)
        while (page := await self.reader.page())["count"]:
            for trace in page["traces"]:
                self.note(trace)


def _count(node: dict[str, Any]) -> int:
    children = [
        child for each in node.get("spans", {}).values() for child in (each if isinstance(each, list) else [each])
    ]
    return len(children) + sum(map(_count, children))


@pytest.mark.parametrize("seed", range(scaled(2, 200)))
async def test_no_part_of_a_trace_without_a_later_generation(store: ColumnStore, database: Database, seed: int) -> None:
    source = random.Random(seed)
    world = SettlingWorld(store, database)
    chaos = Chaos(world, source, SettledReader(world))
    for _ in range(scaled(60, 150)):
        await chaos.do_something()
    await chaos.finish()

    assert chaos.seen.keys() == chaos.sent.keys()
    for trace, seen in chaos.seen.items():
        generations = [generation for generation, _ in seen]
        assert generations == sorted(set(generations)), "a generation came twice, or a lower one later"
        assert seen[-1][1] == chaos.sent[trace], "the last settling is of the whole trace"
    late = SettledReader(world)
    whole = {number: spans for number, _, _, spans in await late.rest()}
    assert whole == dict(chaos.sent)
