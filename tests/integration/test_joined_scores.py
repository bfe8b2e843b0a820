"""Evaluations and annotations that come before or after the spans that they judge, in every order: one answer."""

from __future__ import annotations

import asyncio
import random
from collections.abc import AsyncIterator, Callable
from itertools import permutations
from pathlib import Path
from typing import Any

import orjson
import pyarrow as pa
import pytest

from common.clickhouse.event_columns import NO_EVENTS, event_id_of
from common.clickhouse.store import ColumnStore, Statement
from common.clickhouse.waiting_events import WaitingEvents, read_waiting
from common.errors import Unavailable
from common.ids import DEFAULT_PROJECT_ID
from common.log_record import EVALUATION, response_name
from common.settings import ClickHouseSettings
from common.span import Event, Link, LogMembers, Span
from common.times import SystemClock
from ingest import joiner
from ingest.decoding.decoder import ThreadDecoder
from ingest.joiner import Joiner
from ingest.joining.chunk import JoiningChunk
from ingest.late_scores import EVALUATIONS_MAX
from ingest.masking.dead_letters import NO_MASKING
from tests.support.joining import (
    ASKED,
    LOGS,
    OTHER_LOGS,
    RULES,
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

RESPONSE_ID = "chatcmpl-123456789abcdef0"
RESPONSE = response_name(RESPONSE_ID)
JUDGED = SPAN._replace(attributes={**SPAN.attributes, "gen_ai.response.id": RESPONSE_ID})
OTHER = SPAN._replace(trace_id=b"o" * 16, span_id=b"u" * 16, name="other")
ANNOTATIONS_LOG = "c/spans/1"
STARTS_LOG = "c/spans/2"
EVALUATED = Event(
    EVALUATION,
    START_NS + 50_000,
    {
        "gen_ai.evaluation.name": "relevance",
        "gen_ai.evaluation.score.value": 0.75,
        "gen_ai.evaluation.score.label": "good",
        "gen_ai.evaluation.explanation": "on topic",
        "gen_ai.response.id": RESPONSE_ID,
    },
    log=LogMembers(),
)


def pending_state(span: Span) -> Span:
    """The span while it ran."""
    return span._replace(is_running=True, end_ns=span.start_ns)


def annotation(*judged: Span, name: str = "a", **outputs: Any) -> Span:
    """A trace of one span that links to spans."""
    sent = {f"ag.data.outputs.{key}": value for key, value in outputs.items()}
    return SPAN._replace(
        trace_id=name.encode() * 16,
        span_id=name.encode() * 16,
        parent_id=None,
        name="annotation",
        start_ns=START_NS + 60_000,
        end_ns=START_NS + 70_000,
        attributes={**sent, "ag.references.evaluator.slug": "tone"},
        links=tuple(Link(span.trace_id, span.span_id, {}) for span in judged),
    )


@pytest.fixture
async def world(chdb_dir: Path, chdb_settings: Callable[[], ClickHouseSettings]) -> AsyncIterator[World]:
    async with open_world(chdb_dir, chdb_settings()) as opened:
        yield opened


async def scores(world: World, span: Span = JUDGED) -> dict[str, Any]:
    """The scores of a span by name: value and label."""
    [shown] = await world.shown(is_span(span))
    return {each["name"]: (each.get("value"), each.get("label")) for each in shown.get("scores", ())}


def is_span(span: Span) -> dict[str, Any]:
    return {"field": "span_id", "operator": "is", "value": span.span_id[:8].hex()}


async def test_annotation_gives_its_outputs_as_scores(world: World) -> None:
    outputs: dict[str, Any] = {
        "tone": 0.5,
        "is_polite": True,
        "comment": "nice",
        "details.depth": 3,
        "long": "x" * 1_001,
        "none": "",
    }
    await world.handle(Sent(SPANS_LOG, 0, span=JUDGED), Sent(ANNOTATIONS_LOG, 0, span=annotation(JUDGED, **outputs)))

    [shown] = await world.shown(is_span(JUDGED))
    source = {"kind": "annotation", "trace_id": b"a".hex() * 16, "span_id": b"a".hex() * 8, "evaluator": "tone"}
    at = shown["scores"][0]["at"]
    assert sorted(shown["scores"], key=lambda score: str(score["name"])) == [
        {"name": "comment", "label": "nice", "source": source, "at": at},
        {"name": "details.depth", "value": 3, "source": source, "at": at},
        {"name": "is_polite", "value": 1, "label": "true", "source": source, "at": at},
        {"name": "tone", "value": 0.5, "source": source, "at": at},
    ]


async def test_annotation_that_is_edited_changes_the_scores(world: World) -> None:
    await world.handle(
        Sent(SPANS_LOG, 0, span=JUDGED),
        Sent(ANNOTATIONS_LOG, 0, span=annotation(JUDGED, tone=0.5, depth=1)),
        Sent(ANNOTATIONS_LOG, 1, span=annotation(JUDGED, tone=0.9)),
    )

    assert await scores(world) == {"tone": (0.9, None)}


async def test_later_record_counts_if_the_clock_of_its_producer_is_behind(world: World) -> None:
    """As it does for spans: in a partition offsets decide."""
    await world.handle(
        Sent(SPANS_LOG, 0, span=JUDGED),
        Sent(SPANS_LOG, 1, span=OTHER),
        Sent(ANNOTATIONS_LOG, 0, span=annotation(JUDGED, OTHER, tone=0.5), record_ms=200),
        Sent(ANNOTATIONS_LOG, 1, span=annotation(JUDGED, tone=0.9), record_ms=100),
    )

    assert (await scores(world), await scores(world, OTHER)) == ({"tone": (0.9, None)}, {})


@pytest.mark.parametrize(
    ("edited", "of_other"),
    [
        (annotation(OTHER, tone=0.9), {"tone": (0.9, None)}),
        (annotation(tone=0.9), {}),
        (annotation(JUDGED), {}),
    ],
    ids=["other link", "no links", "no outputs"],
)
async def test_annotation_that_judges_a_span_no_more(world: World, edited: Span, of_other: dict[str, Any]) -> None:
    await world.handle(
        Sent(SPANS_LOG, 0, span=JUDGED),
        Sent(SPANS_LOG, 1, span=OTHER),
        Sent(ANNOTATIONS_LOG, 0, span=annotation(JUDGED, tone=0.5)),
        Sent(ANNOTATIONS_LOG, 1, span=edited),
    )

    assert await scores(world) == {}
    assert await scores(world, OTHER) == of_other


async def test_deleted_annotation_takes_its_scores_with_it(world: World) -> None:
    mine, others = annotation(JUDGED, OTHER, tone=0.5), annotation(JUDGED, name="b", clarity=1)
    await world.handle(
        Sent(SPANS_LOG, 0, span=JUDGED),
        Sent(SPANS_LOG, 1, span=OTHER),
        Sent(ANNOTATIONS_LOG, 0, span=mine),
        Sent(ANNOTATIONS_LOG, 1, span=others),
    )
    await world.read_feed()

    await world.delete(mine.trace_id)

    assert (await scores(world), await scores(world, OTHER)) == ({"clarity": (1, None)}, {})
    assert sorted(span["span_name"] for span in await world.read_feed()) == sorted([JUDGED.name, OTHER.name])

    await world.handle(Sent(ANNOTATIONS_LOG, 0, span=mine))  # the same record, delivered again
    assert await scores(world) == {"clarity": (1, None)}

    await world.handle(Sent(ANNOTATIONS_LOG, 2, span=mine))
    assert await scores(world) == {"clarity": (1, None), "tone": (0.5, None)}
    assert await scores(world, OTHER) == {"tone": (0.5, None)}


async def test_deletion_that_is_repeated_completes_an_earlier_one(world: World) -> None:
    """Kafka was away when the annotation was deleted."""
    mine = annotation(JUDGED, tone=0.5)
    await world.handle(Sent(SPANS_LOG, 0, span=JUDGED), Sent(ANNOTATIONS_LOG, 0, span=mine))
    world.broker.publish_faults.append(Unavailable("Kafka is away."))
    async with world.client.delete(f"/traces/{mine.trace_id.hex()}") as response:
        assert response.status == 503
    assert await scores(world) == {"tone": (0.5, None)}

    await world.delete(mine.trace_id)

    assert await scores(world) == {}


async def test_span_that_comes_back_is_judged_by_what_comes_later(world: World) -> None:
    await world.handle(Sent(SPANS_LOG, 0, span=JUDGED), Sent(ANNOTATIONS_LOG, 0, span=annotation(JUDGED, tone=0.5)))
    await world.delete(JUDGED.trace_id)

    await world.handle(Sent(SPANS_LOG, 1, span=JUDGED))
    assert await scores(world) == {}

    await world.handle(Sent(ANNOTATIONS_LOG, 1, span=annotation(JUDGED, tone=0.9)))
    assert await scores(world) == {"tone": (0.9, None)}


@pytest.mark.parametrize("order", list(permutations(range(3))), ids=str)
async def test_end_of_an_annotation_wins_over_its_start(world: World, order: tuple[int, ...]) -> None:
    """Also over a start from another partition, whose clock is ahead; and the judged span may be running."""
    ended = annotation(JUDGED, tone=0.9)
    started = annotation(JUDGED, tone=0.5)._replace(end_ns=ended.start_ns, is_running=True)
    running = JUDGED._replace(end_ns=JUDGED.start_ns, is_running=True)
    records = [
        Sent(ANNOTATIONS_LOG, 1, span=ended),
        Sent("c/spans/2", 5, span=started),
        Sent(SPANS_LOG, 0, span=running),
    ]
    await world.handle(*(records[index] for index in order))
    assert await scores(world) == {"tone": (0.9, None)}

    await world.handle(Sent(SPANS_LOG, 1, span=JUDGED), Sent(ANNOTATIONS_LOG, 2, span=started))
    assert await scores(world) == {"tone": (0.9, None)}


async def test_evaluation_finds_every_span_of_its_response(world: World) -> None:
    twin = JUDGED._replace(span_id=b"w" * 16, name="twin")
    await world.handle(Sent(SPANS_LOG, 0, span=JUDGED))
    await world.read_feed()

    await world.handle(Sent(LOGS, 0, events=[EVALUATED], about=RESPONSE), Sent(SPANS_LOG, 1, span=twin))

    for span in (JUDGED, twin):
        assert await scores(world, span) == {"relevance": (0.75, "good")}
    assert sorted(span["span_name"] for span in await world.read_feed()) == sorted([JUDGED.name, twin.name])


@pytest.mark.parametrize("order", [(0, 1, 2, 3), (3, 2, 1, 0)])
async def test_span_is_named_by_the_id_that_responses_show(world: World, order: tuple[int, ...]) -> None:
    """An id of 128 bits is shown as its last half; a link may have either, a log record only the half."""
    long_id = JUDGED._replace(span_id=b"1" * 8 + b"2" * 8)
    short_id = JUDGED._replace(span_id=b"2" * 16)
    records = [
        Sent(SPANS_LOG, 0, span=long_id),
        Sent(ANNOTATIONS_LOG, 0, span=annotation(long_id, tone=0.5)),
        Sent(STARTS_LOG, 0, span=annotation(short_id, name="b", depth=3)),
        Sent(LOGS, 0, events=[EVALUATED, ASKED], about=(JUDGED.trace_id, short_id.span_id)),
    ]
    await world.handle(*(records[number] for number in order))

    [shown] = await world.shown({"field": "trace_id", "operator": "is", "value": JUDGED.trace_id.hex()})
    assert {score["name"] for score in shown["scores"]} == {"tone", "depth", "relevance"}
    assert [event["name"] for event in shown["events"]] == [ASKED.name, EVALUATED.name]
    assert await waiting(world) == []


async def test_annotation_with_a_long_id_is_edited_and_deleted(world: World) -> None:
    long_id = b"1" * 8 + b"2" * 8
    mine, edited = (annotation(JUDGED, **outputs)._replace(span_id=long_id) for outputs in ({"tone": 0.5}, {"deep": 3}))
    await world.handle(Sent(SPANS_LOG, 0, span=JUDGED), Sent(ANNOTATIONS_LOG, 0, span=mine))
    assert await scores(world) == {"tone": (0.5, None)}

    await world.handle(Sent(ANNOTATIONS_LOG, 1, span=edited))
    assert await scores(world) == {"deep": (3, None)}

    await world.delete(edited.trace_id)
    assert await scores(world) == {}


async def test_evaluation_of_a_response_finds_a_span_with_a_long_id(world: World) -> None:
    long_id = JUDGED._replace(span_id=b"1" * 8 + b"2" * 8)
    for records in permutations([Sent(SPANS_LOG, 0, span=long_id), Sent(LOGS, 0, events=[EVALUATED], about=RESPONSE)]):
        await world.handle(*records)

        [shown] = await world.shown({"field": "trace_id", "operator": "is", "value": JUDGED.trace_id.hex()})
        assert [score["name"] for score in shown["scores"]] == ["relevance"]


async def test_link_without_ids_judges_nothing(world: World) -> None:
    """OpenTelemetry allows links that have attributes alone."""
    sent = annotation(JUDGED, tone=0.5)
    sent = sent._replace(links=(Link(bytes(16), bytes(16), {"why": "x"}), *(sent.links or ())))
    await world.handle(Sent(SPANS_LOG, 0, span=JUDGED), Sent(ANNOTATIONS_LOG, 0, span=sent))

    assert await scores(world) == {"tone": (0.5, None)}


async def test_annotation_that_moves_often_costs_the_same_each_time(world: World) -> None:
    """Spans that it judged before get one verdict without scores, and no more."""
    await world.handle(Sent(SPANS_LOG, 0, span=JUDGED))
    rows = []
    for number in range(60):
        judged = [SPAN._replace(span_id=bytes([number + 1, other]) * 8) for other in range(20)]
        await world.handle(Sent(ANNOTATIONS_LOG, number, span=annotation(*judged, tone=number)))
        rows.append(await count_events(world))

    assert rows[-1] - rows[-2] == rows[2] - rows[1] == 40


async def test_of_many_annotations_the_newest_give_scores(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(joiner, "SCORES_MAX", 2)
    await world.handle(Sent(SPANS_LOG, 0, span=JUDGED))
    annotations = [annotation(JUDGED, name=name, tone=number) for number, name in enumerate("gceabdf")]
    at_once = [
        await world.insert(Sent(ANNOTATIONS_LOG, number, span=each._replace(end_ns=each.end_ns + number * 1_000)))
        for number, each in enumerate(annotations)
    ]
    for _ in range(2):  # it is counted once
        await world.joiner.join(pa.concat_tables([rows.spans for rows in at_once]), NO_EVENTS, NO_MASKING)
        [shown] = await world.shown(is_span(JUDGED))

        assert [score["value"] for score in shown["scores"]] == [6, 5]
        assert shown["dropped_scores_count"] == 5


async def test_annotation_ends_nothing_about_a_deleted_span(world: World) -> None:
    await world.handle(
        Sent(SPANS_LOG, 0, span=JUDGED), Sent(ANNOTATIONS_LOG, 0, span=annotation(JUDGED, OTHER, tone=0.5))
    )
    await world.delete(JUDGED.trace_id)
    before = await count_events(world)

    await world.handle(Sent(ANNOTATIONS_LOG, 1, span=annotation(OTHER, tone=0.9)))

    assert await count_events(world) - before == 1


async def test_edits_beyond_the_rows_of_events_count(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(joiner._ROWS, "rows_max", 4)
    await world.handle(Sent(SPANS_LOG, 0, span=JUDGED))
    for number in range(10):
        await world.handle(Sent(ANNOTATIONS_LOG, number, span=annotation(JUDGED, tone=number)))

        assert await scores(world) == {"tone": (number, None)}


async def test_spans_with_links_cost_one_short_statement(world: World) -> None:
    """A service that sends messages links its spans, and judges nothing."""
    messages = [annotation(JUDGED)._replace(span_id=bytes([number]) * 16) for number in range(1, 4)]
    rows = [await world.insert(Sent(SPANS_LOG, number, span=span)) for number, span in enumerate(messages)]
    counting = CountingStore(world.store)
    joiner = Joiner(counting, ThreadDecoder(RULES), clock=SystemClock(), timeout_s=60.0)

    await joiner.join(pa.concat_tables([each.spans for each in rows]), NO_EVENTS, NO_MASKING)

    assert [sql.rpartition("FROM ")[2].split()[0] for sql in counting.statements] == ["judged_spans", "span_events"]


class CountingStore:
    """A store that keeps the text of each statement that reads."""

    def __init__(self, store: ColumnStore) -> None:
        self._store = store
        self.statements: list[str] = []

    async def select(self, statement: Statement, *, deadline_s: float) -> pa.Table:
        self.statements.append(statement.sql)
        return await self._store.select(statement, deadline_s=deadline_s)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._store, name)


async def test_deletion_between_the_steps_of_a_worker_takes_the_scores_with_it(world: World) -> None:
    """The annotation is stored and can be read before its verdicts are stored."""
    mine = annotation(JUDGED, tone=0.5)
    await world.handle(Sent(SPANS_LOG, 0, span=JUDGED))
    sent = Sent(ANNOTATIONS_LOG, 0, span=mine)
    rows = await world.insert(sent)
    await world.delete(mine.trace_id)

    await world.joiner.join(*rows, NO_MASKING)
    await world.record(sent)

    assert await scores(world) == {}


@pytest.mark.parametrize("span_comes_first", [True, False])
async def test_evaluations_of_one_response_are_bounded(world: World, span_comes_first: bool) -> None:
    """The same ones count, whichever comes first."""
    evaluations = [
        EVALUATED._replace(time_ns=EVALUATED.time_ns + 1_000 * number) for number in range(EVALUATIONS_MAX + 20)
    ]
    records = [Sent(SPANS_LOG, 0, span=JUDGED), Sent(LOGS, 0, events=evaluations, about=RESPONSE)]
    await world.handle(*(records if span_comes_first else records[::-1]))

    [shown] = await world.shown(is_span(JUDGED))
    assert len(shown["events"]) == EVALUATIONS_MAX
    chosen = sorted(evaluations, key=event_id_of)[:EVALUATIONS_MAX]
    assert {event["time_unix_nano"] for event in shown["events"]} == {str(event.time_ns) for event in chosen}


@pytest.mark.parametrize("response_id", ["r-1", "assistant-77", "my-assistant-response-00000000000077"])
async def test_response_is_found_by_its_id(world: World, response_id: str) -> None:
    span = SPAN._replace(attributes={**SPAN.attributes, "gen_ai.response.id": response_id})
    evaluated = EVALUATED._replace(attributes={**EVALUATED.attributes, "gen_ai.response.id": response_id})
    await world.handle(Sent(SPANS_LOG, 0, span=span))
    await world.handle(Sent(LOGS, 0, events=[evaluated], about=response_name(response_id)))

    assert await scores(world, span) == {"relevance": (0.75, "good")}


async def test_evaluation_whose_response_is_masked_joins_nothing(world: World) -> None:
    masked = EVALUATED._replace(attributes={})
    await world.handle(Sent(SPANS_LOG, 0, span=JUDGED))
    await world.handle(Sent(LOGS, 0, events=[masked], about=RESPONSE))

    assert await scores(world) == {}


async def count_events(world: World) -> int:
    rows = await world.store.select(Statement("SELECT count() AS count FROM span_events"), deadline_s=60.0)
    count: int = rows.column("count")[0].as_py()
    return count


async def test_status_lists_what_waits_for_its_span(world: World) -> None:
    failed, later = EVALUATED._replace(name="exception"), EVALUATED._replace(time_ns=EVALUATED.time_ns + 1_000)
    await world.handle(
        Sent(LOGS, 0, events=[EVALUATED], about=RESPONSE),
        Sent(LOGS, 1, events=[later, failed]),
        Sent(ANNOTATIONS_LOG, 0, span=annotation(JUDGED, OTHER, tone=0.5)),
    )
    oldest_us = START_NS // 1_000
    assert await waiting(world) == [WaitingEvents(DEFAULT_PROJECT_ID, 1, 2, 2, oldest_us + 50)]

    await world.handle(Sent(SPANS_LOG, 0, span=JUDGED))
    assert await waiting(world) == [WaitingEvents(DEFAULT_PROJECT_ID, 0, 0, 1, oldest_us + 70)]

    await world.handle(Sent(SPANS_LOG, 1, span=OTHER))
    assert await waiting(world) == []


async def waiting(world: World) -> list[WaitingEvents]:
    return await read_waiting(world.store, deadline_s=60.0)


async def test_annotation_of_many_spans_arrives_as_many(world: World) -> None:
    """All arrive at the place of one record, and a reader that takes one span at a time gets each."""
    judged = [SPAN._replace(span_id=bytes([number]) * 16, name=f"span {number}") for number in range(1, 21)]
    await world.handle(*(Sent(SPANS_LOG, number, span=span) for number, span in enumerate(judged)))
    await world.read_feed()

    await world.handle(Sent(ANNOTATIONS_LOG, 0, span=annotation(*judged, tone=1)))

    read = [span["span_name"] for span in await world.read_feed()]
    assert sorted(read) == sorted(["annotation", *(span.name for span in judged)])


async def test_version_that_two_workers_store_is_returned_once(world: World) -> None:
    """An evaluation and an event are stored by two workers, which look then, both at once."""
    await world.handle(Sent(SPANS_LOG, 0, span=SPAN))
    await world.read_feed()
    records = [Sent(LOGS, 0, events=[EVALUATED]), Sent(OTHER_LOGS, 0, events=[ASKED])]
    rows = [await world.insert(sent) for sent in records]
    others = Joiner(world.store, BothWait(), clock=SystemClock(), timeout_s=60.0)

    await asyncio.gather(*(others.join(*each, NO_MASKING) for each in rows))
    for sent in records:
        await world.record(sent)

    assert list(map(without_time, await world.read_feed())) == [shown_at_once(SPAN, [EVALUATED, ASKED])]


class BothWait(ThreadDecoder):
    """A decoder that lets both workers read a span before one of them stores its next version."""

    def __init__(self) -> None:
        super().__init__(RULES)
        self._barrier = asyncio.Barrier(2)

    async def join(self, chunk: JoiningChunk) -> pa.Table:
        await self._barrier.wait()
        return await super().join(chunk)


@pytest.mark.parametrize("seed", rest_is_long(range(40)))
async def test_every_interleaving_gives_one_answer(world: World, seed: int) -> None:
    source = random.Random(seed)
    again, edited, moved = (
        JUDGED._replace(name="again"),
        annotation(JUDGED, tone=0.9),
        annotation(OTHER, name="m", depth=2),
    )
    annotations = [annotation(JUDGED, tone=0.5, depth=1), annotation(JUDGED, name="m", depth=3), edited, moved]
    partitions = [
        Partition([Sent(SPANS_LOG, number, span=span) for number, span in enumerate((JUDGED, OTHER, again))]),
        Partition([Sent(LOGS, 0, events=[EVALUATED], about=RESPONSE), Sent(LOGS, 1, events=[ASKED])]),
        Partition([Sent(OTHER_LOGS, 0, events=[EVALUATED], about=RESPONSE)]),
        Partition([Sent(ANNOTATIONS_LOG, number, span=span) for number, span in enumerate(annotations)]),
        Partition([Sent(STARTS_LOG, number, span=pending_state(span)) for number, span in enumerate((JUDGED, again))]),
    ]
    read, taken = await world.interleave(partitions, source, restarts=4)

    expected = [
        shown_at_once(again, [ASKED, EVALUATED], [(edited, {"tone": 0.9})]),
        shown_at_once(OTHER, [], [(moved, {"depth": 2})]),
        shown_at_once(edited, []),
        shown_at_once(moved, []),
    ]
    expected.sort(key=_span_id)
    assert sorted(await world.shown(), key=_span_id) == expected, taken
    last = {span["span_id"]: without_time(span) for span in read}
    assert sorted(last.values(), key=_span_id) == expected, taken
    contents = [orjson.dumps(without_time(span)) for span in read]
    assert len(set(contents)) == len(contents), taken


def _span_id(span: dict[str, Any]) -> str:
    return str(span["span_id"])
