"""How often the subscriptions of one project read the feed (ADR 0018).

The reads of a project take turns, and together take at most ``BUSY_SHARE`` of the time of a connection to the engine:
with many subscriptions each reads less often. So a hundred of them cost as much as a few, and queries go first.
Subscriptions that found spans a short time ago have turns of their own: those that rarely match do not delay them.
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

INTERVAL_S_MAX: Final = 30.0
BUSY_SHARE: Final = 0.5
_SMOOTHING: Final = 0.1


@dataclass(slots=True)
class _Turns:
    """The subscriptions that take turns with each other."""

    turn: asyncio.Lock = field(default_factory=asyncio.Lock)
    read_s: float = 0.01
    """The smoothed duration of a read."""

    members: set[UUID] = field(default_factory=set)


@dataclass(slots=True)
class _ProjectReads:
    finding: _Turns = field(default_factory=_Turns)
    idle: _Turns = field(default_factory=_Turns)

    def of(self, subscription_id: UUID) -> _Turns:
        return self.finding if subscription_id in self.finding.members else self.idle


class Pace:
    """The reads of all projects in one process."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._projects: dict[UUID, _ProjectReads] = {}

    @asynccontextmanager
    async def subscription(self, project_id: UUID, subscription_id: UUID) -> AsyncIterator[None]:
        """Count a subscription of the project while inside."""
        reads = self._projects.setdefault(project_id, _ProjectReads())
        reads.idle.members.add(subscription_id)
        try:
            yield
        finally:
            for turns in (reads.finding, reads.idle):
                turns.members.discard(subscription_id)
            if not reads.finding.members and not reads.idle.members:
                self._projects.pop(project_id, None)

    @asynccontextmanager
    async def read(self, project_id: UUID, subscription_id: UUID) -> AsyncIterator[None]:
        """Wait for the turn of a subscription, and measure the read inside."""
        turns = self._projects.setdefault(project_id, _ProjectReads()).of(subscription_id)
        async with turns.turn:
            began_s = self._clock.monotonic_s()
            try:
                yield
            finally:
                turns.read_s += _SMOOTHING * (self._clock.monotonic_s() - began_s - turns.read_s)

    def found(self, project_id: UUID, subscription_id: UUID, *, is_some: bool) -> None:
        """Note whether a subscription has found spans a short time ago."""
        reads = self._projects.setdefault(project_id, _ProjectReads())
        joined, left = (reads.finding, reads.idle) if is_some else (reads.idle, reads.finding)
        left.members.discard(subscription_id)
        joined.members.add(subscription_id)

    def interval_s(self, project_id: UUID, subscription_id: UUID) -> float:
        """Return how long a subscription that has read everything waits from one read to the next."""
        reads = self._projects.get(project_id)
        if reads is None:
            return INTERVAL_S_MIN
        turns = reads.of(subscription_id)
        return min(max(len(turns.members) * turns.read_s / BUSY_SHARE, INTERVAL_S_MIN), INTERVAL_S_MAX)
