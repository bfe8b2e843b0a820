"""Waiting for a system that is not up yet: at the start of every process, for Kafka, ClickHouse and Postgres alike."""

from __future__ import annotations

import asyncio
import random
from collections.abc import Awaitable, Callable, Iterator
from typing import Final

from common.errors import ServiceError
from common.telemetry import Logger

FIRST_DELAY_S: Final = 0.1
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
    for delay_s in _delays_s():
        try:
            await probe()
        except ServiceError as exc:
            if not exc.transient:
                raise
            log.warning("waiting", system=name, reason=exc.detail, next_try_s=round(delay_s, 1))
            await sleep(delay_s)
        else:
            return


def _delays_s() -> Iterator[float]:
    delay_s = FIRST_DELAY_S
    while True:
        yield delay_s * random.uniform(0.5, 1.0)  # noqa: S311  # spreads load, guards nothing
        delay_s = min(delay_s * 2, DELAY_MAX_S)
