"""Wait for a system that is not available yet, and for work that continues if its caller is cancelled."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any, Final, TypeVar

from common.backoff import Backoff
from common.errors import ServiceError
from common.telemetry import Logger

T = TypeVar("T")

DELAY_MAX_S: Final = 5.0
"""Short enough to notice the system soon, long enough not to fill the log."""


async def wait_for(
    probe: Callable[[], Awaitable[None]],
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
            log.warning("waiting", system=name, reason=exc.detail, next_try_s=round(delay_s, 1))
            await sleep(delay_s)
        else:
            return


async def shielded(running: asyncio.Future[T], /) -> T:
    """Await ``running`` without letting cancellation of the caller cancel it.

    If the caller is gone, a later failure is ignored and not logged.
    """
    running.add_done_callback(_mark_retrieved)
    return await asyncio.shield(running)


def _mark_retrieved(running: asyncio.Future[Any]) -> None:
    if not running.cancelled():
        running.exception()
