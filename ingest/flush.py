"""A full batch, settled: written, buried, committed — in that order, always (ADR 0004).

A failure in any of the three leaves the offsets where they were. Transient ones are tried again for as long as it
takes, with the same batch; anything else is a bug of ours and ends the worker without a commit.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import Final, TypeVar

from common.backoff import Backoff
from common.clock import Clock
from common.errors import Overloaded, ServiceError
from common.kafka.record import LostPartition, RecordSource
from common.telemetry import (
    BATCH_AGE_SECONDS,
    BATCH_BYTES,
    BATCH_ROWS,
    INSERT_SECONDS,
    LOST_BATCHES,
    QUERYABLE_SECONDS,
    SPANS_STORED,
    STAGE_SECONDS,
    get_logger,
)
from ingest.batch import SpanBatch
from ingest.commit import Ledger
from ingest.dead_letter import DeadLetters
from ingest.flush_watch import FlushWatch
from ingest.readiness import Readiness
from ingest.sinks.sink import RejectedRow, Sink

T = TypeVar("T")

QUERYABLE_SAMPLES_MAX: Final = 100
"""Records of a batch whose age is observed: enough for a histogram, and next to no time beside that of the insert."""

_log = get_logger(__name__)


class Retry:
    """Tries again what fails for a while; ``/readyz`` is red meanwhile."""

    def __init__(
        self,
        *,
        readiness: Readiness,
        delay_s_max: float,
        sleep: Callable[[float], Awaitable[None]] = asyncio.sleep,
    ) -> None:
        self._readiness = readiness
        self._delay_s_max = delay_s_max
        self._sleep = sleep

    async def until_done(self, act: Callable[[], Awaitable[T]], *, component: str) -> T:
        """Return what ``act`` gives; try again after each transient failure but ``LostPartition``."""
        backoff = Backoff(delay_s_max=self._delay_s_max)
        while True:
            try:
                result = await act()
            except ServiceError as exc:
                if not exc.transient or isinstance(exc, LostPartition):
                    raise
                delay_s = max(backoff.next_delay_s(), exc.retry_after_s if isinstance(exc, Overloaded) else 0.0)
                self._readiness.red(component, exc.detail)
                _log.warning("Waiting.", component=component, error=exc.detail, next_try_s=round(delay_s, 2))
                await self._sleep(delay_s)
            else:
                self._readiness.green(component)
                return result


class Flusher:
    """Settles one batch after the other; never two at once."""

    def __init__(
        self,
        *,
        sink: Sink,
        dead_letters: DeadLetters,
        source: RecordSource,
        ledger: Ledger,
        clock: Clock,
        retry: Retry,
        watch: FlushWatch,
    ) -> None:
        self._sink = sink
        self._dead_letters = dead_letters
        self._source = source
        self._ledger = ledger
        self._clock = clock
        self._retry = retry
        self._watch = watch

    async def flush(self, batch: SpanBatch) -> None:
        """Return when the batch is committed, or when its partitions turned out to be somebody else's."""
        BATCH_ROWS.observe(batch.rows_count)
        BATCH_BYTES.observe(batch.bytes_count)
        BATCH_AGE_SECONDS.observe(self._clock.monotonic_s() - batch.opened_s)
        async with self._watch.over(batch):
            self._watch.enter("insert")
            refused = await self._retry.until_done(lambda: self._write(batch), component="store")
            self._watch.moved()
            await self._timed("bury", self._bury(batch, refused))
            self._ledger.mark_done(batch.records)
            await self._timed("commit", self._commit())
            self._watch.moved()

    async def _write(self, batch: SpanBatch) -> list[RejectedRow]:
        started_s = self._clock.monotonic_s()
        outcome = "failed"
        try:
            refused = list(await self._sink.write(batch))
            outcome = "stored"
        finally:
            seconds = self._clock.monotonic_s() - started_s
            INSERT_SECONDS.labels(outcome).observe(seconds)
            STAGE_SECONDS.labels("insert").inc(seconds)
        SPANS_STORED.inc(batch.rows_count - len(refused))
        self._observe_age(batch)
        return refused

    async def _bury(self, batch: SpanBatch, refused: list[RejectedRow]) -> None:
        # In a thread where spans are cut here: only where the store refuses some.
        letters = await asyncio.to_thread(list, batch.dead_letters(refused)) if refused else batch.dead_letters()
        for record, encoding, letter in letters:
            await self._dead_letters.bury(record, letter, encoding=encoding)
        await self._dead_letters.flush()

    async def _commit(self) -> None:
        committable = self._ledger.committable()
        try:
            await self._retry.until_done(lambda: self._source.commit(committable), component="kafka")
        except LostPartition as exc:
            LOST_BATCHES.inc()
            _log.warning("Not committed: the partitions moved. They are read again.", error=exc.detail)
        self._ledger.committed(committable)

    async def _timed(self, stage: str, work: Awaitable[None]) -> None:
        started_s = self._clock.monotonic_s()
        self._watch.enter(stage)
        try:
            await work
        finally:
            STAGE_SECONDS.labels(stage).inc(self._clock.monotonic_s() - started_s)

    def _observe_age(self, batch: SpanBatch) -> None:
        now_ms = self._clock.now_ns() // 1_000_000
        for record in batch.records[:: len(batch.records) // QUERYABLE_SAMPLES_MAX + 1]:
            QUERYABLE_SECONDS.observe(max(0, now_ms - record.timestamp_ms) / 1_000)
