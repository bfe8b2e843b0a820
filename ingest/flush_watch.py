"""How the flush of a batch gets on: when something was last done for good, and whether it takes too long."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Final

from common.clock import Clock
from ingest.batch import SpanBatch
from ingest.readiness import Readiness

COMPONENT: Final = "flush"
LATE_INTERVAL_S: Final = 1.0
STARTING: Final = "start"


class FlushWatch:
    """While a flush takes longer than ``late_s`` readiness is red and says at which stage it is."""

    def __init__(self, *, readiness: Readiness, clock: Clock, late_s: float) -> None:
        self._readiness = readiness
        self._clock = clock
        self._late_s = late_s
        self._stage = STARTING
        self._moved_s = clock.monotonic_s()

    @property
    def idle_s(self) -> float:
        """How long nothing was done for good."""
        return self._clock.monotonic_s() - self._moved_s

    def moved(self) -> None:
        """Something was decoded, written, acknowledged or committed."""
        self._moved_s = self._clock.monotonic_s()

    def enter(self, stage: str) -> None:
        """The flush is at this stage from now on."""
        self._stage = stage

    @asynccontextmanager
    async def over(self, batch: SpanBatch) -> AsyncIterator[None]:
        """Watch the flush of a batch while inside."""
        self._stage = STARTING
        watching = asyncio.create_task(self._watch(batch), name="watch-flush")
        try:
            yield
        finally:
            watching.cancel()
            self._readiness.green(COMPONENT)

    async def _watch(self, batch: SpanBatch) -> None:
        started_s = self._clock.monotonic_s()
        await asyncio.sleep(self._late_s)
        while True:
            seconds = self._clock.monotonic_s() - started_s
            self._readiness.red(
                COMPONENT,
                f"A batch of {len(batch.records)} records with {batch.rows_count} spans has been flushed for {seconds:.0f} s, stage"
                f" {self._stage}; CLEARSPAN_INGEST__FLUSH_LATE_S is {self._late_s:g}.",
            )
            await asyncio.sleep(LATE_INTERVAL_S)
