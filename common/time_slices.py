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
        while True:
            ends_s = time.monotonic() + SLICE_S
            try:
                while time.monotonic() < ends_s:
                    next(steps)
            except StopIteration as end:
                result: Result = end.value
                return result
            await asyncio.sleep(0)
