"""A span and the log records that name it, in every order: one answer, and the feed returns each version once.

Workers are steps here: a record is stored, then joined, then recorded as stored. The steps of several workers are taken
in any order, and a worker that ends between two of them begins again with the same record.
"""

from __future__ import annotations

import random
from collections.abc import AsyncIterator, Callable, Sequence
from itertools import permutations
from pathlib import Path
from typing import Any
from uuid import uuid4

import orjson
import pyarrow as pa
import pytest

from common.clickhouse.event_columns import EVENTS_TABLE, LateEvent, event_rows, rows_of_events
from common.clickhouse.span_columns import stamped
from common.ids import DEFAULT_PROJECT_ID
from common.settings import ClickHouseSettings
from common.span import Event, LogMembers
from common.telemetry import SPANS_NOT_JOINED
from ingest.batch import NO_SPANS
from ingest.joining.derive import EVENTS_MAX
from ingest.masking.dead_letters import NO_MASKING
from tests.support.joining import (
    ANSWERED,
    ASKED,
    CHAT,
    FAILED,
    LOGS,
    OTHER_LOGS,
    SPAN,
    SPANS_LOG,
    Partition,
    Sent,
    World,
    open_world,
    shown_at_once,
    without_time,
)
from tests.support.scale import rest_is_long
from tests.support.span_corpus import START_NS


@pytest.fixture
async def world(chdb_dir: Path, chdb_settings: Callable[[], ClickHouseSettings]) -> AsyncIterator[World]:
    async with open_world(chdb_dir, chdb_settings()) as opened:
        yield opened


RECORDS = [
    Sent(SPANS_LOG, 0, span=SPAN),
    Sent(LOGS, 0, events=[ASKED]),
    Sent(OTHER_LOGS, 0, events=[ANSWERED, FAILED]),
]


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


@pytest.mark.parametrize("order", list(permutations(range(3))), ids=str)
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


RUNNING = SPAN._replace(end_ns=SPAN.start_ns, is_running=True)


@pytest.mark.parametrize("order", list(permutations(range(4))), ids=str)
async def test_running_span_and_its_end_have_the_events(world: World, order: Sequence[int]) -> None:
    records = [Sent("c/spans/1", 0, span=RUNNING), Sent(SPANS_LOG, 0, span=SPAN), *RECORDS[1:]]
    sent: list[Sent] = []
    read: list[dict[str, Any]] = []
    for index in order:
        await world.handle(records[index])
        sent.append(records[index])
        spans = [each.span for each in sent if each.span is not None]
        events = [event for each in sent for event in each.events]
        expected = [shown_at_once(SPAN if SPAN in spans else RUNNING, events)] if spans else []
        assert await world.shown() == expected
        new = list(map(without_time, await world.read_feed()))
        assert new == [each for each in expected if each not in read]
        read += new


async def test_event_after_the_deletion_of_a_running_span_brings_nothing_back(world: World) -> None:
    await world.handle(Sent(SPANS_LOG, 0, span=RUNNING))
    async with world.client.delete(f"/traces/{SPAN.trace_id.hex()}") as response:
        assert response.status == 202

    await world.handle(RECORDS[1])
    assert await world.shown() == []

    await world.handle(Sent(SPANS_LOG, 1, span=SPAN))
    assert await world.shown() == [shown_at_once(SPAN, [ASKED])]


@pytest.mark.parametrize("seed", rest_is_long(range(30)))
async def test_every_interleaving_of_workers_gives_one_answer(world: World, seed: int) -> None:
    source = random.Random(seed)
    again = SPAN._replace(name="again", attributes={**CHAT, "again": True})
    sent = [Sent(SPANS_LOG, 0, span=source.choice([SPAN, RUNNING])), Sent(SPANS_LOG, 1, span=again)]
    partitions = [
        Partition(sent[: source.randint(1, 2)]),
        Partition([Sent(LOGS, 0, events=[ASKED]), Sent(LOGS, 1, events=[FAILED])]),
        Partition([Sent(OTHER_LOGS, 0, events=[ANSWERED]), Sent(OTHER_LOGS, 1, events=[ASKED, ANSWERED])]),
    ]
    read, taken = await world.interleave(partitions, source, restarts=3)

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
    late = LateEvent(DEFAULT_PROJECT_ID, broken.trace_id, broken.span_id, ASKED, 0)
    place = {"partition_id": OTHER_LOGS, "record_offset": 0, "record_ms": 0}
    of_broken = event_rows(list(rows_of_events([late], **place)))  # type: ignore[arg-type]
    unreadable = pa.array([b"{"])
    of_broken = of_broken.set_column(of_broken.column_names.index("event"), "event", unreadable)
    await world.store.insert(EVENTS_TABLE, stamped(of_broken, stored_us=1), dedup_token=str(uuid4()), deadline_s=60.0)

    await world.joiner.join(NO_SPANS, pa.concat_tables([rows.events, of_broken]), NO_MASKING)

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
