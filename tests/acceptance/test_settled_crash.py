"""Processes that settle traces are killed at any moment: a reader sees every trace whole, and no generation twice."""

from __future__ import annotations

import asyncio
import random
from collections import defaultdict
from collections.abc import Callable
from pathlib import Path
from typing import Any, Final

import pytest

from common.postgres.pool import Database
from common.settings import ClickHouseSettings, PostgresSettings
from common.stored_position import ALL_PROJECTS
from tests.acceptance.test_delivery_crash import deliverer
from tests.support.delivery import Deliveries, deliveries, delivery_settings
from tests.support.feed import settle
from tests.support.ports import free_port
from tests.support.scale import scaled
from tests.support.stores import opened_store

pytestmark = pytest.mark.long

PARTITIONS: Final = ("cluster/spans/0", "cluster/spans/1")
TRACES: Final = 30
KILLS: Final = scaled(5, 60)
SETTLINGS: Final = 5
"""That a reader has seen of a process before it is killed."""

WHOLE_S: Final = 180.0


class Reader:
    """Follows the feed, and knows what it has seen of each trace: generation and number of spans."""

    def __init__(self, api: Deliveries) -> None:
        self._api = api
        self.next: str | None = None
        self.seen: dict[int, list[tuple[int, int]]] = defaultdict(list)

    async def read_more(self, count: int) -> None:
        """Read until ``count`` more settlings have come."""
        wanted = self.count + count
        async with asyncio.timeout(WHOLE_S):
            while self.count < wanted:
                await self.read()

    @property
    def count(self) -> int:
        return sum(map(len, self.seen.values()))

    async def read(self) -> None:
        windowing: dict[str, Any] = {"by": "settled_at", "wait_s": 1}
        if self.next is not None:
            windowing["next"] = self.next
        page = await self._api.call("POST", "/traces/query", {"windowing": windowing})
        self.next = page["windowing"]["next"]
        for trace in page["traces"]:
            self.seen[int(trace["trace_id"], 16)].append((trace["settled"]["generation"], _count(trace)))


def _count(node: dict[str, Any]) -> int:
    below = [child for each in node.get("spans", {}).values() for child in (each if isinstance(each, list) else [each])]
    return len(below) + sum(map(_count, below))


async def store_until(stopping: asyncio.Event, api: Deliveries, source: random.Random) -> dict[int, int]:
    """Store spans of some traces, the root of each one not first; return how many each has."""
    stored: dict[int, int] = defaultdict(int)
    while not stopping.is_set():
        trace, partition_id = source.randrange(1, TRACES + 1), source.choice(PARTITIONS)
        stored[trace] += 1
        number = stored[trace]
        parent = None if number == 2 else (2).to_bytes(8, "big") * 2
        members: dict[str, Any] = {"trace_id": trace.to_bytes(16, "big"), "parent_id": parent}
        await api.store([number], partition_id=partition_id, **members)
        offset = api.offsets[partition_id]
        await settle(api.context.store, offset=offset, partition_id=partition_id, project_id=ALL_PROJECTS)
        await asyncio.sleep(0.05)
    return stored


@pytest.mark.scaled
@pytest.mark.timeout(scaled(600, 3_600))
async def test_killed_jobs_miss_no_trace_and_repeat_no_generation(
    http_settings: Callable[[], ClickHouseSettings],
    database_settings: PostgresSettings,
    database: Database,
    tmp_path: Path,
) -> None:
    source = random.Random(1)
    settings = delivery_settings(lease_s=1.0).model_copy(
        update={"settling_s": 0.5, "settling_max_s": 3.0, "clickhouse": http_settings()}
    )
    dsn = database_settings.dsn.get_secret_value()
    stopping = asyncio.Event()
    async with (
        opened_store(settings.clickhouse, data_dir=tmp_path) as store,
        deliveries(store, database, settings) as api,
    ):
        nowhere = settings.kafka.model_copy(update={"bootstrap": f"127.0.0.1:{free_port()}"})
        settings = api.context.settings.model_copy(update={"kafka": nowhere})
        reader = Reader(api)
        storing = asyncio.create_task(store_until(stopping, api, source))
        for _ in range(KILLS):
            with deliverer(settings, dsn, tmp_path / "log", ""):
                await reader.read_more(SETTLINGS)
                await asyncio.sleep(source.uniform(0.0, 0.7))
        stopping.set()
        stored = await storing
        with deliverer(settings, dsn, tmp_path / "log", ""):
            async with asyncio.timeout(WHOLE_S):
                while {trace: seen[-1][1] for trace, seen in reader.seen.items()} != stored:
                    await reader.read()

    for seen in reader.seen.values():
        generations = [generation for generation, _ in seen]
        assert generations == sorted(set(generations))
    assert reader.count > len(stored), "some traces settled again"
