from __future__ import annotations

from unittest.mock import ANY

import orjson
import pytest

from common.codec.decoded import Rejection
from common.errors import Conflict, InvalidInput, NotFound
from common.errors import RejectionCode as Code
from common.kafka import dead_letters as topic
from common.kafka.record import Record
from common.limits import SpanLimits
from common.readiness import Readiness, Retry
from common.settings import Encoding
from ingest.dead_letter import BulkPublisher, CutDeadLetter, DeadLetters, cut_dead_letters
from ingest.decode import decode
from tests.fakes.clock import ManualClock
from tests.fakes.kafka import MemoryBroker
from tests.support.otlp import START_NS

DEAD = "spans.dead_letter"


def dead_letters_on(broker: MemoryBroker, clock: ManualClock) -> DeadLetters:
    bulk = BulkPublisher(broker.publisher(), topic=DEAD, retry=Retry(readiness=Readiness(), delay_s_max=1.0))
    return DeadLetters(bulk, clock=clock)


async def add_dead_letter(broker: MemoryBroker, record: Record, rejection: Rejection, *, now_s: float = 0.0) -> None:
    clock = ManualClock()
    clock.advance(now_s)
    dead_letters = dead_letters_on(broker, clock)
    await dead_letters.add(record, CutDeadLetter(rejection, record.value or b""), encoding=Encoding.OTLP_JSON)
    await dead_letters.flush()


def record(offset: int = 5, *, key: bytes = b"k", value: bytes = b"{}") -> Record:
    return Record("otlp_spans_json", 1, offset, 0, key, value, (("project-id", b"p"),))


async def test_list_shows_each_rejection_with_its_members() -> None:
    broker = MemoryBroker(partitions=1)
    await add_dead_letter(broker, record(value=b"12345"), Rejection(7, Code.ABSURD_TIME, "It is 1970."))

    found = await topic.list_dead_letters(broker, DEAD)

    (dead_letter,) = found.dead_letters
    assert dead_letter._asdict() == {
        "id": "0-0",
        "topic": "otlp_spans_json",
        "partition": 1,
        "offset": 5,
        "span_index": 7,
        "code": "absurd_time",
        "reason": "It is 1970.",
        "created_at": "2025-10-09T08:53:20Z",
        "bytes_count": 5,
        "span_count": None,
        "codes": None,
        "project": "p",
        "published_ms": 1_760_000_000_000,
    }
    assert found.is_complete


async def test_shared_dead_letter_has_its_span_count_and_is_one_record() -> None:
    broker = MemoryBroker(partitions=1)
    value = orjson.dumps({"spans": [{"span_name": f"s{number}"} for number in range(150)]})
    sent = record(value=value)._replace(
        headers=(("content-type", b"application/vnd.clearspan.span+json"), ("null", None))
    )
    dead_letters = dead_letters_on(broker, ManualClock())
    decoded = decode(sent, encoding=Encoding.OTLP_JSON, limits=SpanLimits(), now_ns=START_NS)
    for dead_letter in cut_dead_letters(sent, decoded.rejections, encoding=Encoding.OTLP_JSON):
        await dead_letters.add(sent, dead_letter, encoding=Encoding.OTLP_JSON)
    await dead_letters.flush()

    found = {
        dead_letter.code: dead_letter for dead_letter in (await topic.list_dead_letters(broker, DEAD)).dead_letters
    }
    shared = found["many_spans"]
    assert (shared.span_index, shared.span_count, shared.codes) == (None, 50, {"invalid_trace_id": 50})
    assert found["invalid_trace_id"].span_count is None
    await topic.replay(broker, broker.publisher(), DEAD, shared.id)

    (again,) = broker.records("otlp_spans_json")
    assert [span["span_name"] for span in orjson.loads(again.value or b"")["spans"]] == [
        f"s{n}" for n in range(100, 150)
    ]
    assert again.headers == sent.headers
    await topic.drop(broker, broker.publisher(), DEAD, found["invalid_trace_id"].id)
    assert len((await topic.list_dead_letters(broker, DEAD)).dead_letters) == 99


async def test_dead_letters_of_two_brokers_at_one_offset_are_distinct() -> None:
    """A new broker counts from 0 again; the timestamps of the records differ."""
    broker = MemoryBroker(partitions=1)
    await add_dead_letter(broker, record(), Rejection(None, Code.UNDECODABLE, "of the old broker"))
    await add_dead_letter(
        broker, record()._replace(timestamp_ms=1), Rejection(None, Code.UNDECODABLE, "of the new one")
    )

    found = await topic.list_dead_letters(broker, DEAD)

    assert sorted(dead_letter.reason for dead_letter in found.dead_letters) == ["of the new one", "of the old broker"]


async def test_record_dead_lettered_twice_is_listed_once() -> None:
    broker = MemoryBroker(partitions=1)
    for _ in range(2):
        await add_dead_letter(broker, record(), Rejection(0, Code.ABSURD_TIME, "r"))
        await add_dead_letter(broker, record(), Rejection(1, Code.ABSURD_TIME, "r"))

    found = await topic.list_dead_letters(broker, DEAD)

    assert [(dead_letter.id, dead_letter.span_index) for dead_letter in found.dead_letters] == [("0-0", 0), ("0-1", 1)]


async def test_oldest_dead_letter_is_first() -> None:
    broker = MemoryBroker(partitions=2)
    await add_dead_letter(broker, record(1, key=b"a"), Rejection(None, Code.UNDECODABLE, "r"), now_s=9.0)
    await add_dead_letter(broker, record(2, key=b"b"), Rejection(None, Code.UNDECODABLE, "r"), now_s=1.0)

    assert [dead_letter.offset for dead_letter in (await topic.list_dead_letters(broker, DEAD)).dead_letters] == [2, 1]


async def test_replay_publishes_the_original_to_its_topic_and_marks_it() -> None:
    broker = MemoryBroker(partitions=1)
    await add_dead_letter(broker, record(value=b"{1}"), Rejection(None, Code.UNDECODABLE, "r"))

    went_to = await topic.replay(broker, broker.publisher(), DEAD, "0-0")

    again = await broker.fetch(went_to)
    assert again is not None
    assert (again.topic, again.key, again.value) == ("otlp_spans_json", b"k", b"{1}")
    assert again.headers == (("project-id", b"p"), ("content-type", b"application/json"))
    assert (await topic.list_dead_letters(broker, DEAD)).dead_letters == []


@pytest.mark.parametrize("resolution", ["replayed", "dropped"])
async def test_mark_that_reaches_another_broker_resolves_the_same_dead_letter(resolution: str) -> None:
    """The embedded broker was replaced while the mark was held; there the id is of another dead letter."""
    old, new = MemoryBroker(partitions=1), MemoryBroker(partitions=1)
    await add_dead_letter(old, record(1), Rejection(None, Code.UNDECODABLE, "r"))
    if resolution == "replayed":
        await topic.replay(old, old.publisher(), DEAD, "0-0")
    else:
        await topic.drop(old, old.publisher(), DEAD, "0-0")
    await add_dead_letter(new, record(2), Rejection(None, Code.UNDECODABLE, "r"))
    await add_dead_letter(new, record(1), Rejection(None, Code.UNDECODABLE, "r"))
    mark = old.records(DEAD)[-1]

    await new.publisher().publish(DEAD, b"", key=mark.key, headers=mark.headers)

    found = await topic.list_dead_letters(new, DEAD)
    assert [(dead_letter.id, dead_letter.offset) for dead_letter in found.dead_letters] == [("0-0", 2)]


async def test_mark_of_an_older_version_resolves_by_id() -> None:
    broker = MemoryBroker(partitions=1)
    await add_dead_letter(broker, record(), Rejection(None, Code.UNDECODABLE, "r"))

    await topic.resolve(broker.publisher(), DEAD, "0-0", "dropped", rejection=None)

    assert (await topic.list_dead_letters(broker, DEAD)).dead_letters == []


async def test_duplicate_of_a_replayed_dead_letter_is_not_listed() -> None:
    broker = MemoryBroker(partitions=1)
    for _ in range(2):
        await add_dead_letter(broker, record(), Rejection(None, Code.UNDECODABLE, "r"))

    await topic.replay(broker, broker.publisher(), DEAD, "0-1")

    assert (await topic.list_dead_letters(broker, DEAD)).dead_letters == []


async def test_dropped_dead_letter_is_not_listed_but_can_be_read() -> None:
    broker = MemoryBroker(partitions=1)
    await add_dead_letter(broker, record(value=b"xyz"), Rejection(None, Code.UNDECODABLE, "r"))

    await topic.drop(broker, broker.publisher(), DEAD, "0-0")

    assert (await topic.list_dead_letters(broker, DEAD)).dead_letters == []
    assert (await topic.show(broker, DEAD, "0-0"))[1] == b"xyz"


async def test_open_dead_letters_are_the_unresolved_ones_with_their_bytes() -> None:
    broker = MemoryBroker(partitions=1)
    for offset in range(3):
        await add_dead_letter(broker, record(offset, value=b"%d" % offset), Rejection(None, Code.UNDECODABLE, "r"))
    await topic.drop(broker, broker.publisher(), DEAD, "0-1")

    dead_letters = [dead_letter async for dead_letter in topic.open_dead_letters(broker, DEAD)]

    assert [dead_letter.value for dead_letter in dead_letters] == [b"0", b"2"]
    assert all(dead_letter.header("clearspan-code") == b"undecodable" for dead_letter in dead_letters)


async def test_resolution_names_the_dead_letter_and_what_was_done() -> None:
    broker = MemoryBroker(partitions=1)
    for offset in range(2):
        await add_dead_letter(broker, record(offset), Rejection(None, Code.UNDECODABLE, "r"))

    await topic.replay(broker, broker.publisher(), DEAD, "0-0")
    await topic.drop(broker, broker.publisher(), DEAD, "0-1")

    marks = broker.records(DEAD)[2:]
    assert [(mark.key, mark.value, dict(mark.headers)) for mark in marks] == [
        (b"0-0", b"", {"clearspan-resolves": b"0-0", "clearspan-resolution": b"replayed", "clearspan-rejection": ANY}),
        (b"0-1", b"", {"clearspan-resolves": b"0-1", "clearspan-resolution": b"dropped", "clearspan-rejection": ANY}),
    ]


async def test_other_record_in_the_topic_is_not_a_dead_letter() -> None:
    broker = MemoryBroker(partitions=1)
    await broker.append(DEAD, b"by hand")

    assert (await topic.list_dead_letters(broker, DEAD)).dead_letters == []
    with pytest.raises(NotFound):
        await topic.show(broker, DEAD, "0-0")


async def test_resolved_dead_letter_conflicts_and_a_missing_one_is_not_found() -> None:
    broker = MemoryBroker(partitions=1)
    for offset in range(2):
        await add_dead_letter(broker, record(offset), Rejection(None, Code.UNDECODABLE, "r"))
    await topic.drop(broker, broker.publisher(), DEAD, "0-1")

    await topic.require_open(broker, DEAD, ["0-0"])
    with pytest.raises(Conflict, match=r"Already replayed or dropped: 0-1\.$"):
        await topic.require_open(broker, DEAD, ["0-0", "0-1"])
    with pytest.raises(NotFound, match="0-7"):
        await topic.require_open(broker, DEAD, ["0-7"])
    with pytest.raises(NotFound, match="0-7"):
        await topic.drop(broker, broker.publisher(), DEAD, "0-7")


async def test_each_duplicate_of_an_open_dead_letter_is_open() -> None:
    """Without a key they are in any partition, so either may be read first."""
    broker = MemoryBroker(partitions=2)
    for _ in range(2):
        await add_dead_letter(broker, record()._replace(key=None), Rejection(None, Code.UNDECODABLE, "r"))

    await topic.require_open(broker, DEAD, ["0-0", "1-0"])
    await topic.drop(broker, broker.publisher(), DEAD, "1-0")

    with pytest.raises(Conflict, match=r": 0-0, 1-0\.$"):
        await topic.require_open(broker, DEAD, ["0-0", "1-0"])


@pytest.mark.parametrize("dead_letter_id", ["", "0", "0-", "-1", "0-0-0", "a-b", "٣-٤", "0-9999999999999999999"])
async def test_malformed_id_is_rejected(dead_letter_id: str) -> None:
    with pytest.raises(InvalidInput):
        await topic.show(MemoryBroker(), DEAD, dead_letter_id)


async def test_missing_dead_letter_or_resolution_is_not_found() -> None:
    broker = MemoryBroker(partitions=1)
    await add_dead_letter(broker, record(), Rejection(None, Code.UNDECODABLE, "r"))
    await topic.drop(broker, broker.publisher(), DEAD, "0-0")

    for dead_letter_id in ("0-1", "0-2", "9-0"):
        with pytest.raises(NotFound):
            await topic.replay(broker, broker.publisher(), DEAD, dead_letter_id)


async def test_progress_gets_the_number_of_records_read() -> None:
    broker = MemoryBroker(partitions=1)
    for offset in range(3):
        await add_dead_letter(broker, record(offset), Rejection(None, Code.UNDECODABLE, "r"))
    kept: list[int] = []

    await topic.list_dead_letters(broker, DEAD, progress=kept.append)

    assert kept == [3]


async def test_list_past_its_limit_is_incomplete(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(topic, "DEAD_LETTERS_MAX", 2)
    broker = MemoryBroker(partitions=1)
    for offset in range(2):
        await add_dead_letter(broker, record(offset), Rejection(None, Code.UNDECODABLE, "r"))
    assert (await topic.list_dead_letters(broker, DEAD)).is_complete

    await add_dead_letter(broker, record(2), Rejection(None, Code.UNDECODABLE, "r"))

    found = await topic.list_dead_letters(broker, DEAD)
    assert (len(found.dead_letters), found.is_complete) == (2, False)
    with pytest.raises(Conflict, match=r"Not among the first 2 open dead letters: 0-2\."):
        await topic.require_open(broker, DEAD, ["0-0", "0-2"])


async def test_all_open_dead_letters_are_carried_over_past_the_list_limit(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(topic, "DEAD_LETTERS_MAX", 2)
    broker = MemoryBroker(partitions=1)
    for offset in range(4):
        await add_dead_letter(broker, record(offset), Rejection(None, Code.UNDECODABLE, "r"))
    await topic.drop(broker, broker.publisher(), DEAD, "0-0")

    assert [dead_letter.offset async for dead_letter in topic.open_dead_letters(broker, DEAD)] == [1, 2, 3]


async def test_resolved_dead_letters_do_not_count_against_the_limit(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(topic, "DEAD_LETTERS_MAX", 2)
    broker = MemoryBroker(partitions=1)
    for offset in range(3):
        await add_dead_letter(broker, record(offset), Rejection(None, Code.UNDECODABLE, "r"))
    for offset in range(3):
        await topic.drop(broker, broker.publisher(), DEAD, f"0-{offset}")
    await add_dead_letter(broker, record(2), Rejection(None, Code.UNDECODABLE, "a duplicate of one that was dropped"))
    await add_dead_letter(broker, record(9), Rejection(None, Code.UNDECODABLE, "new"))

    found = await topic.list_dead_letters(broker, DEAD)

    assert [dead_letter.reason for dead_letter in found.dead_letters] == ["new"]
    assert found.is_complete
    await topic.require_open(broker, DEAD, [found.dead_letters[0].id])


async def test_dead_letter_of_an_unread_topic_is_not_replayed() -> None:
    broker = MemoryBroker(partitions=1)
    await add_dead_letter(broker, record(), Rejection(None, Code.UNDECODABLE, "r"))

    await topic.require_read(broker, DEAD, ["0-0"], topics=["otlp_spans_json"])
    with pytest.raises(
        Conflict, match="0-0 came from the topic otlp_spans_json, which CLEARSPAN_KAFKA__TOPICS does not"
    ):
        await topic.require_read(broker, DEAD, ["0-0"], topics=["spans"])
