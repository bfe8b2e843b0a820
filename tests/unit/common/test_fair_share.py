"""Places and threads shared by projects: who gets one, in which order, and what a cancelled call leaves."""

from __future__ import annotations

import asyncio
import random
import threading
from collections import Counter
from collections.abc import Awaitable, Callable
from dataclasses import replace
from uuid import UUID

import pytest

from common import fair_share
from common.errors import Overloaded
from common.fair_share import OWN_WORK, FairShare, RequestTurn, Tenant, in_thread, working_for

A, B, C = (Tenant(UUID(int=number), has_neighbors=True, queue_s=5.0) for number in (1, 2, 3))
ALONE = Tenant(UUID(int=1), queue_s=5.0)


class Calls:
    """Calls that each take a place and keep it until released. ``holding`` lists the callers in the order of their
    grants.
    """

    def __init__(self, share: FairShare) -> None:
        self._share = share
        self._tasks: dict[str, asyncio.Task[None]] = {}
        self._ends: dict[str, asyncio.Event] = {}
        self.holding: list[str] = []

    async def begin(self, name: str, tenant: Tenant) -> None:
        self._ends[name] = asyncio.Event()
        self._tasks[name] = asyncio.create_task(self._call(name, tenant))
        await settled()

    async def end(self, name: str) -> None:
        self._ends[name].set()
        await self._tasks[name]
        await settled()

    async def cancel(self, *names: str) -> None:
        for name in names:
            self._tasks[name].cancel()
        await settled()

    async def _call(self, name: str, tenant: Tenant) -> None:
        await self._share.acquire(tenant, timeout_s=60)
        self.holding.append(name)
        try:
            await self._ends[name].wait()
        finally:
            self.holding.remove(name)
            self._share.release(tenant)


async def settled() -> None:
    for _ in range(5):
        await asyncio.sleep(0)


async def test_later_calls_of_a_request_go_before_requests_that_arrived_after_it() -> None:
    calls = Calls(FairShare("places", 1))
    first, second = (replace(ALONE, turn=RequestTurn()) for _ in range(2))

    await calls.begin("first, statement 1", first)
    await calls.begin("second, statement 1", second)
    await calls.begin("first, statement 2", first)
    await calls.end("first, statement 1")

    assert calls.holding == ["first, statement 2"]


async def test_request_that_has_worked_for_long_queues_for_each_call(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(fair_share, "TURN_WORK_S", 0.0)
    calls = Calls(FairShare("places", 1))
    first, second = (replace(ALONE, turn=RequestTurn()) for _ in range(2))

    await calls.begin("first, statement 1", first)
    await calls.begin("second, statement 1", second)
    await calls.begin("first, statement 2", first)
    await calls.end("first, statement 1")

    assert calls.holding == ["second, statement 1"]


async def test_long_work_gives_way_to_requests_that_waited_before_its_next_call() -> None:
    calls = Calls(FairShare("places", 1))

    await calls.begin("export, statement 1", ALONE)
    await calls.begin("request", replace(ALONE, turn=RequestTurn()))
    await calls.begin("export, statement 2", ALONE)
    await calls.end("export, statement 1")

    assert calls.holding == ["request"]


async def test_calls_that_wait_at_the_same_time_count_once() -> None:
    share, tenant = FairShare("places", 1), replace(ALONE, turn=RequestTurn())
    assert tenant.turn is not None
    await share.acquire(ALONE, timeout_s=60)
    waiting = [asyncio.create_task(share.acquire(tenant, timeout_s=60)) for _ in range(4)]
    await asyncio.sleep(0.1)

    while_waiting_s = tenant.turn.waited_s
    for task in waiting:
        share.release(ALONE)
        await task
    waited_s = tenant.turn.waited_s
    await asyncio.sleep(0.02)

    assert 0.05 < while_waiting_s <= waited_s < 0.3
    assert tenant.turn.waited_s == waited_s


@pytest.mark.parametrize(("places", "share"), [(1, 1), (2, 1), (3, 2), (4, 2), (5, 3)])
async def test_project_with_neighbors_holds_at_most_half_rounded_up(places: int, share: int) -> None:
    calls = Calls(FairShare("places", places))

    for number in range(places + 1):
        await calls.begin(f"a{number}", A)

    assert calls.holding == [f"a{number}" for number in range(share)]


async def test_single_project_may_hold_all_places() -> None:
    calls = Calls(FairShare("places", 4))

    for number in range(5):
        await calls.begin(f"a{number}", ALONE)

    assert len(calls.holding) == 4


async def test_waiters_of_one_project_do_not_delay_a_neighbor() -> None:
    calls = Calls(FairShare("places", 4))
    for number in range(10):
        await calls.begin(f"a{number}", A)

    await calls.begin("b", B)

    assert calls.holding == ["a0", "a1", "b"]


async def test_project_is_served_in_order_of_arrival() -> None:
    calls = Calls(FairShare("places", 2))
    for number in range(4):
        await calls.begin(f"a{number}", A)

    for number in range(3):
        assert calls.holding == [f"a{number}"]
        await calls.end(f"a{number}")
    assert calls.holding == ["a3"]


async def test_free_place_goes_to_the_project_with_fewest_then_to_the_first() -> None:
    calls = Calls(FairShare("places", 2))
    await calls.begin("a0", A)
    await calls.begin("b0", B)
    await calls.begin("a1", A)
    await calls.begin("b1", B)
    await calls.begin("c0", C)

    await calls.end("a0")
    assert calls.holding == ["b0", "a1"]
    await calls.end("b0")
    assert calls.holding == ["a1", "b1"]
    await calls.end("a1")
    assert calls.holding == ["b1", "c0"]


async def test_waiter_is_rejected_after_the_queue_time_with_its_share() -> None:
    share = FairShare("handles", 2)
    impatient = Tenant(A.project_id, has_neighbors=True, queue_s=0.01)
    await share.acquire(impatient, timeout_s=60)

    with pytest.raises(
        Overloaded, match=r"None of the handles became free within 0.01 s; this project may use 1 at the"
    ):
        await share.acquire(impatient, timeout_s=60)

    await share.acquire(B, timeout_s=60)  # a caller that is gone has no place


async def test_project_without_neighbors_waits_as_long_as_places_are_granted(monkeypatch: pytest.MonkeyPatch) -> None:
    """However long: on a machine that computes something else, its own requests take longer than the queue time."""
    passed_s = _clock_of_loop(monkeypatch)
    share = FairShare("handles", 1)
    alone = replace(ALONE, queue_s=60.0)
    await share.acquire(alone, timeout_s=60)
    waiting = [asyncio.create_task(share.acquire(alone, timeout_s=60)) for _ in range(5)]

    for call in waiting:
        await passed_s(50)
        share.release(alone)
        await call


async def test_project_without_neighbors_is_rejected_when_no_place_was_granted_in_its_queue_time(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    passed_s = _clock_of_loop(monkeypatch)
    share = FairShare("handles", 1)
    alone = replace(ALONE, queue_s=60.0)
    await share.acquire(alone, timeout_s=60)
    waiting = [asyncio.create_task(share.acquire(alone, timeout_s=60)) for _ in range(2)]
    await passed_s(50)
    share.release(alone)
    await waiting[0]

    await passed_s(50)
    assert not waiting[1].done()
    await passed_s(20)
    with pytest.raises(Overloaded):
        await waiting[1]


async def test_project_with_neighbors_is_rejected_although_its_other_calls_get_places(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    passed_s = _clock_of_loop(monkeypatch)
    share = FairShare("handles", 2)
    greedy = replace(A, queue_s=60.0)
    await share.acquire(greedy, timeout_s=60)
    waiting = [asyncio.create_task(share.acquire(greedy, timeout_s=60)) for _ in range(2)]
    await passed_s(50)
    share.release(greedy)
    await waiting[0]

    await passed_s(20)
    with pytest.raises(Overloaded):
        await waiting[1]


def _clock_of_loop(monkeypatch: pytest.MonkeyPatch) -> Callable[[float], Awaitable[None]]:
    """Return a function that moves the clock of the event loop on."""
    loop = asyncio.get_running_loop()
    real, passed_s = loop.time, 0.0
    monkeypatch.setattr(loop, "time", lambda: real() + passed_s)

    async def move_on(seconds: float) -> None:
        nonlocal passed_s
        await settled()
        passed_s += seconds
        await settled()

    return move_on


async def test_own_work_waits_as_long_as_its_caller_allows() -> None:
    share = FairShare("handles", 1)
    await share.acquire(OWN_WORK, timeout_s=1)

    with pytest.raises(Overloaded):
        await share.acquire(OWN_WORK, timeout_s=0.01)


async def test_cancelled_waiter_is_skipped() -> None:
    calls = Calls(FairShare("places", 2))
    for number in range(4):
        await calls.begin(f"a{number}", A)

    await calls.cancel("a1")
    await calls.end("a0")

    assert calls.holding == ["a2"]


async def test_place_granted_to_a_cancelled_waiter_goes_to_the_next() -> None:
    share = FairShare("places", 1)
    await share.acquire(A, timeout_s=60)
    first, second = (asyncio.create_task(share.acquire(tenant, timeout_s=60)) for tenant in (A, B))
    await settled()

    share.release(A)
    first.cancel()
    second_done, _ = await asyncio.wait({second}, timeout=30)

    assert second_done == {second}
    assert first.cancelled()


async def test_place_freed_during_a_cancellation_is_not_lost() -> None:
    share = FairShare("places", 1)
    await share.acquire(A, timeout_s=60)
    first, second = (asyncio.create_task(share.acquire(tenant, timeout_s=60)) for tenant in (A, B))
    await settled()

    first.cancel()
    share.release(A)
    second_done, _ = await asyncio.wait({second}, timeout=30)

    assert second_done == {second}


async def test_place_is_released_if_its_holder_fails() -> None:
    share = FairShare("places", 1)
    with working_for(A):
        with pytest.raises(ValueError, match="no"):
            async with share.place(timeout_s=1):
                raise ValueError("no")
        async with share.place(timeout_s=1):
            pass


async def test_idle_projects_are_forgotten() -> None:
    share = FairShare("places", 2)
    for number in range(100):
        tenant = Tenant(UUID(int=number), has_neighbors=True, queue_s=0.001)
        await share.acquire(tenant, timeout_s=1)
        with pytest.raises(Overloaded):
            await share.acquire(tenant, timeout_s=1)
        share.release(tenant)

    assert not share._held
    assert not share._waiting


async def test_no_place_is_lost_or_held_twice_under_random_cancellations() -> None:
    places, chance = 3, random.Random(18)
    share = FairShare("places", places)
    held: Counter[UUID] = Counter()

    async def call(tenant: Tenant) -> None:
        await share.acquire(tenant, timeout_s=60)
        held[tenant.project_id] += 1
        try:
            assert held.total() <= places
            assert held[tenant.project_id] <= share.share
            await asyncio.sleep(chance.choice([0, 0, 0.001]))
        finally:
            held[tenant.project_id] -= 1
            share.release(tenant)

    tasks = set()
    for _ in range(2_000):
        tasks.add(asyncio.create_task(call(chance.choice([A, B, C]))))
        if chance.random() < 0.5:
            await asyncio.sleep(0)
        if chance.random() < 0.3:
            chance.choice(sorted(tasks, key=id)).cancel()
    ended = await asyncio.gather(*tasks, return_exceptions=True)

    assert {type(outcome) for outcome in ended} <= {type(None), asyncio.CancelledError}
    assert not share._held
    for _ in range(places):
        await share.acquire(ALONE, timeout_s=0.1)


ONE, OTHER = (Tenant(UUID(int=number), has_neighbors=True, queue_s=0.05) for number in (1, 2))


async def test_result_or_exception_of_the_function_is_returned() -> None:
    assert await in_thread(divmod, 7, 2) == (3, 1)
    with pytest.raises(ZeroDivisionError):
        await in_thread(divmod, 7, 0)


async def test_project_at_its_share_leaves_threads_to_its_neighbors(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(fair_share, "THREADS_COUNT", 2)
    go_on = threading.Event()
    with working_for(ONE):
        first = asyncio.create_task(in_thread(go_on.wait, 5))
        await asyncio.sleep(0)
        with pytest.raises(Overloaded, match="threads"):
            await in_thread(go_on.wait, 5)

    with working_for(OTHER):
        assert await in_thread(str, 5) == "5"
    go_on.set()
    assert await first


async def test_abandoned_thread_counts_until_it_ends(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(fair_share, "THREADS_COUNT", 2)
    go_on = threading.Event()
    with working_for(ONE):
        abandoned = asyncio.create_task(in_thread(go_on.wait, 5))
        await asyncio.sleep(0)
        abandoned.cancel()
        await asyncio.wait({abandoned})

        with pytest.raises(Overloaded):
            await in_thread(str, 5)
        go_on.set()
        await asyncio.sleep(0.01)
        assert await in_thread(str, 5) == "5"


async def test_work_of_requests_leaves_the_threads_of_the_loop_to_the_program() -> None:
    go_on = threading.Event()
    working = [asyncio.create_task(in_thread(go_on.wait, 120)) for _ in range(fair_share.THREADS_COUNT)]
    await asyncio.sleep(0)

    try:
        async with asyncio.timeout(60):
            assert await asyncio.to_thread(str, 5) == "5"
    finally:
        go_on.set()

    assert await asyncio.gather(*working) == [True] * len(working)
