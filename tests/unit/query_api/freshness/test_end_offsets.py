from __future__ import annotations

import asyncio
from collections.abc import Mapping

import pytest

from common.errors import Unavailable
from common.kafka.record import Partition
from query_api.request.progress import REFRESH_INTERVAL_S, EndOffsetsRead, KnownEndOffsets
from tests.fakes.clock import ManualClock
from tests.fakes.kafka import MemoryBroker, MemoryEndOffsets


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
        assert await known.refreshed(timeout_s=1.0) == EndOffsetsRead(clock.now_ns() // 1_000, {"memory/spans/0": 0})
    clock.advance(REFRESH_INTERVAL_S - 0.01)
    known.refresh()
    await known.refreshed(timeout_s=1.0)
    assert source.asked_count == 1

    clock.advance(0.01)
    known.refresh()
    await known.refreshed(timeout_s=1.0)

    assert source.asked_count == 2


async def test_end_offsets_are_not_read_without_requests(clock: ManualClock, source: MemoryEndOffsets) -> None:
    known = KnownEndOffsets(source, clock)

    assert await known.refreshed(timeout_s=1.0) is None
    assert source.asked_count == 0


async def test_last_read_is_kept_with_a_reason_while_kafka_is_unavailable(
    clock: ManualClock, source: MemoryEndOffsets
) -> None:
    known = KnownEndOffsets(source, clock)
    known.refresh()
    first = await known.refreshed(timeout_s=1.0)
    clock.advance(REFRESH_INTERVAL_S)
    source.faults.append(Unavailable("Kafka is unavailable."))

    known.refresh()

    assert await known.refreshed(timeout_s=1.0) == first is not None
    assert known.failure == "Kafka is unavailable."
    clock.advance(REFRESH_INTERVAL_S)
    known.refresh()
    await known.refreshed(timeout_s=1.0)
    assert known.failure is None


async def test_unresponsive_kafka_delays_requests_only_once(clock: ManualClock) -> None:
    known = KnownEndOffsets(_Silent(), clock)
    known.refresh()

    started_s = asyncio.get_running_loop().time()
    assert await known.refreshed(timeout_s=0.05) is None
    assert asyncio.get_running_loop().time() - started_s >= 0.04
    clock.advance(0.05)
    started_s = asyncio.get_running_loop().time()
    known.refresh()
    assert await known.refreshed(timeout_s=0.05) is None
    assert asyncio.get_running_loop().time() - started_s < 0.04
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
    ends = await known.refreshed(timeout_s=1.0)

    assert ends == EndOffsetsRead(asked_us, {"memory/spans/0": 0})


async def test_unexpected_failure_does_not_stop_later_reads(clock: ManualClock) -> None:
    source = _Failing()
    known = KnownEndOffsets(source, clock)
    known.refresh()
    await known.refreshed(timeout_s=1.0)
    clock.advance(REFRESH_INTERVAL_S)

    known.refresh()
    await known.refreshed(timeout_s=1.0)

    assert source.asked_count == 2


def test_partition_id_is_that_of_the_current_cluster() -> None:
    ends = EndOffsetsRead(0, {"c/more_spans/1": 0, "c/spans/11": 0, "c/spans/1": 0})

    assert ends.partition_id_of(Partition("spans", 1)) == "c/spans/1"
    assert ends.partition_id_of(Partition("spans", 2)) is None


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
