"""Work in the event loop lets other work go on, and is shared fairly."""

from __future__ import annotations

import asyncio
import time
from types import SimpleNamespace
from uuid import UUID

import pytest

from common import time_slices
from common.errors import Overloaded
from common.fair_share import Tenant, working_for
from common.steps import Steps, finished
from common.time_slices import PLACES_COUNT, SLICE_S, SLICE_S_MAX, in_slices, slice_after


def _counted(count: int) -> Steps[int]:
    for _ in range(count):
        yield
    return count


def _slow(steps: int) -> Steps[str]:
    for _ in range(steps):
        until_s = time.monotonic() + SLICE_S
        while time.monotonic() < until_s:
            pass
        yield
    return "done"


def _failing() -> Steps[None]:
    yield
    raise ValueError("a step failed")


async def test_result_is_that_of_the_steps() -> None:
    assert finished(_counted(3)) == await in_slices(_counted(3)) == 3
    assert await in_slices(_counted(0)) == 0
    with pytest.raises(ValueError, match="a step failed"):
        await in_slices(_failing())


async def test_other_work_goes_on_between_slices() -> None:
    turns = 0

    async def count_turns() -> None:
        nonlocal turns
        while True:
            turns += 1
            await asyncio.sleep(0)

    counting = asyncio.create_task(count_turns())
    assert await in_slices(_slow(10)) == "done"
    counting.cancel()

    assert turns >= 9


async def test_work_gets_its_share_of_an_event_loop_that_is_busy(monkeypatch: pytest.MonkeyPatch) -> None:
    """Forty steps of a millisecond take forty turns of an event loop without a share, and nine with it."""
    now_s, turns = 0.0, 0
    monkeypatch.setattr(time_slices, "time", SimpleNamespace(monotonic=lambda: now_s))

    def work() -> Steps[None]:
        nonlocal now_s
        for _ in range(40):
            now_s += SLICE_S
            yield

    async def other_work() -> None:
        nonlocal now_s, turns
        while True:
            now_s += 0.02
            turns += 1
            await asyncio.sleep(0)

    others = asyncio.create_task(other_work())
    await in_slices(work())
    others.cancel()

    assert turns <= 10


def test_slice_is_a_share_of_the_time_of_other_work() -> None:
    assert slice_after(0.0) == slice_after(0.004) == SLICE_S
    assert slice_after(0.02) == pytest.approx(0.005)
    assert slice_after(1.0) == SLICE_S_MAX


async def test_project_with_neighbors_leaves_a_place() -> None:
    """Two large requests of one project are done one after the other, and its neighbor's beside the first."""
    first, second = (Tenant(UUID(int=number), has_neighbors=True, queue_s=60.0) for number in (1, 2))
    order: list[str] = []

    async def work(name: str, tenant: Tenant, steps: int) -> None:
        with working_for(tenant):
            await in_slices(_slow(steps))
        order.append(name)

    await asyncio.gather(work("long", first, 50), work("long too", first, 50), work("short", second, 2))

    assert order == ["short", "long", "long too"]


async def test_waiting_for_a_place_ends() -> None:
    impatient = Tenant(UUID(int=1), queue_s=0.0)
    running = [asyncio.create_task(in_slices(_slow(100))) for _ in range(PLACES_COUNT)]
    await asyncio.sleep(0)

    with working_for(impatient), pytest.raises(Overloaded, match="turns of the event loop"):
        await in_slices(_counted(1))
    await asyncio.gather(*running)
