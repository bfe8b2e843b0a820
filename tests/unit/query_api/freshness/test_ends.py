from __future__ import annotations

import asyncio

import pytest

from common.errors import Unavailable
from common.kafka.record import Partition
from query_api.freshness.ends import ASKING_INTERVAL_S, Ends, KnownEnds
from tests.fakes.clock import ManualClock
from tests.fakes.kafka import MemoryBroker, MemoryLogEnds


@pytest.fixture
def clock() -> ManualClock:
    return ManualClock()


@pytest.fixture
def source() -> MemoryLogEnds:
    return MemoryBroker(partitions=1).ends("spans")


async def test_kafka_is_asked_once_a_second_however_many_requests_come(
    clock: ManualClock, source: MemoryLogEnds
) -> None:
    known = KnownEnds(source, clock)
    for _ in range(3):
        known.ask()
        assert await known.heard(timeout_s=1.0) == Ends(clock.now_ns() // 1_000, {"memory/spans/0": 0})
    clock.advance(ASKING_INTERVAL_S - 0.01)
    known.ask()
    await known.heard(timeout_s=1.0)
    assert source.asked_count == 1

    clock.advance(0.01)
    known.ask()
    await known.heard(timeout_s=1.0)

    assert source.asked_count == 2


async def test_without_requests_nobody_asks(clock: ManualClock, source: MemoryLogEnds) -> None:
    known = KnownEnds(source, clock)

    assert await known.heard(timeout_s=1.0) is None
    assert source.asked_count == 0


async def test_the_last_answer_stands_while_kafka_is_away_and_the_reason_is_known(
    clock: ManualClock, source: MemoryLogEnds
) -> None:
    known = KnownEnds(source, clock)
    known.ask()
    first = await known.heard(timeout_s=1.0)
    clock.advance(ASKING_INTERVAL_S)
    source.faults.append(Unavailable("Kafka is away."))

    known.ask()

    assert await known.heard(timeout_s=1.0) == first is not None
    assert known.failure == "Kafka is away."
    clock.advance(ASKING_INTERVAL_S)
    known.ask()
    await known.heard(timeout_s=1.0)
    assert known.failure is None


async def test_a_kafka_that_does_not_answer_holds_requests_up_once(clock: ManualClock) -> None:
    known = KnownEnds(_Silent(), clock)
    known.ask()

    started_s = asyncio.get_running_loop().time()
    assert await known.heard(timeout_s=0.05) is None
    assert asyncio.get_running_loop().time() - started_s >= 0.04
    clock.advance(0.05)
    started_s = asyncio.get_running_loop().time()
    known.ask()
    assert await known.heard(timeout_s=0.05) is None
    assert asyncio.get_running_loop().time() - started_s < 0.04
    await known.close()


def test_the_log_of_a_partition_is_the_one_that_kafka_has_now() -> None:
    ends = Ends(0, {"c/more_spans/1": 0, "c/spans/11": 0, "c/spans/1": 0})

    assert ends.log_of(Partition("spans", 1)) == "c/spans/1"
    assert ends.log_of(Partition("spans", 2)) is None


class _Silent(MemoryLogEnds):
    """Never answers."""

    def __init__(self) -> None:
        super().__init__(MemoryBroker(), ["spans"])

    async def ask(self) -> dict[str, int]:
        await asyncio.Event().wait()
        return {}
