from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator

import pytest

from common.errors import Unavailable
from common.kafka import dead_letter_index
from common.kafka import dead_letters as topic
from common.kafka.dead_letter_index import DeadLetterIndex, KnownDeadLetters, time_key
from common.kafka.dead_letters import parse_id
from common.kafka.record import Coordinates, TopicExtent
from tests.fakes.clock import ManualClock
from tests.support.dead_letters import TOPIC, StallingBroker, add_dead_letter, created_at


@pytest.fixture
def broker() -> StallingBroker:
    return StallingBroker()


@pytest.fixture
async def index(broker: StallingBroker) -> AsyncIterator[DeadLetterIndex]:
    index = DeadLetterIndex(broker, TOPIC, ManualClock())
    yield index
    await index.close()


async def known(index: DeadLetterIndex, *, timeout_s: float = 5.0) -> KnownDeadLetters:
    return await index.refreshed(timeout_s=timeout_s)


def offsets(found: KnownDeadLetters) -> list[int]:
    return [dead_letter.offset for dead_letter in found.newest_first]


async def test_newest_is_first_and_resolved_ones_are_left_out(broker: StallingBroker, index: DeadLetterIndex) -> None:
    ids = [await add_dead_letter(broker, number, at_s=number / 2) for number in range(5)]
    await topic.drop(broker, broker.publisher(), TOPIC, ids[1])
    await topic.replay(broker, broker.publisher(), TOPIC, ids[3])

    found = await known(index)

    assert (offsets(found), found.since) == ([4, 2, 0], None)
    assert [index.find(each) is not None for each in ids] == [True, False, True, False, True]


async def test_later_request_reads_only_what_was_added(broker: StallingBroker, index: DeadLetterIndex) -> None:
    for number in range(10):
        await add_dead_letter(broker, number, at_s=number)
    await known(index)
    first_count, broker.read_count = broker.read_count, 0

    await add_dead_letter(broker, 10, at_s=10)
    found = await known(index)

    assert (first_count, broker.read_count) == (10, 1)
    assert offsets(found) == list(range(10, -1, -1))


async def test_result_within_its_age_is_repeated_without_asking_kafka(
    broker: StallingBroker, index: DeadLetterIndex
) -> None:
    await add_dead_letter(broker, 0)
    await known(index)
    await add_dead_letter(broker, 1)

    assert len((await index.refreshed(timeout_s=5, age_max_s=1)).newest_first) == 1
    assert len((await index.refreshed(timeout_s=5)).newest_first) == 2


async def test_duplicates_are_listed_once_and_resolved_together(broker: StallingBroker, index: DeadLetterIndex) -> None:
    ids = [await add_dead_letter(broker, 7, at_s=number) for number in range(2)]
    first = await known(index)

    index.resolve(ids[1])

    assert offsets(first) == [7]
    assert offsets(await known(index)) == []
    assert [index.find(each) for each in ids] == [None, None]


async def test_unfinished_read_lists_what_is_open_for_certain(
    broker: StallingBroker, index: DeadLetterIndex, monkeypatch: pytest.MonkeyPatch
) -> None:
    """One partition is read back only to second 8, so what is older in the other one may be resolved there."""
    monkeypatch.setattr(dead_letter_index, "BLOCK_RECORDS", 2)
    broker = StallingBroker(partitions=2)
    index = DeadLetterIndex(broker, TOPIC, ManualClock())
    ids = [await add_dead_letter(broker, number, at_s=number, key=b"a" if number < 7 else b"d") for number in range(10)]
    places = [parse_id(each, TOPIC) for each in ids]
    assert places[0].partition != places[9].partition
    broker.reads_left = 1

    first = await known(index, timeout_s=1.5)
    found = [index.find(ids[number]) is not None for number in (0, 6, 9)]
    may_be_older = [index.may_be_older(place) for place in (places[0], places[6], places[9]._replace(offset=99))]
    broker.go_on.set()
    second = await known(index)
    await index.close()

    assert (offsets(first), first.since, first.is_reading) == ([9], time_key(created_at(8.001)), True)
    assert (found, may_be_older) == ([False, False, True], [True, True, False])
    assert (offsets(second), second.since, second.is_reading) == (list(range(9, -1, -1)), None, False)


async def test_resolution_that_was_read_before_its_dead_letter_counts(
    broker: StallingBroker, index: DeadLetterIndex, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(dead_letter_index, "BLOCK_RECORDS", 1)
    ids = [await add_dead_letter(broker, number, at_s=number) for number in range(4)]
    broker.now_ms += 1_000
    await topic.drop(broker, broker.publisher(), TOPIC, ids[0])

    assert offsets(await known(index)) == [3, 2, 1]


async def test_only_the_newest_are_kept(
    broker: StallingBroker, index: DeadLetterIndex, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(dead_letter_index, "KEPT_MAX", 10)
    ids = [await add_dead_letter(broker, number, at_s=number) for number in range(12)]

    found = await known(index)

    assert (offsets(found), found.since) == (list(range(11, 1, -1)), time_key(created_at(2)))
    assert (index.find(ids[1]), index.may_be_older(Coordinates(TOPIC, 0, 1))) == (None, True)
    await topic.drop(broker, broker.publisher(), TOPIC, ids[1])
    await known(index)
    assert not index.may_be_older(Coordinates(TOPIC, 0, 1))


async def test_forgotten_ones_are_read_again_when_there_is_room(
    broker: StallingBroker, index: DeadLetterIndex, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(dead_letter_index, "KEPT_MAX", 10)
    monkeypatch.setattr(dead_letter_index, "BLOCK_RECORDS", 4)
    ids = [await add_dead_letter(broker, number, at_s=number) for number in range(30)]
    await known(index)
    first = await known(index)
    broker.read_count = 0
    for dead_letter_id in ids[28:]:
        await topic.drop(broker, broker.publisher(), TOPIC, dead_letter_id)
    assert offsets(await known(index)) == offsets(first)[2:]
    assert broker.read_count == 2

    for dead_letter_id in ids[3:28]:
        await topic.drop(broker, broker.publisher(), TOPIC, dead_letter_id)
    await known(index)

    assert offsets(await known(index)) == [2, 1, 0]


async def test_reading_ends_at_its_limit(
    broker: StallingBroker, index: DeadLetterIndex, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(dead_letter_index, "BLOCK_RECORDS", 2)
    monkeypatch.setattr(dead_letter_index, "EXAMINED_MAX", 4)
    for number in range(20):
        await add_dead_letter(broker, number, at_s=number)

    found = await known(index)

    assert (offsets(found), found.is_reading, found.records_count) == ([19, 18, 17, 16, 15], False, 6)
    assert found.since == time_key(created_at(14.001))


async def test_dead_letters_that_were_carried_over_are_listed(
    broker: StallingBroker, index: DeadLetterIndex, monkeypatch: pytest.MonkeyPatch
) -> None:
    """They were rejected long before they were published."""
    monkeypatch.setattr(dead_letter_index, "BLOCK_RECORDS", 3)
    broker.reads_left = 1
    for number in range(9):
        await add_dead_letter(broker, number, at_s=number / 100, published_s=1_000 + number)

    found = await known(index, timeout_s=1.5)

    assert (offsets(found), found.since) == ([8, 7], time_key(created_at(1_006.001)))
    broker.go_on.set()


async def test_topic_of_another_cluster_is_read_anew(broker: StallingBroker, index: DeadLetterIndex) -> None:
    for number in range(3):
        await add_dead_letter(broker, number)
    await known(index)
    broker._logs.clear()
    broker.cluster_id = "another"
    for number in range(3, 8):
        await add_dead_letter(broker, number, at_s=number)

    assert offsets(await known(index)) == [7, 6, 5, 4, 3]


async def test_unreadable_topic_is_an_error_and_not_an_empty_list(
    broker: StallingBroker, index: DeadLetterIndex
) -> None:
    await add_dead_letter(broker, 0)
    broker.read_faults.extend([Unavailable("Kafka is away."), None, Unavailable("Kafka is away again.")])

    with pytest.raises(Unavailable, match="away"):
        await known(index)
    with pytest.raises(Unavailable, match="again"):
        await known(index)
    assert offsets(await known(index)) == [0]


async def test_missing_topic_is_an_error(index: DeadLetterIndex, monkeypatch: pytest.MonkeyPatch) -> None:
    async def extent(_self: StallingBroker, _topic: str) -> TopicExtent:
        return TopicExtent("memory", {})

    monkeypatch.setattr(StallingBroker, "extent", extent)

    with pytest.raises(Unavailable, match=r"There is no topic spans\.dead_letter\."):
        await known(index)


async def test_end_that_does_not_arrive_is_an_error(broker: StallingBroker, index: DeadLetterIndex) -> None:
    await add_dead_letter(broker, 0)
    broker.reads_left = 0

    with pytest.raises(Unavailable, match=r"last records of spans\.dead_letter within 0\.05 s"):
        await known(index, timeout_s=0.05)


async def test_concurrent_requests_share_a_read(broker: StallingBroker, index: DeadLetterIndex) -> None:
    for number in range(10):
        await add_dead_letter(broker, number)

    found = await asyncio.gather(*(known(index) for _ in range(20)))

    assert {len(each.newest_first) for each in found} == {10}
    assert broker.read_count == 10


async def test_dead_letter_is_claimed_once(broker: StallingBroker, index: DeadLetterIndex) -> None:
    await add_dead_letter(broker, 0)
    both = (await known(index)).newest_first

    with index.claim(both) as first, index.claim(both) as second:
        assert (len(first), len(second)) == (1, 0)
    with index.claim(both) as again:
        assert len(again) == 1


async def test_records_of_scattered_dead_letters_are_fetched(broker: StallingBroker, index: DeadLetterIndex) -> None:
    for number in range(400):
        await add_dead_letter(broker, number, at_s=number, value=b"%d" % number)
    newest_first = (await known(index)).newest_first
    wanted = [dead_letter for dead_letter in newest_first if dead_letter.offset in (0, 7, 8, 150, 399)]
    broker.read_count = 0

    records = await index.fetch(wanted)

    assert sorted(int(record.value or b"") for record in records.values()) == [0, 7, 8, 150, 399]
    assert broker.read_count == 11


@pytest.mark.parametrize(
    ("time", "expected"),
    [
        ("2026-01-02T03:04:05Z", "2026-01-02T03:04:05.000000"),
        ("2026-01-02T03:04:05.123456Z", "2026-01-02T03:04:05.123456"),
    ],
)
def test_times_compare_as_text(time: str, expected: str) -> None:
    assert time_key(time) == expected
