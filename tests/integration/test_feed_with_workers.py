"""The promise of the feed under four workers that insert at once: never a gap, never a version twice (ADR 0007).

Real workers on a broker in memory and the real engine; every insert becomes visible part by part, with pauses;
partitions move, and members that the group has removed keep writing.
"""

from __future__ import annotations

import asyncio
import random
from collections import Counter
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from pathlib import Path
from typing import Final
from uuid import UUID

import pytest
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest

from common.clickhouse.connect import open_store
from common.clickhouse.migrate import migrate
from common.clickhouse.store import ColumnStore
from common.ids import DEFAULT_PROJECT_ID
from common.limits import SpanLimits
from common.settings import ClickHouseSettings, Encoding, TopicSettings
from common.times import SystemClock
from ingest.batch import FlushPolicy
from ingest.clickhouse_sink import ClickHouseSink
from ingest.decode import Rules
from ingest.decoding.decoder import ThreadDecoder
from ingest.policy import Dependencies, Policy
from ingest.stored_positions import StoredPositions
from ingest.worker import Worker
from query_api.request.context import ApiContext
from tests.fakes.dead_letters import MemoryDeadLetters
from tests.fakes.kafka import MemoryBroker, MemorySource
from tests.support.api import context_of
from tests.support.feed import PartByPartStore, Reader, versions
from tests.support.otlp import START_NS
from tests.support.scale import scaled

TOPICS: Final = ("otlp_a", "otlp_b")
RULES: Final = Rules(
    {topic: TopicSettings(encoding=Encoding.OTLP_PROTO) for topic in TOPICS}, SpanLimits(), DEFAULT_PROJECT_ID
)
POLICY: Final = Policy(rules=RULES, flush=FlushPolicy(rows_max=100, age_s_max=0.1), poll_s_max=0.02, poll_records_max=7)
PAUSE_S_MAX: Final = 0.03
TRACES: Final = 24
RECORDS: Final = scaled(32, 200)


class AnyProject:
    async def exists(self, project_id: UUID, /) -> bool:
        return True


class Production:
    """Records of many spans, new ones and new versions of old ones, with the expected result."""

    def __init__(self, source: random.Random) -> None:
        self._source = source
        self._sent: list[tuple[int, int]] = []
        self._versions: Counter[tuple[int, int]] = Counter()
        self.last: dict[str, int] = {}
        """Span → its latest version at the end."""

    def record(self) -> tuple[str, bytes, bytes]:
        """Return topic, key and value of the next record. A trace stays in one topic, and so in one partition."""
        trace = self._source.randrange(TRACES)
        message = ExportTraceServiceRequest()
        spans = message.resource_spans.add().scope_spans.add().spans
        for span_number in {self._span_number(trace) for _ in range(self._source.choice((1, 2, 5, 40)))}:
            self._versions[trace, span_number] += 1
            version = self._versions[trace, span_number]
            span = spans.add()
            span.name = "s"
            span.trace_id = (trace + 1).to_bytes(16, "big")
            span.span_id = span_number.to_bytes(8, "big")
            # A version may be late, and may have moved in time, even into another month.
            span.start_time_unix_nano = START_NS - self._source.choice((0, 0, 0, 10**6, 40 * 86_400 * 10**9))
            span.end_time_unix_nano = span.start_time_unix_nano + 1
            attribute = span.attributes.add()
            attribute.key, attribute.value.int_value = "v", version
            self.last[span.trace_id.hex() + span.span_id.hex()] = version
        return (
            TOPICS[trace % 2],
            message.resource_spans[0].scope_spans[0].spans[0].trace_id,
            message.SerializeToString(),
        )

    def _span_number(self, trace: int) -> int:
        if self._sent and self._source.random() < 0.3:
            old_trace, number = self._source.choice(self._sent)
            if old_trace == trace:
                return number
        self._sent.append((trace, len(self._sent) + 1))
        return len(self._sent)


@pytest.fixture
async def store(chdb_dir: Path, chdb_settings: Callable[[], ClickHouseSettings]) -> AsyncIterator[ColumnStore]:
    settings = chdb_settings()
    await migrate(settings, data_dir=chdb_dir)
    store = open_store(settings, data_dir=chdb_dir)
    yield store
    await store.close()


@asynccontextmanager
async def worker_running(
    broker: MemoryBroker, store: ColumnStore, context: ApiContext, source: random.Random
) -> AsyncIterator[MemorySource]:
    """Run a worker inside the context; drain it on exit."""
    member = broker.source(*TOPICS)
    paused = PartByPartStore(store, source=source, pause_s_max=PAUSE_S_MAX)
    clock = SystemClock()
    dependencies = Dependencies(
        source=member,
        decoder=ThreadDecoder(RULES),
        sinks=(ClickHouseSink(paused, clock=clock, insert_timeout_s=10.0),),
        positions=StoredPositions(paused, clock=clock, insert_timeout_s=10.0, announce=context.stored.learn),
        dead_letters=MemoryDeadLetters(),
        publisher=broker.publisher(),
        projects=AnyProject(),
    )
    worker = Worker(POLICY, dependencies)
    running = asyncio.create_task(worker.run(), name="worker")
    try:
        yield member
    finally:
        worker.stop()
        async with asyncio.timeout(180):
            await running


async def produce(broker: MemoryBroker, production: Production, count: int) -> None:
    for _ in range(count):
        topic, key, value = production.record()
        await broker.append(topic, value, key=key)
        await asyncio.sleep(0.002)


async def read_all_the_while(
    context: ApiContext, *, limit: int, ended: asyncio.Event, reader: Reader | None = None
) -> list[tuple[str, int]]:
    """Return every version that a reader gets, until ``ended`` is set and nothing is left."""
    reader = reader or Reader(context, windowing={"limit": limit})
    given: list[tuple[str, int]] = []
    while True:
        was_ended = ended.is_set()
        page = await reader.page(wait_s=0.05)
        given += versions(page["spans"], attribute="v")
        if was_ended and not page["count"]:
            return given


async def settled(broker: MemoryBroker) -> None:
    """Return when everything that was produced is committed."""
    produced = {partition: len(broker.log(partition)) for topic in TOPICS for partition in broker.partitions_of(topic)}
    wanted = {partition: count for partition, count in produced.items() if count}
    async with asyncio.timeout(180):
        while {partition: broker.committed().get(partition) for partition in wanted} != wanted:  # noqa: ASYNC110 - of another loop
            await asyncio.sleep(0.01)


def twice(given: Sequence[tuple[str, int]]) -> list[tuple[str, int]]:
    return [version for version, count in Counter(given).items() if count > 1]


@pytest.mark.scaled
async def test_feed_of_four_workers_has_no_gap_and_no_duplicate(store: ColumnStore) -> None:
    source = random.Random(4)
    broker, production = MemoryBroker(partitions=4), Production(source)
    context = context_of(store=store, clock=SystemClock())
    ended = asyncio.Event()

    async with asyncio.TaskGroup() as tasks:
        reading = [tasks.create_task(read_all_the_while(context, limit=limit, ended=ended)) for limit in (7, 1_000)]
        async with AsyncExitStack() as workers:
            members = [
                await workers.enter_async_context(worker_running(broker, store, context, source)) for _ in range(3)
            ]
            await produce(broker, production, RECORDS // 4)
            async with worker_running(broker, store, context, source):  # a fourth one joins, and leaves again
                await produce(broker, production, RECORDS // 4)
                late = Reader(context, windowing={"limit": 50})
                assert (await late.page(**{"from": "now"}))["count"] == 0
                before = dict(production.last)
                reading.append(tasks.create_task(read_all_the_while(context, limit=50, ended=ended, reader=late)))
                await members[0].expire()  # removed by the group without knowing it
                await produce(broker, production, RECORDS // 4)
            await produce(broker, production, RECORDS // 4)
            await settled(broker)
        ended.set()

    *whole, since = (task.result() for task in reading)
    for given in (*whole, since):
        assert twice(given) == []
    for given in whole:
        assert dict(given) == production.last  # the last returned version of each span is its latest
    new = {span: version for span, version in production.last.items() if before.get(span) != version}
    assert new
    assert new.items() <= dict(since).items()
    assert dict(since).items() <= production.last.items()
