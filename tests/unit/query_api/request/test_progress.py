"""Stored positions, Kafka's end offsets, and the time up to which data is complete."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from uuid import UUID

import pytest
from hypothesis import given
from hypothesis import strategies as st

from common.errors import Unavailable
from common.kafka.record import Partition
from common.stored_position import StoredPosition
from query_api.request.progress import (
    PROJECTS_MAX,
    REFRESH_INTERVAL_S,
    EndOffsetsRead,
    KnownEndOffsets,
    StoredThrough,
    Through,
    asked_through_us,
    through_us,
)
from tests.fakes.clock import ManualClock
from tests.fakes.kafka import MemoryBroker, MemoryEndOffsets

A, B = UUID(int=1), UUID(int=2)


def settled(offset: int, *, project_id: UUID = A, partition_id: str = "x") -> StoredPosition:
    return StoredPosition(project_id, partition_id, offset, 10 * offset, 100 * offset)


def test_highest_offset_of_a_partition_counts_in_any_order() -> None:
    stored = StoredThrough()
    stored.learn([settled(5), settled(3), settled(1, partition_id="y")])
    stored.learn([settled(4)])

    assert stored.through(A) == {"x": Through(5, 50, 500), "y": Through(1, 10, 100)}
    assert stored.through(B) == {}


def test_returned_positions_do_not_change_later() -> None:
    """Answers promise what was stored before they were made."""
    stored = StoredThrough()
    stored.learn([settled(5)])
    before = stored.through(A)

    stored.learn([settled(6)])

    assert before == {"x": Through(5, 50, 500)}


def test_offsets_of_the_partitions_stored_last_are_returned() -> None:
    stored = StoredThrough()
    stored.learn(StoredPosition(A, f"log {number}", number, 1, 10 - number) for number in range(5))

    assert stored.offsets(A, max_count=5) == {f"log {number}": number for number in range(5)}
    assert stored.offsets(A, max_count=2) == {"log 0": 0, "log 1": 1}
    assert stored.offsets(B, max_count=2) == {}


def test_known_position_is_no_news() -> None:
    stored = StoredThrough()
    stored.learn([settled(5)])
    count = stored.news_count(A)

    stored.learn([settled(5), settled(4), settled(9, project_id=B)])

    assert stored.news_count(A) == count


async def test_news_wakes_only_waiters_of_its_project() -> None:
    stored = StoredThrough()
    of_a = asyncio.create_task(stored.wait_for_news(A, since=0, timeout_s=60))
    of_b = asyncio.create_task(stored.wait_for_news(B, since=0, timeout_s=0.05))
    await asyncio.sleep(0)
    assert stored.waiting_count == 2

    stored.learn([settled(1)])

    assert await of_a is True
    assert await of_b is False
    assert stored.waiting_count == 0


async def test_news_between_look_and_wait_is_not_missed() -> None:
    stored = StoredThrough()
    since = stored.news_count(A)
    stored.learn([settled(1)])

    async with asyncio.timeout(30):
        assert await stored.wait_for_news(A, since=since, timeout_s=60) is True


async def test_cancelled_waiter_is_removed() -> None:
    stored = StoredThrough()
    waiting = asyncio.create_task(stored.wait_for_news(A, since=0, timeout_s=60))
    await asyncio.sleep(0)

    waiting.cancel()
    await asyncio.wait({waiting})

    assert stored.waiting_count == 0


async def test_release_wakes_every_waiter() -> None:
    stored = StoredThrough()
    waiting = asyncio.create_task(stored.wait_for_news(A, since=0, timeout_s=60))
    await asyncio.sleep(0)

    stored.release()

    async with asyncio.timeout(30):
        assert await waiting is False
        assert await stored.wait_for_news(A, since=0, timeout_s=60) is False


async def test_quietest_project_without_waiters_is_dropped_above_the_limit() -> None:
    stored = StoredThrough()
    waiting = asyncio.create_task(stored.wait_for_news(UUID(int=10**9), since=0, timeout_s=60))
    await asyncio.sleep(0)
    for number in range(PROJECTS_MAX - 1):
        stored.learn([settled(1, project_id=UUID(int=number))])
    stored.learn([settled(2, project_id=UUID(int=0))])
    assert stored.through(UUID(int=1))

    stored.learn([settled(1, project_id=UUID(int=PROJECTS_MAX))])

    assert not stored.through(UUID(int=1))
    assert stored.through(UUID(int=0))
    assert stored.through(UUID(int=2))
    stored.learn([settled(1, project_id=UUID(int=10**9))])
    assert await waiting is True


async def test_timed_out_wait_keeps_nothing_in_memory() -> None:
    stored = StoredThrough()
    stored.learn([settled(1)])
    assert await stored.wait_for_news(A, since=1, timeout_s=0.001) is False

    stored.learn(settled(1, project_id=UUID(int=100 + number)) for number in range(PROJECTS_MAX))

    assert not stored.through(A)


LOG, OTHER_LOG = "c/spans/0", "c/spans/1"
ASKED_US = 5_000_000


def _through_us(ends: Mapping[str, int], stored: Mapping[str, Through]) -> int | None:
    return through_us(EndOffsetsRead(ASKED_US, ends), stored)


def test_partition_stored_to_its_end_is_complete_up_to_the_read() -> None:
    assert _through_us({LOG: 3}, {LOG: Through(2, record_ms=1, stored_us=2)}) == ASKED_US
    assert _through_us({LOG: 0}, {}) == ASKED_US


def test_partition_with_a_backlog_is_complete_up_to_its_last_stored_record() -> None:
    assert _through_us({LOG: 4}, {LOG: Through(2, record_ms=1_000, stored_us=1_500_000)}) == 1_000_000


def test_records_after_the_read_count_too() -> None:
    assert _through_us({LOG: 3}, {LOG: Through(9, record_ms=6_000, stored_us=6_500_000)}) == 6_000_000


def test_record_time_in_the_future_counts_as_the_time_of_storing() -> None:
    assert _through_us({LOG: 4}, {LOG: Through(2, record_ms=99_000, stored_us=1_500_000)}) == 1_500_000


def test_record_without_a_time_gives_no_time() -> None:
    assert _through_us({LOG: 4}, {LOG: Through(2, record_ms=-1, stored_us=1_500_000)}) is None
    assert _through_us({LOG: 4}, {LOG: Through(2, record_ms=0, stored_us=1_500_000)}) == 0


def test_partition_ending_with_an_untimed_record_is_complete_up_to_the_read() -> None:
    assert _through_us({LOG: 3}, {LOG: Through(2, record_ms=-1, stored_us=1_500_000)}) == ASKED_US


def test_earliest_time_of_all_partitions_counts() -> None:
    stored = {LOG: Through(2, record_ms=1, stored_us=2), OTHER_LOG: Through(2, record_ms=1_000, stored_us=1_500_000)}

    assert _through_us({LOG: 3, OTHER_LOG: 4}, stored) == 1_000_000


def test_unknown_partition_makes_the_time_unknown() -> None:
    assert _through_us({LOG: 3, OTHER_LOG: 1}, {LOG: Through(2, record_ms=1, stored_us=2)}) is None
    assert _through_us({}, {}) is None


def test_partition_of_a_replaced_broker_does_not_count() -> None:
    assert _through_us({LOG: 3}, {LOG: Through(2, 1, 2), "older/spans/0": Through(0, 1, 2)}) == ASKED_US


@given(
    appended=st.lists(st.tuples(st.integers(0, 20), st.integers(0, 20)), max_size=20),
    stored_count=st.integers(0, 20),
    asked_ms=st.integers(0, 25),
)
def test_everything_kafka_took_by_the_returned_time_is_stored(
    appended: list[tuple[int, int]], stored_count: int, asked_ms: int
) -> None:
    """Records are taken in order; each was made some time before, by a clock that is not ahead."""
    taken_ms = sorted(time for time, _ in appended)
    made_ms = [time - before for time, (_, before) in zip(taken_ms, appended, strict=True)]
    end = sum(time <= asked_ms for time in taken_ms)
    stored = min(stored_count, len(taken_ms))
    known = {LOG: Through(stored - 1, made_ms[stored - 1], 10**9)} if stored else {}

    complete_us = through_us(EndOffsetsRead(asked_ms * 1_000, {LOG: end}), known)

    if complete_us is not None:
        assert sum(time * 1_000 < complete_us for time in taken_ms) <= stored


def test_without_record_times_it_is_the_last_read_that_is_fully_stored() -> None:
    answers = [
        EndOffsetsRead(3, {LOG: 9, OTHER_LOG: 1}),
        EndOffsetsRead(2, {LOG: 5, OTHER_LOG: 1}),
        EndOffsetsRead(1, {LOG: 0, OTHER_LOG: 0}),
    ]

    def through(offset: int, other_offset: int) -> int | None:
        stored = {LOG: Through(offset, 7_000, 7_000_000), OTHER_LOG: Through(other_offset, 7_000, 7_000_000)}
        return asked_through_us(answers, stored)

    assert [through(8, 0), through(7, 0), through(4, 3), through(3, 0)] == [3, 2, 2, 1]
    assert asked_through_us(answers, {}) == 1
    assert asked_through_us(answers[:2], {}) is None


@pytest.fixture
def clock() -> ManualClock:
    return ManualClock()


@pytest.fixture
def source() -> MemoryEndOffsets:
    return MemoryBroker(partitions=1).ends("spans")


async def test_end_offsets_are_read_at_most_once_a_second(clock: ManualClock, source: MemoryEndOffsets) -> None:
    known = KnownEndOffsets(source, clock)
    for _ in range(3):
        known.refresh()
        assert await known.refreshed(timeout_s=30.0) == EndOffsetsRead(clock.now_ns() // 1_000, {"memory/spans/0": 0})
    clock.advance(REFRESH_INTERVAL_S - 0.01)
    known.refresh()
    await known.refreshed(timeout_s=30.0)
    assert source.asked_count == 1

    clock.advance(0.01)
    known.refresh()
    await known.refreshed(timeout_s=30.0)

    assert source.asked_count == 2


async def test_end_offsets_are_not_read_without_requests(clock: ManualClock, source: MemoryEndOffsets) -> None:
    known = KnownEndOffsets(source, clock)

    assert await known.refreshed(timeout_s=30.0) is None
    assert source.asked_count == 0


async def test_last_read_is_kept_with_a_reason_while_kafka_is_unavailable(
    clock: ManualClock, source: MemoryEndOffsets
) -> None:
    known = KnownEndOffsets(source, clock)
    known.refresh()
    first = await known.refreshed(timeout_s=30.0)
    clock.advance(REFRESH_INTERVAL_S)
    source.faults.append(Unavailable("Kafka is unavailable."))

    known.refresh()

    assert await known.refreshed(timeout_s=30.0) == first is not None
    assert known.failure == "Kafka is unavailable."
    clock.advance(REFRESH_INTERVAL_S)
    known.refresh()
    await known.refreshed(timeout_s=30.0)
    assert known.failure is None


async def test_unresponsive_kafka_delays_requests_only_once(clock: ManualClock) -> None:
    known = KnownEndOffsets(_Silent(), clock)
    known.refresh()

    started_s = asyncio.get_running_loop().time()
    assert await known.refreshed(timeout_s=0.05) is None
    assert asyncio.get_running_loop().time() - started_s >= 0.04
    clock.advance(30.0)
    started_s = asyncio.get_running_loop().time()
    known.refresh()
    assert await known.refreshed(timeout_s=30.0) is None
    assert asyncio.get_running_loop().time() - started_s < 20
    await known.close()


async def test_running_read_is_not_started_again(clock: ManualClock) -> None:
    source = _Silent()
    known = KnownEndOffsets(source, clock)
    for _ in range(3):
        known.refresh()
        await asyncio.sleep(0)
        clock.advance(REFRESH_INTERVAL_S)

    assert source.asked_count == 1
    await known.close()
    assert source.is_closed


async def test_records_taken_during_the_read_are_not_promised(clock: ManualClock) -> None:
    asked_us = clock.now_ns() // 1_000
    known = KnownEndOffsets(_Slow(clock), clock)

    known.refresh()
    ends = await known.refreshed(timeout_s=30.0)

    assert ends == EndOffsetsRead(asked_us, {"memory/spans/0": 0})


async def test_unexpected_failure_does_not_stop_later_reads(clock: ManualClock) -> None:
    source = _Failing()
    known = KnownEndOffsets(source, clock)
    known.refresh()
    await known.refreshed(timeout_s=30.0)
    clock.advance(REFRESH_INTERVAL_S)

    known.refresh()
    await known.refreshed(timeout_s=30.0)

    assert source.asked_count == 2


def test_partition_ids_are_by_topic_and_number() -> None:
    ends = EndOffsetsRead(0, {"c/more_spans/1": 0, "c/spans/11": 0, "c/spans/1": 0})

    assert ends.partition_ids == {
        Partition("more_spans", 1): "c/more_spans/1",
        Partition("spans", 11): "c/spans/11",
        Partition("spans", 1): "c/spans/1",
    }


class _Silent(MemoryEndOffsets):
    """Never answers."""

    def __init__(self) -> None:
        super().__init__(MemoryBroker(), ["spans"])
        self.is_closed = False

    async def ask(self) -> dict[str, int]:
        self.asked_count += 1
        await asyncio.Event().wait()
        return {}

    async def close(self) -> None:
        self.is_closed = True


class _Slow(MemoryEndOffsets):
    """Time passes while it answers."""

    def __init__(self, clock: ManualClock) -> None:
        super().__init__(MemoryBroker(partitions=1), ["spans"])
        self._clock = clock

    async def ask(self) -> Mapping[str, int]:
        found = await super().ask()
        self._clock.advance(0.5)
        return found


class _Failing(MemoryEndOffsets):
    """Fails by a mistake of its own."""

    def __init__(self) -> None:
        super().__init__(MemoryBroker(), ["spans"])

    async def ask(self) -> Mapping[str, int]:
        self.asked_count += 1
        raise ZeroDivisionError
