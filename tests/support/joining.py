"""Workers as steps, and an API: what comes later than its span, in any order, with restarts (ADR 0046, ADR 0050)."""

from __future__ import annotations

import random
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple
from uuid import uuid4

import aiohttp
import orjson
import pyarrow as pa

from common.clickhouse.connect import open_store
from common.clickhouse.event_columns import NO_EVENTS, LateEvent, event_rows, rows_of_events
from common.clickhouse.migrate import migrate
from common.clickhouse.span_columns import SPANS_TABLE, SpanColumns, stamped
from common.clickhouse.store import ColumnStore
from common.clickhouse.stored_through import STORED_THROUGH_TABLE, positions_table
from common.ids import DEFAULT_PROJECT_ID
from common.kafka.record import Encoding, Signal
from common.limits import SpanLimits
from common.score import Score, ScoreSource
from common.settings import ClickHouseSettings
from common.span import Event, LogMembers, Span
from common.stored_position import ALL_PROJECTS, StoredPosition
from common.times import SystemClock
from ingest.batch import NO_SPANS
from ingest.decode import PlainTopic, Rules, decode_record
from ingest.decoding.decoder import ThreadDecoder
from ingest.joiner import Joiner
from ingest.joining.derive import merged
from ingest.masking.dead_letters import NO_MASKING
from ingest.normalize import normalize
from query_api.spans.rows import Layout
from tests.fakes.kafka import MemoryBroker
from tests.support.api import context_of, serving
from tests.support.row_tables import as_the_engine_returns
from tests.support.span_corpus import START_NS

RULES = Rules({"otlp_logs": PlainTopic(Encoding.OTLP_PROTO, signal=Signal.LOGS)}, SpanLimits(), DEFAULT_PROJECT_ID)
LOGS_TOPIC = "otlp_logs"
SPANS_LOG, LOGS, OTHER_LOGS = "c/spans/0", "c/otlp_logs/0", "c/otlp_logs/1"
CHAT: dict[str, Any] = {
    "gen_ai.operation.name": "chat",
    "gen_ai.request.model": "gpt-4o",
    "gen_ai.usage.input_tokens": 7,
}
SPAN = Span(b"t" * 16, b"s" * 16, b"p" * 16, "chat gpt-4o", 3, START_NS, START_NS + 1_000, 1, None, CHAT)
ASKED = Event("gen_ai.user.message", START_NS + 10, {"content": "How many apples?"}, log=LogMembers())
ANSWERED = Event(
    "gen_ai.choice",
    START_NS + 30,
    {"message": '{"content":"Three pears."}'},
    log=LogMembers("a body of plums", "INFO", 9),
)
FAILED = Event("exception", START_NS + 20, {"exception.type": "TimeoutError"}, log=LogMembers())


@dataclass(frozen=True)
class Sent:
    """A record: a span, or events of a span. Its time is its offset, unless it is given."""

    partition_id: str
    offset: int
    span: Span | None = None
    events: Sequence[Event] = ()
    about: tuple[bytes, bytes] = (SPAN.trace_id, SPAN.span_id)
    record_ms: int | None = None


class Rows(NamedTuple):
    """The rows of a record."""

    spans: pa.Table
    events: pa.Table


@dataclass
class World:
    """An engine, workers that are steps, and the API. What the API publishes is in ``broker``."""

    store: ColumnStore
    client: aiohttp.ClientSession
    broker: MemoryBroker
    next: str | None = None

    def __post_init__(self) -> None:
        self.joiner = Joiner(self.store, ThreadDecoder(RULES), clock=SystemClock(), timeout_s=60.0)

    async def insert(self, sent: Sent) -> Rows:
        stored_us = SystemClock().now_ns() // 1_000
        record_ms = sent.offset if sent.record_ms is None else sent.record_ms
        place = {"partition_id": sent.partition_id, "record_offset": sent.offset, "record_ms": record_ms}
        if sent.span is not None:
            columns = SpanColumns()
            columns.append_record(
                project_ids=DEFAULT_PROJECT_ID,
                spans=[sent.span],
                span_indexes=[0],
                normalized_spans=normalize([sent.span]),
                **place,  # type: ignore[arg-type]
            )
            rows = columns.rows()
            await self.store.insert(
                SPANS_TABLE, stamped(rows, stored_us=stored_us), dedup_token=str(uuid4()), deadline_s=60.0
            )
            return Rows(rows, NO_EVENTS)
        late = [LateEvent(DEFAULT_PROJECT_ID, *sent.about, event, index) for index, event in enumerate(sent.events)]
        events = event_rows(list(rows_of_events(late, **place)))  # type: ignore[arg-type]
        await self.joiner.store(events, dedup_token=str(uuid4()))
        return Rows(NO_SPANS, events)

    async def record(self, sent: Sent) -> None:
        projects = (ALL_PROJECTS, DEFAULT_PROJECT_ID)
        positions = [StoredPosition(project, sent.partition_id, sent.offset, sent.offset, 0) for project in projects]
        await self.store.insert(
            STORED_THROUGH_TABLE, positions_table(positions), dedup_token=str(uuid4()), deadline_s=60.0
        )

    async def handle(self, *records: Sent) -> None:
        """Store, join and record each, one after the other."""
        for sent in records:
            await self.joiner.join(*await self.insert(sent), NO_MASKING)
            await self.record(sent)

    async def delete(self, trace_id: bytes) -> None:
        """Delete a trace, and handle what is published then."""
        before = len(self.broker.records(LOGS_TOPIC))
        async with self.client.delete(f"/traces/{trace_id.hex()}") as response:
            assert response.status == 202, await response.text()
        for number, record in enumerate(self.broker.records(LOGS_TOPIC)[before:], before):
            decoded = decode_record(record, RULES, now_ns=SystemClock().now_ns())
            for late in decoded.events:
                await self.handle(
                    Sent("c/deletions/0", number, events=[late.event], about=(late.trace_id, late.span_id))
                )

    async def interleave(
        self, partitions: Sequence[Partition], source: random.Random, *, restarts: int
    ) -> tuple[list[dict[str, Any]], list[str]]:
        """Take the steps of all workers in any order, with restarts; return what the feed returned, and the steps."""
        read: list[dict[str, Any]] = []
        taken: list[str] = []
        while unfinished := [each for each in partitions if each.at < len(each.records)]:
            partition = source.choice(unfinished)
            what = source.choice(["step"] * 3 + ["restart", "read"])
            taken.append(f"{what} {partition.records[partition.at].partition_id} {partition.at}.{partition.step}")
            if what == "step":
                await partition.take_step(self)
            elif what == "read":
                read += await self.read_feed()
            elif restarts:
                restarts -= 1
                partition.restart(source.randint(0, 1))
        return read + await self.read_feed(), taken

    async def ask(self, **body: Any) -> Any:
        async with self.client.post("/spans/query", json=body) as response:
            assert response.status == 200, await response.text()
            return await response.json()

    async def shown(self, *conditions: dict[str, Any]) -> list[dict[str, Any]]:
        page = await self.ask(filtering={"conditions": list(conditions)})
        return [without_time(span) for span in page["spans"]]

    async def read_feed(self) -> list[dict[str, Any]]:
        """Read what is new."""
        windowing: dict[str, Any] = {"by": "created_at", "limit": 1}
        new: list[dict[str, Any]] = []
        while True:
            page = await self.ask(windowing=windowing | ({} if self.next is None else {"next": self.next}))
            self.next = page["windowing"]["next"]
            if not page["spans"]:
                return new
            new += page["spans"]


@asynccontextmanager
async def open_world(data_dir: Path, configured: ClickHouseSettings) -> AsyncIterator[World]:
    """A world with empty tables."""
    await migrate(configured, data_dir=data_dir)
    store, broker = open_store(configured, data_dir=data_dir), MemoryBroker()
    async with serving(context_of(store=store, broker=broker, clock=SystemClock())) as client:
        yield World(store, client, broker)
    await store.close()


def without_time(span: dict[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in span.items() if name != "created_at"}


def shown_at_once(
    span: Span, events: Sequence[Event], annotations: Sequence[tuple[Span, Mapping[str, float]]] = ()
) -> dict[str, Any]:
    """What responses show of the span if the events, and the numbers that annotations give, had come with it."""
    scores = [
        Score(name, value, None, None, ScoreSource("annotation", each.trace_id, each.span_id, "tone"), each.end_ns)
        for each, values in annotations
        for name, value in values.items()
    ]
    whole = span._replace(events=merged(span.events, events), scores=tuple(scores))
    columns = SpanColumns()
    columns.append_record(
        project_ids=DEFAULT_PROJECT_ID,
        partition_id=SPANS_LOG,
        record_offset=0,
        record_ms=0,
        spans=[whole],
        span_indexes=[0],
        normalized_spans=normalize([whole]),
    )
    [rendered] = Layout.of(as_the_engine_returns(stamped(columns.rows(), stored_us=1))).spans({})
    return without_time(orjson.loads(rendered.json))


@dataclass
class Partition:
    """The records of a partition, and the worker that has it: the next record, and its next step."""

    records: Sequence[Sent]
    at: int = 0
    step: int = 0
    rows: Rows | None = None

    async def take_step(self, world: World) -> None:
        sent = self.records[self.at]
        if self.step == 0:
            self.rows = await world.insert(sent)
        elif self.step == 1:
            assert self.rows is not None
            await world.joiner.join(*self.rows, NO_MASKING)
        else:
            await world.record(sent)
        self.at, self.step = (self.at + 1, 0) if self.step == 2 else (self.at, self.step + 1)

    def restart(self, back: int) -> None:
        """Begin again with a record that is not committed: this one, or the one before."""
        self.at, self.step = max(0, self.at - back), 0
