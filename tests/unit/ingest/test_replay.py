from __future__ import annotations

import orjson
import pytest

from common.codec.decoded import Rejection
from common.errors import Conflict, InvalidInput, NotFound
from common.errors import RejectionCode as Code
from common.kafka.record import Record
from common.limits import SpanLimits
from common.settings import Encoding
from ingest import replay
from ingest.dead_letter import BulkPublisher, CutDeadLetter, DeadLetters, cut_dead_letters
from ingest.decode import decode
from ingest.readiness import Readiness
from tests.fakes.clock import ManualClock
from tests.fakes.kafka import MemoryBroker
from tests.support.otlp import START_NS

DEAD = "spans.dead_letter"


def dead_letters(broker: MemoryBroker, clock: ManualClock) -> DeadLetters:
    bulk = BulkPublisher(broker.publisher(), topic=DEAD, readiness=Readiness(), retry_delay_s_max=1.0)
    return DeadLetters(bulk, clock=clock)


async def dead_letter(broker: MemoryBroker, record: Record, refusal: Rejection, *, now_s: float = 0.0) -> None:
    clock = ManualClock()
    clock.advance(now_s)
    letters = dead_letters(broker, clock)
    await letters.add(record, CutDeadLetter(refusal, record.value or b""), encoding=Encoding.OTLP_JSON)
    await letters.flush()


def record(offset: int = 5, *, key: bytes = b"k", value: bytes = b"{}") -> Record:
    return Record("otlp_spans_json", 1, offset, 0, key, value, (("project-id", b"p"),))


async def test_a_list_shows_each_refusal_with_its_members() -> None:
    broker = MemoryBroker(partitions=1)
    await dead_letter(broker, record(value=b"12345"), Rejection(7, Code.ABSURD_TIME, "It is 1970."))

    found = await replay.list_dead_letters(broker, DEAD)

    (letter,) = found.letters
    assert letter._asdict() == {
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
    }
    assert found.is_complete


async def test_a_letter_of_many_spans_says_of_how_many_and_is_replayed_as_one_record() -> None:
    broker = MemoryBroker(partitions=1)
    value = orjson.dumps({"spans": [{"span_name": f"s{number}"} for number in range(150)]})
    sent = record(value=value)._replace(
        headers=(("content-type", b"application/vnd.clearspan.span+json"), ("null", None))
    )
    letters = dead_letters(broker, ManualClock())
    decoded = decode(sent, encoding=Encoding.OTLP_JSON, limits=SpanLimits(), now_ns=START_NS)
    for each in cut_dead_letters(sent, decoded.rejections, encoding=Encoding.OTLP_JSON):
        await letters.add(sent, each, encoding=Encoding.OTLP_JSON)
    await letters.flush()

    found = {each.code: each for each in (await replay.list_dead_letters(broker, DEAD)).letters}
    shared = found["many_spans"]
    assert (shared.span_index, shared.span_count, shared.codes) == (None, 50, {"invalid_trace_id": 50})
    assert found["invalid_trace_id"].span_count is None
    await replay.replay(broker, broker.publisher(), DEAD, shared.id)

    (again,) = broker.records("otlp_spans_json")
    assert [each["span_name"] for each in orjson.loads(again.value or b"")["spans"]] == [
        f"s{n}" for n in range(100, 150)
    ]
    assert again.headers == sent.headers
    await replay.drop(broker, broker.publisher(), DEAD, found["invalid_trace_id"].id)
    assert len((await replay.list_dead_letters(broker, DEAD)).letters) == 99


async def test_letters_of_two_brokers_at_one_offset_are_two() -> None:
    """A broker that was made anew counts from 0 again; the record's own timestamp tells the two apart."""
    broker = MemoryBroker(partitions=1)
    await dead_letter(broker, record(), Rejection(None, Code.UNDECODABLE, "of the old broker"))
    await dead_letter(broker, record()._replace(timestamp_ms=1), Rejection(None, Code.UNDECODABLE, "of the new one"))

    found = await replay.list_dead_letters(broker, DEAD)

    assert sorted(letter.reason for letter in found.letters) == ["of the new one", "of the old broker"]


async def test_a_letter_buried_twice_is_listed_once() -> None:
    broker = MemoryBroker(partitions=1)
    for _ in range(2):
        await dead_letter(broker, record(), Rejection(0, Code.ABSURD_TIME, "r"))
        await dead_letter(broker, record(), Rejection(1, Code.ABSURD_TIME, "r"))

    found = await replay.list_dead_letters(broker, DEAD)

    assert [(each.id, each.span_index) for each in found.letters] == [("0-0", 0), ("0-1", 1)]


async def test_the_oldest_stands_first() -> None:
    broker = MemoryBroker(partitions=2)
    await dead_letter(broker, record(1, key=b"a"), Rejection(None, Code.UNDECODABLE, "r"), now_s=9.0)
    await dead_letter(broker, record(2, key=b"b"), Rejection(None, Code.UNDECODABLE, "r"), now_s=1.0)

    assert [each.offset for each in (await replay.list_dead_letters(broker, DEAD)).letters] == [2, 1]


async def test_replay_publishes_the_original_to_where_it_came_from_and_marks_it() -> None:
    broker = MemoryBroker(partitions=1)
    await dead_letter(broker, record(value=b"{1}"), Rejection(None, Code.UNDECODABLE, "r"))

    went_to = await replay.replay(broker, broker.publisher(), DEAD, "0-0")

    again = await broker.fetch(went_to)
    assert again is not None
    assert (again.topic, again.key, again.value) == ("otlp_spans_json", b"k", b"{1}")
    assert again.headers == (("project-id", b"p"), ("content-type", b"application/json"))
    assert (await replay.list_dead_letters(broker, DEAD)).letters == []


async def test_a_duplicate_of_a_replayed_letter_is_not_listed_either() -> None:
    broker = MemoryBroker(partitions=1)
    for _ in range(2):
        await dead_letter(broker, record(), Rejection(None, Code.UNDECODABLE, "r"))

    await replay.replay(broker, broker.publisher(), DEAD, "0-1")

    assert (await replay.list_dead_letters(broker, DEAD)).letters == []


async def test_a_dropped_letter_is_not_listed_but_still_shown() -> None:
    broker = MemoryBroker(partitions=1)
    await dead_letter(broker, record(value=b"xyz"), Rejection(None, Code.UNDECODABLE, "r"))

    await replay.drop(broker, broker.publisher(), DEAD, "0-0")

    assert (await replay.list_dead_letters(broker, DEAD)).letters == []
    assert (await replay.show(broker, DEAD, "0-0"))[1] == b"xyz"


async def test_open_letters_are_those_not_dealt_with_bytes_and_all() -> None:
    broker = MemoryBroker(partitions=1)
    for offset in range(3):
        await dead_letter(broker, record(offset, value=b"%d" % offset), Rejection(None, Code.UNDECODABLE, "r"))
    await replay.drop(broker, broker.publisher(), DEAD, "0-1")

    letters = [each async for each in replay.open_dead_letters(broker, DEAD)]

    assert [letter.value for letter in letters] == [b"0", b"2"]
    assert all(letter.header("clearspan-code") == b"undecodable" for letter in letters)


async def test_what_is_marked_says_which_letter_and_what_became_of_it() -> None:
    broker = MemoryBroker(partitions=1)
    for offset in range(2):
        await dead_letter(broker, record(offset), Rejection(None, Code.UNDECODABLE, "r"))

    await replay.replay(broker, broker.publisher(), DEAD, "0-0")
    await replay.drop(broker, broker.publisher(), DEAD, "0-1")

    marks = broker.records(DEAD)[2:]
    assert [(mark.key, mark.value, dict(mark.headers)) for mark in marks] == [
        (b"0-0", b"", {"clearspan-resolves": b"0-0", "clearspan-resolution": b"replayed"}),
        (b"0-1", b"", {"clearspan-resolves": b"0-1", "clearspan-resolution": b"dropped"}),
    ]


async def test_another_record_in_the_topic_is_no_letter() -> None:
    broker = MemoryBroker(partitions=1)
    await broker.append(DEAD, b"by hand")

    assert (await replay.list_dead_letters(broker, DEAD)).letters == []
    with pytest.raises(NotFound):
        await replay.show(broker, DEAD, "0-0")


async def test_a_letter_that_is_dealt_with_is_named_and_one_that_is_not_there_is_not_found() -> None:
    broker = MemoryBroker(partitions=1)
    for offset in range(2):
        await dead_letter(broker, record(offset), Rejection(None, Code.UNDECODABLE, "r"))
    await replay.drop(broker, broker.publisher(), DEAD, "0-1")

    await replay.require_open(broker, DEAD, ["0-0"])
    with pytest.raises(Conflict, match=r"resolved already: 0-1\.$"):
        await replay.require_open(broker, DEAD, ["0-0", "0-1"])
    with pytest.raises(NotFound, match="0-7"):
        await replay.require_open(broker, DEAD, ["0-7"])
    with pytest.raises(NotFound, match="0-7"):
        await replay.drop(broker, broker.publisher(), DEAD, "0-7")


async def test_each_duplicate_of_an_open_letter_is_open() -> None:
    """Without a key they lie in any partition, and which of them is read first is never the same."""
    broker = MemoryBroker(partitions=2)
    for _ in range(2):
        await dead_letter(broker, record()._replace(key=None), Rejection(None, Code.UNDECODABLE, "r"))

    await replay.require_open(broker, DEAD, ["0-0", "1-0"])
    await replay.drop(broker, broker.publisher(), DEAD, "1-0")

    with pytest.raises(Conflict, match=r": 0-0, 1-0\.$"):
        await replay.require_open(broker, DEAD, ["0-0", "1-0"])


@pytest.mark.parametrize("letter_id", ["", "0", "0-", "-1", "0-0-0", "a-b", "٣-٤", "0-9999999999999999999"])
async def test_an_id_that_is_none_is_refused(letter_id: str) -> None:
    with pytest.raises(InvalidInput):
        await replay.show(MemoryBroker(), DEAD, letter_id)


async def test_what_is_not_there_is_not_found_and_a_resolution_is_no_letter() -> None:
    broker = MemoryBroker(partitions=1)
    await dead_letter(broker, record(), Rejection(None, Code.UNDECODABLE, "r"))
    await replay.drop(broker, broker.publisher(), DEAD, "0-0")

    for letter_id in ("0-1", "0-2", "9-0"):
        with pytest.raises(NotFound):
            await replay.replay(broker, broker.publisher(), DEAD, letter_id)


async def test_progress_hears_how_much_was_read() -> None:
    broker = MemoryBroker(partitions=1)
    for offset in range(3):
        await dead_letter(broker, record(offset), Rejection(None, Code.UNDECODABLE, "r"))
    kept: list[int] = []

    await replay.list_dead_letters(broker, DEAD, progress=kept.append)

    assert kept == [3]


async def test_a_list_past_its_limit_says_so(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(replay, "DEAD_LETTERS_MAX", 2)
    broker = MemoryBroker(partitions=1)
    for offset in range(2):
        await dead_letter(broker, record(offset), Rejection(None, Code.UNDECODABLE, "r"))
    assert (await replay.list_dead_letters(broker, DEAD)).is_complete

    await dead_letter(broker, record(2), Rejection(None, Code.UNDECODABLE, "r"))

    found = await replay.list_dead_letters(broker, DEAD)
    assert (len(found.letters), found.is_complete) == (2, False)
    with pytest.raises(Conflict, match=r"Not among the first 2 open dead letters, .+: 0-2\."):
        await replay.require_open(broker, DEAD, ["0-0", "0-2"])


async def test_all_open_letters_are_carried_over_be_they_more_than_a_list_shows(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(replay, "DEAD_LETTERS_MAX", 2)
    broker = MemoryBroker(partitions=1)
    for offset in range(4):
        await dead_letter(broker, record(offset), Rejection(None, Code.UNDECODABLE, "r"))
    await replay.drop(broker, broker.publisher(), DEAD, "0-0")

    assert [letter.offset async for letter in replay.open_dead_letters(broker, DEAD)] == [1, 2, 3]


async def test_letters_that_are_dealt_with_take_no_place_of_others(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(replay, "DEAD_LETTERS_MAX", 2)
    broker = MemoryBroker(partitions=1)
    for offset in range(3):
        await dead_letter(broker, record(offset), Rejection(None, Code.UNDECODABLE, "r"))
    for offset in range(3):
        await replay.drop(broker, broker.publisher(), DEAD, f"0-{offset}")
    await dead_letter(broker, record(2), Rejection(None, Code.UNDECODABLE, "a duplicate of one that was dropped"))
    await dead_letter(broker, record(9), Rejection(None, Code.UNDECODABLE, "new"))

    found = await replay.list_dead_letters(broker, DEAD)

    assert [letter.reason for letter in found.letters] == ["new"]
    assert found.is_complete
    await replay.require_open(broker, DEAD, [found.letters[0].id])


async def test_a_letter_from_a_topic_that_nobody_reads_is_not_replayed() -> None:
    broker = MemoryBroker(partitions=1)
    await dead_letter(broker, record(), Rejection(None, Code.UNDECODABLE, "r"))

    await replay.require_read(broker, DEAD, ["0-0"], topics=["otlp_spans_json"])
    with pytest.raises(
        Conflict, match="0-0 came from the topic otlp_spans_json, which CLEARSPAN_KAFKA__TOPICS does not"
    ):
        await replay.require_read(broker, DEAD, ["0-0"], topics=["spans"])
