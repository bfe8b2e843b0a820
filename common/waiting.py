"""Waiting: for a system that is not up yet, at the start of every process, and for what goes on when nobody waits any more."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any, Final, TypeVar

from common.backoff import Backoff
from common.errors import ServiceError
from common.telemetry import Logger

T = TypeVar("T")

DELAY_MAX_S: Final = 5.0
"""Short enough that nobody waits long for us once the system is up, long enough not to fill the log."""


async def wait_for(
    probe: Callable[[], Awaitable[None]],
    name: str,
    /,
    *,
    log: Logger,
    sleep: Callable[[float], Awaitable[None]] = asyncio.sleep,
) -> None:
    """Return once ``probe`` does; until then say in the log what is waited for, and why.

    ``probe`` raises a ``ServiceError`` while the system is away. A transient one is waited out, for ever; any other
    goes through. Pauses double up to ``DELAY_MAX_S``, each with jitter, so that many processes do not knock at once.
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
    """What comes of it. Who waits may be cancelled, and it goes on; how it then fails is nobody's, and no complaint in the log."""
    running.add_done_callback(_heard)
    return await asyncio.shield(running)


def _heard(running: asyncio.Future[Any]) -> None:
    if not running.cancelled():
        running.exception()
