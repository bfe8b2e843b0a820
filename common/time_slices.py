"""CPU-bound work of requests in the event loop, in slices, so that everything else goes on between them (ADR 0014).

It suits work that is cheaper than sending its input to another process.
"""

from __future__ import annotations

import asyncio
import time
from typing import Final, TypeVar
from weakref import WeakKeyDictionary

from common.fair_share import QUEUE_S, FairShare
from common.steps import Steps

SLICE_S: Final = 0.001
"""How long work goes on before other work of the event loop has its turn."""

SHARE: Final = 0.25
"""… or this share of the time that the other work took since the slice before, if that is more.

Otherwise a request that needs ten slices waits for all other work ten times: on a machine that was busy with other
programs, requests with 500 spans, which take 4 ms, waited until they got 429.
"""

SLICE_S_MAX: Final = 0.01
"""The longest slice. Two requests that work by turns wait for each other, so their slices stay far below it."""

PLACES_COUNT: Final = 2
"""Requests whose work is done by turns. With neighbors a project has one of them, so that it never fills both."""

_PLACES: Final[WeakKeyDictionary[asyncio.AbstractEventLoop, FairShare]] = WeakKeyDictionary()

Result = TypeVar("Result")


async def in_slices(steps: Steps[Result]) -> Result:
    """Run the steps in this thread, with pauses; return their result.

    Raises what they raise, and ``Overloaded`` if the current tenant gets no turn in time.
    """
    loop = asyncio.get_running_loop()
    if loop not in _PLACES:
        _PLACES[loop] = FairShare("turns of the event loop", PLACES_COUNT)
    async with _PLACES[loop].place(timeout_s=QUEUE_S):
        slice_s = SLICE_S
        while True:
            ends_s = time.monotonic() + slice_s
            try:
                while (now_s := time.monotonic()) < ends_s:
                    next(steps)
            except StopIteration as end:
                result: Result = end.value
                return result
            await asyncio.sleep(0)
            slice_s = slice_after(time.monotonic() - now_s)


def slice_after(others_s: float) -> float:
    """Return how long the next slice is, in seconds, after other work of the event loop took ``others_s``."""
    return min(max(SLICE_S, SHARE * others_s), SLICE_S_MAX)
