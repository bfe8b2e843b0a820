"""Work in the event loop lets other work go on, and is shared fairly."""

from __future__ import annotations

import asyncio
import time
from uuid import UUID

import pytest

from common.errors import Overloaded
from common.fair_share import Tenant, working_for
from common.steps import Steps, finished
from common.time_slices import PLACES_COUNT, SLICE_S, in_slices


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
