"""Where Kafka's logs ended when that was last asked: in the background, at most once a second, only while requests come."""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass
from typing import Final

from common.clock import Clock
from common.errors import ServiceError
from common.kafka.record import EndOffsets, Partition

ASKING_INTERVAL_S: Final = 1.0

ANSWERS_KEPT: Final = 300
"""Five minutes while requests come all the time: who may not see all projects is told no delay that is longer."""


@dataclass(frozen=True, slots=True)
class EndOffsetsRead:
    """What Kafka said: the offset behind the last record, by log. All that was acknowledged by ``asked_us`` lies below."""

    asked_us: int
    offsets: Mapping[str, int]

    def partition_id_of(self, partition: Partition) -> str | None:
        """The log that stands behind a partition now."""
        ending = f"/{partition.topic}/{partition.partition}"
        return next((partition_id for partition_id in self.offsets if partition_id.endswith(ending)), None)


class KnownEndOffsets:
    """The last answer of Kafka, and why there is no younger one. Belongs to one event loop."""

    def __init__(self, source: EndOffsets, clock: Clock) -> None:
        self._source = source
        self._clock = clock
        self._asking: asyncio.Task[None] | None = None
        self._began_s = float("-inf")
        self.latest: EndOffsetsRead | None = None
        self.answers: deque[EndOffsetsRead] = deque(maxlen=ANSWERS_KEPT)
        """The last answers, the latest first."""

        self.failure: str | None = None
        """Why the last question was not answered."""

    def ask(self) -> None:
        """See to it that the answer is young: asks in the background, unless that was begun a moment ago."""
        now_s = self._clock.monotonic_s()
        if self._asking is None and now_s - self._began_s >= ASKING_INTERVAL_S:
            self._began_s = now_s
            self._asking = asyncio.create_task(self._ask(), name="ask-for-ends")

    async def heard(self, *, timeout_s: float) -> EndOffsetsRead | None:
        """The last answer, or the one that is under way if it comes within ``timeout_s`` after its question.

        After, not from now on: while Kafka is away requests wait once for each question, not each of them.
        """
        remaining_s = self._began_s + timeout_s - self._clock.monotonic_s()
        if self._asking is not None and remaining_s > 0:
            await asyncio.wait({self._asking}, timeout=remaining_s)
        return self.latest

    async def close(self) -> None:
        """Ask no more. Safe to call twice."""
        if self._asking is not None:
            self._asking.cancel()
            with suppress(asyncio.CancelledError):
                await self._asking
        await self._source.close()

    async def _ask(self) -> None:
        asked_us = self._clock.now_ns() // 1_000
        try:
            self.latest = EndOffsetsRead(asked_us, await self._source.ask())
            self.answers.appendleft(self.latest)
            self.failure = None
        except ServiceError as error:
            self.failure = error.public_message
        finally:
            self._asking = None
