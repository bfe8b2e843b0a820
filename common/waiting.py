"""Delays between attempts, the wait for a system that is not available yet, and a limit that begins at an event."""

from __future__ import annotations

import asyncio
import random
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from typing import Final

from common.errors import ServiceError
from common.telemetry import Logger

DELAY_S_MIN: Final = 0.1
DELAY_MAX_S: Final = 5.0
"""Short enough to notice the system soon, long enough not to fill the log."""


class Backoff:
    """Delays that double from 0.1 s up to ``delay_s_max``, each shortened at random by up to half.

    The randomness keeps processes that lost the same system from retrying in step.
    """

    def __init__(self, *, delay_s_max: float, share: Callable[[], float] = random.random) -> None:
        self._delay_s_max = delay_s_max
        self._share = share
        self._tries_count = 0

    def next_delay_s(self) -> float:
        """Return the seconds until the next attempt; each call counts as a failed attempt."""
        ceiling_s: float = min(self._delay_s_max, DELAY_S_MIN * 2.0 ** min(self._tries_count, 30))
        self._tries_count += 1
        return ceiling_s * (0.5 + 0.5 * self._share())


@asynccontextmanager
async def limited_after(event: asyncio.Event, seconds: float) -> AsyncIterator[None]:
    """Raise ``TimeoutError`` if the context lasts for more than ``seconds`` after ``event`` was set."""
    async with asyncio.timeout(None) as limit:

        async def begin() -> None:
            await event.wait()
            limit.reschedule(asyncio.get_running_loop().time() + seconds)

        beginning = asyncio.create_task(begin(), name="limit")
        try:
            yield
        finally:
            beginning.cancel()


async def wait_for(
    probe: Callable[[], Awaitable[object]],
    name: str,
    /,
    *,
    log: Logger,
    sleep: Callable[[float], Awaitable[None]] = asyncio.sleep,
) -> None:
    """Call ``probe`` until it returns; log each failure with its reason.

    ``probe`` raises a ``ServiceError`` while the system is not available. A transient one is retried without limit; any
    other is raised. Pauses double up to ``DELAY_MAX_S``, with jitter, so that many processes do not retry at once.
    """
    backoff = Backoff(delay_s_max=DELAY_MAX_S)
    while True:
        try:
            await probe()
        except ServiceError as exc:
            if not exc.transient:
                raise
            delay_s = backoff.next_delay_s()
            log.warning("Waiting.", system=name, reason=exc.detail, next_try_s=round(delay_s, 1))
            await sleep(delay_s)
        else:
            return
