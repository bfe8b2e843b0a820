"""How often the subscriptions of one project read the feed (ADR 0018).

The reads of a project take turns, and together take at most ``BUSY_SHARE`` of the time of one connection to the engine:
with many subscriptions each reads less often. So a hundred of them cost as much as a few, and queries go first.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import Final
from uuid import UUID

from common.times import Clock

INTERVAL_S_MIN: Final = 0.2
"""Between two reads of a subscription that has read everything: news of several batches are read together."""

INTERVAL_S_MAX: Final = 5.0
BUSY_SHARE: Final = 0.5
_SMOOTHING: Final = 0.1


@dataclass(slots=True)
class _ProjectReads:
    turn: asyncio.Lock = field(default_factory=asyncio.Lock)
    read_s: float = 0.01
    """The smoothed duration of a read."""

    subscriptions_count: int = 0


class Pace:
    """The reads of all projects in one process."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._projects: dict[UUID, _ProjectReads] = {}

    @asynccontextmanager
    async def subscription(self, project_id: UUID) -> AsyncIterator[None]:
        """Count a subscription of the project while inside."""
        reads = self._projects.setdefault(project_id, _ProjectReads())
        reads.subscriptions_count += 1
        try:
            yield
        finally:
            reads.subscriptions_count -= 1
            if not reads.subscriptions_count:
                self._projects.pop(project_id, None)

    @asynccontextmanager
    async def read(self, project_id: UUID) -> AsyncIterator[None]:
        """Wait for the turn of a subscription, and measure the read inside."""
        reads = self._projects.setdefault(project_id, _ProjectReads())
        async with reads.turn:
            began_s = self._clock.monotonic_s()
            try:
                yield
            finally:
                took_s = self._clock.monotonic_s() - began_s
                reads.read_s += _SMOOTHING * (took_s - reads.read_s)

    def interval_s(self, project_id: UUID) -> float:
        """Return how long a subscription that has read everything waits from one read to the next."""
        reads = self._projects.get(project_id)
        if reads is None:
            return INTERVAL_S_MIN
        shared_s = reads.subscriptions_count * reads.read_s / BUSY_SHARE
        return min(max(shared_s, INTERVAL_S_MIN), INTERVAL_S_MAX)
