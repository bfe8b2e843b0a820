"""How often subscriptions read."""

from __future__ import annotations

from uuid import UUID

from jobs.subscriptions.pace import INTERVAL_S_MAX, INTERVAL_S_MIN, Pace
from tests.fakes.clock import ManualClock

PROJECT, ONE = UUID(int=1), UUID(int=2)


async def read(pace: Pace, clock: ManualClock, subscription_id: UUID, *, seconds: float, times: int = 60) -> None:
    for _ in range(times):
        async with pace.read(PROJECT, subscription_id):
            clock.advance(seconds)


async def test_one_subscription_reads_often() -> None:
    clock = ManualClock()
    pace = Pace(clock)
    async with pace.subscription(PROJECT, ONE):
        await read(pace, clock, ONE, seconds=0.01)

        assert pace.interval_s(PROJECT, ONE) == INTERVAL_S_MIN


async def test_many_subscriptions_share_half_of_the_time_and_one_that_finds_spans_does_not_wait_for_them() -> None:
    clock = ManualClock()
    pace = Pace(clock)
    for number in range(100):
        pace.found(PROJECT, UUID(int=100 + number), is_some=False)
    pace.found(PROJECT, ONE, is_some=True)
    await read(pace, clock, UUID(int=100), seconds=0.02)

    assert 3.9 < pace.interval_s(PROJECT, UUID(int=100)) < 4.1
    assert pace.interval_s(PROJECT, ONE) == INTERVAL_S_MIN


async def test_interval_has_a_bound() -> None:
    clock = ManualClock()
    pace = Pace(clock)
    async with pace.subscription(PROJECT, ONE):
        await read(pace, clock, ONE, seconds=60)

        assert pace.interval_s(PROJECT, ONE) == INTERVAL_S_MAX
