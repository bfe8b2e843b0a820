"""A span and the log records that name it, in every order: one answer, and the feed returns each version once.

Workers are steps here: a record is stored, then joined, then recorded as stored. The steps of several workers are taken
in any order, and a worker that ends between two of them begins again with the same record.
"""

from __future__ import annotations

import random
from collections.abc import AsyncIterator, Callable, Sequence
from dataclasses import dataclass
from itertools import permutations
from pathlib import Path
from typing import Any
from uuid import uuid4

import aiohttp
import orjson
import pyarrow as pa
import pytest

from common.clickhouse.connect import open_store
from common.clickhouse.event_columns import EVENTS_TABLE, EventColumns, LateEvent
from common.clickhouse.migrate import migrate
from common.clickhouse.span_columns import SPANS_TABLE, SpanColumns, stamped
from common.clickhouse.store import ColumnStore
from common.clickhouse.stored_through import STORED_THROUGH_TABLE, positions_table
from common.ids import DEFAULT_PROJECT_ID
from common.limits import SpanLimits
from common.settings import ClickHouseSettings
from common.span import Event, LogMembers, Span
from common.stored_position import ALL_PROJECTS, StoredPosition
from common.telemetry import SPANS_NOT_JOINED
from common.times import SystemClock
from ingest.batch import NAMING
from ingest.decode import Rules
from ingest.decoding.decoder import ThreadDecoder
from ingest.joiner import CHUNK_BYTES, Behind, Joiner, ShownEvents, SpanName, chunks_of
from ingest.joining.chunk import Arrival
from ingest.joining.derive import EVENTS_MAX, merged
from ingest.masking.dead_letters import NO_MASKING
from ingest.normalize import normalize
from query_api.spans.rows import Layout
from tests.support.api import context_of, serving
from tests.support.row_tables import as_the_engine_returns
from tests.support.scale import rest_is_long
from tests.support.span_corpus import START_NS

RULES = Rules({}, SpanLimits(), DEFAULT_PROJECT_ID)
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
    """A record: a span, or events of it."""

    partition_id: str
    offset: int
    span: Span | None = None
    events: Sequence[Event] = ()


@dataclass
class World:
    """An engine, workers that are steps, and the API."""

    store: ColumnStore
    client: aiohttp.ClientSession
    next: str | None = None

    def __post_init__(self) -> None:
        self.joiner = Joiner(self.store, ThreadDecoder(RULES), clock=SystemClock(), timeout_s=60.0)

    async def insert(self, sent: Sent) -> pa.Table:
        stored_us = SystemClock().now_ns() // 1_000
        place = {"partition_id": sent.partition_id, "record_offset": sent.offset, "record_ms": sent.offset}
        if sent.span is not None:
            columns = SpanColumns()
            columns.append_record(
                project_ids=DEFAULT_PROJECT_ID,
                spans=[sent.span],
                span_indexes=[0],
                normalized_spans=normalize([sent.span]),
                **place,  # type: ignore[arg-type]
            )
            table, rows = SPANS_TABLE, stamped(columns.rows(), stored_us=stored_us)
        else:
            events = EventColumns()
            late = [
                LateEvent(DEFAULT_PROJECT_ID, SPAN.trace_id, SPAN.span_id, event, index)
                for index, event in enumerate(sent.events)
            ]
            events.append_record(late, **place)  # type: ignore[arg-type]
            table, rows = EVENTS_TABLE, stamped(events.rows(), stored_us=stored_us)
        await self.store.insert(
            table, rows, dedup_token=f"{sent.partition_id}-{sent.offset}-{uuid4()}", deadline_s=60.0
        )
        return rows.select(NAMING)

    async def record(self, sent: Sent) -> None:
        projects = (ALL_PROJECTS, DEFAULT_PROJECT_ID)
        positions = [StoredPosition(project, sent.partition_id, sent.offset, sent.offset, 0) for project in projects]
        await self.store.insert(
            STORED_THROUGH_TABLE, positions_table(positions), dedup_token=str(uuid4()), deadline_s=60.0
        )

    async def handle(self, *records: Sent) -> None:
        """Store, join and record each, one after the other."""
        for sent in records:
            rows = await self.insert(sent)
            await self.joiner.join(rows, NO_MASKING)
            await self.record(sent)

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


def without_time(span: dict[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in span.items() if name != "created_at"}


@pytest.fixture
async def world(chdb_dir: Path, chdb_settings: Callable[[], ClickHouseSettings]) -> AsyncIterator[World]:
    configured = chdb_settings()
    await migrate(configured, data_dir=chdb_dir)
    store = open_store(configured, data_dir=chdb_dir)
    async with serving(context_of(store=store, clock=SystemClock())) as client:
        yield World(store, client)
    await store.close()


def shown_at_once(span: Span, events: Sequence[Event]) -> dict[str, Any]:
    """What responses show of the span if the events came with it."""
    whole = span._replace(events=merged(span.events, events))
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


RECORDS = [
    Sent(SPANS_LOG, 0, span=SPAN),
    Sent(LOGS, 0, events=[ASKED]),
    Sent(OTHER_LOGS, 0, events=[ANSWERED, FAILED]),
]


@pytest.mark.parametrize("order", list(permutations(range(3))), ids=str)
def evaluation(value: float, at_ns: int) -> Event:
    said = {"gen_ai.evaluation.name": "Relevance", "gen_ai.evaluation.score.value": value}
    return Event("gen_ai.evaluation.result", at_ns, said, log=LogMembers())


async def test_evaluation_that_comes_later_is_a_score(world: World) -> None:
    later = evaluation(0.25, START_NS + 3_000)
    records = [
        Sent(SPANS_LOG, 1, span=SPAN),
        Sent(LOGS, 1, events=[later]),
        Sent(LOGS, 2, events=[evaluation(0.5, START_NS + 2_000)]),
        Sent(LOGS, 3, events=[ANSWERED]),
    ]
    await world.handle(*records)

    [span] = await world.shown()

    assert [(score["name"], score["value"], score["source"]) for score in span["scores"]] == [
        ("Relevance", 0.25, {"kind": "event"})
    ]


async def test_answer_does_not_depend_on_the_order(world: World, order: Sequence[int]) -> None:
    await world.handle(*(RECORDS[index] for index in order))

    assert await world.shown() == [shown_at_once(SPAN, [ASKED, ANSWERED, FAILED])]


async def test_event_is_found_in_every_field(world: World) -> None:
    await world.handle(*RECORDS)

    for condition in (
        {"field": "events", "key": "attributes.exception.type", "operator": "has", "value": "TimeoutError"},
        {"field": "content", "operator": "contains", "value": "apples"},
        {"field": "content", "operator": "contains", "value": "plums"},
        {"field": "attributes", "key": "ag.exception.type", "operator": "is", "value": "TimeoutError"},
    ):
        assert len(await world.shown(condition)) == 1, condition


async def test_record_that_comes_again_changes_nothing(world: World) -> None:
    await world.handle(*RECORDS)
    before, read = await world.shown(), await world.read_feed()

    await world.handle(*RECORDS, Sent(LOGS, 1, events=[ASKED]), Sent(OTHER_LOGS, 1, events=[ANSWERED, ASKED]))

    assert await world.shown() == before
    assert len(read) == 1
    assert await world.read_feed() == []


async def test_span_that_is_sent_again_has_its_events(world: World) -> None:
    again = SPAN._replace(name="again")
    await world.handle(*RECORDS, Sent(SPANS_LOG, 1, span=again))

    assert await world.shown() == [shown_at_once(again, [ASKED, ANSWERED, FAILED])]


async def test_feed_returns_the_span_again_after_an_event(world: World) -> None:
    read = []
    for sent in RECORDS:
        await world.handle(sent)
        read += await world.read_feed()

    expected = [[], [ASKED], [ASKED, ANSWERED, FAILED]]
    assert list(map(without_time, read)) == [shown_at_once(SPAN, events) for events in expected]
    assert sorted(span["created_at"] for span in read) == [span["created_at"] for span in read]


async def test_deleted_span_stays_deleted_when_an_event_comes(world: World) -> None:
    await world.handle(*RECORDS[:2])
    async with world.client.delete(f"/traces/{SPAN.trace_id.hex()}") as response:
        assert response.status == 202

    await world.handle(RECORDS[2], RECORDS[0], RECORDS[1])
    assert await world.shown() == []

    await world.handle(Sent(SPANS_LOG, 1, span=SPAN))
    assert await world.shown() == [shown_at_once(SPAN, [ANSWERED, FAILED])]


@dataclass
class Partition:
    """The records of a partition, and the worker that has it: the next record, and its next step."""

    records: Sequence[Sent]
    at: int = 0
    step: int = 0
    rows: pa.Table | None = None

    async def take_step(self, world: World) -> None:
        sent = self.records[self.at]
        if self.step == 0:
            self.rows = await world.insert(sent)
        elif self.step == 1:
            assert self.rows is not None
            await world.joiner.join(self.rows, NO_MASKING)
        else:
            await world.record(sent)
        self.at, self.step = (self.at + 1, 0) if self.step == 2 else (self.at, self.step + 1)

    def restart(self, back: int) -> None:
        """Begin again with a record that is not committed: this one, or the one before."""
        self.at, self.step = max(0, self.at - back), 0


@pytest.mark.parametrize("seed", rest_is_long(range(30)))
async def test_every_interleaving_of_workers_gives_one_answer(world: World, seed: int) -> None:
    source = random.Random(seed)
    again = SPAN._replace(name="again", attributes={**CHAT, "again": True})
    sent = [Sent(SPANS_LOG, 0, span=SPAN), Sent(SPANS_LOG, 1, span=again)]
    partitions = [
        Partition(sent[: source.randint(1, 2)]),
        Partition([Sent(LOGS, 0, events=[ASKED]), Sent(LOGS, 1, events=[FAILED])]),
        Partition([Sent(OTHER_LOGS, 0, events=[ANSWERED]), Sent(OTHER_LOGS, 1, events=[ASKED, ANSWERED])]),
    ]
    read: list[dict[str, Any]] = []
    taken: list[str] = []
    restarts = 3
    while unfinished := [each for each in partitions if each.at < len(each.records)]:
        partition = source.choice(unfinished)
        what = source.choice(["step", "step", "step", "restart", "read"])
        taken.append(f"{what} {partition.records[partition.at].partition_id} {partition.at}.{partition.step}")
        if what == "step":
            await partition.take_step(world)
        elif what == "read":
            read += await world.read_feed()
        elif restarts:
            restarts -= 1
            partition.restart(source.randint(0, 1))
    read += await world.read_feed()

    last = partitions[0].records[-1].span
    assert last is not None
    expected = shown_at_once(last, [ASKED, ANSWERED, FAILED])
    assert await world.shown() == [expected], taken
    assert [without_time(span) for span in read[-1:]] == [expected], taken
    contents = [orjson.dumps(without_time(span)) for span in read]
    assert len(set(contents)) == len(contents), taken


async def test_span_that_cannot_be_joined_costs_only_itself(world: World) -> None:
    """Its events are kept, and it is counted; the others of the batch have theirs."""
    await world.handle(*RECORDS[:1])
    broken = SPAN._replace(span_id=b"b" * 16, dropped_events_count=2**32 - 1)
    await world.handle(Sent(SPANS_LOG, 1, span=broken))
    before = SPANS_NOT_JOINED._value.get()
    rows = await world.insert(Sent(LOGS, 0, events=[ASKED]))
    columns = EventColumns()
    late = LateEvent(DEFAULT_PROJECT_ID, broken.trace_id, broken.span_id, ASKED, 0)
    columns.append_record([late], partition_id=OTHER_LOGS, record_offset=0, record_ms=0)
    of_broken = stamped(columns.rows(), stored_us=1)
    unreadable = pa.array([b"{"])
    of_broken = of_broken.set_column(of_broken.column_names.index("event"), "event", unreadable)
    await world.store.insert(EVENTS_TABLE, of_broken, dedup_token=str(uuid4()), deadline_s=60.0)

    await world.joiner.join(pa.concat_tables([rows, of_broken.select(NAMING)]), NO_MASKING)

    counts = {span["span_id"]: len(span.get("events", ())) for span in await world.shown()}
    assert counts == {b"s".hex() * 8: 1, b"b".hex() * 8: 0}
    assert SPANS_NOT_JOINED._value.get() - before == 1


async def test_span_shows_as_many_events_as_it_may(world: World) -> None:
    events = [Event("e", START_NS + number, {}, log=LogMembers()) for number in range(EVENTS_MAX + 100)]
    await world.handle(
        Sent(SPANS_LOG, 0, span=SPAN._replace(dropped_events_count=2**32 - 50)), Sent(LOGS, 0, events=events)
    )

    [shown] = await world.shown()
    assert len(shown["events"]) == EVENTS_MAX
    assert shown["events"][0]["time_unix_nano"] == str(START_NS)
    assert shown["dropped_events_count"] == 2**32 - 1


def test_spans_are_joined_in_parts_of_bounded_size() -> None:
    shown = {name: ShownEvents([], CHUNK_BYTES // 3, 1) for name in map(_name, range(7))}
    behind = [Behind(name, b"p", 0, 0, 10, Arrival("p", 0, 0)) for name in shown]

    parts = [[each.name for each in part] for part in chunks_of(behind, shown)]

    assert [len(part) for part in parts] == [2, 2, 2, 1]
    assert [name for part in parts for name in part] == list(shown)


def _name(number: int) -> SpanName:
    return SpanName(DEFAULT_PROJECT_ID, number.to_bytes(16, "big"), number.to_bytes(16, "big"))
