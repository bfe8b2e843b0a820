"""Traces settle as on one engine where the tables are divided among two shards (ADR 0037, ADR 0049)."""

from __future__ import annotations

from common.clickhouse.store import ColumnStore
from common.postgres.pool import Database
from tests.integration.test_settled_feed import SettledReader, check_spans_are_found_by_how_their_trace_settled
from tests.support.settling import SettlingWorld, span_in

TRACES = 12


async def test_traces_of_both_shards_settle_and_settle_again(divided: ColumnStore, database: Database) -> None:
    world = SettlingWorld(divided, database)
    for trace in range(1, TRACES + 1):
        root, child = span_in(trace, 1), span_in(trace, 2, 1)
        await world.send(root, partition_id="cluster/spans/0")
        await world.send(child, span_in(trace + 100, 2, 1), partition_id="cluster/spans/1")
    reader = SettledReader(world)
    await world.run(31.0)
    assert await reader.rest() == [(trace, 1, "complete", 2) for trace in range(1, TRACES + 1)]
    await world.send(*(span_in(trace, 3, 1) for trace in range(1, TRACES + 1, 2)))
    await world.run(31.0)
    assert await reader.rest() == [(trace, 2, "complete", 3) for trace in range(1, TRACES + 1, 2)]
    await world.run(900.0)
    assert await reader.rest() == [(trace + 100, 1, "incomplete", 1) for trace in range(1, TRACES + 1)]
    assert len(await SettledReader(world).rest()) == 2 * TRACES


async def test_spans_of_both_shards_are_found_by_how_their_trace_settled(
    divided: ColumnStore, database: Database
) -> None:
    await check_spans_are_found_by_how_their_trace_settled(SettlingWorld(divided, database))
