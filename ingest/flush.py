"""Flush a full batch: stored, dead-lettered, committed, always in this order (ADR 0004).

A failure in any step leaves the offsets unchanged. Transient failures are retried with the same batch until they
succeed; any other failure is a defect and stops the worker without a commit.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Mapping, Sequence
from contextlib import asynccontextmanager
from functools import partial
from typing import Final, NamedTuple, Protocol

import pyarrow as pa

from common.kafka.record import LostPartition, RecordSource
from common.limits import MIB
from common.memory import return_free_memory
from common.readiness import Readiness, Retry
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
from common.times import Clock
from ingest.batch import LastFlush, SpanBatch
from ingest.dead_letter import DeadLetters
from ingest.masking.dead_letters import Masking
from ingest.partitions import Ledger
from ingest.sink import Sink, SpanRows

QUERYABLE_SAMPLES_MAX: Final = 100
"""Records of a batch whose age is observed: enough for a histogram, and negligible next to the insert."""

LARGE_WORKER_BYTES: Final = 600 * MIB
"""Above it a worker returns memory after a flush: with its decoders, the limit is 1 GB."""

COMPONENT: Final = "flush"
LATE_INTERVAL_S: Final = 1.0
STARTING: Final = "start"

_log = get_logger(__name__)


class PositionRecorder(Protocol):
    """Records how far partitions are stored."""

    async def record(self, batch: SpanBatch, /) -> None:
        """Record that every sink has stored ``batch``. Raises transient errors; calling it again is harmless."""
        ...


class EventJoiner(Protocol):
    """Adds what comes later to the spans that it is about."""

    async def store(self, events: pa.Table, *, dedup_token: str) -> None:
        """Store the events of a batch. Raises transient errors; calling it again is harmless."""
        ...

    async def join(self, spans: pa.Table, events: pa.Table, masking: Masking, /) -> None:
        """Return when the spans that these rows are about have what is stored about them. Raises as ``store``."""
        ...


class Destinations(NamedTuple):
    """Where the spans of a batch go. ``joiner`` is ``None`` if nothing is joined."""

    sinks: Sequence[Sink]
    joiner: EventJoiner | None
    positions: PositionRecorder


class Flusher:
    """Flushes one batch at a time."""

    def __init__(
        self,
        *,
        destinations: Destinations,
        dead_letters: DeadLetters,
        source: RecordSource,
        ledger: Ledger,
        clock: Clock,
        retry: Retry,
        watch: FlushWatch,
    ) -> None:
        self._sinks, self._joiner, self._positions = destinations
        self._dead_letters = dead_letters
        self._source = source
        self._ledger = ledger
        self._clock = clock
        self._retry = retry
        self._watch = watch
        self.last = LastFlush()

    async def flush(self, batch: SpanBatch) -> None:
        """Return when the batch is committed, or when its partitions belong to another member."""
        BATCH_ROWS.observe(batch.rows_count)
        BATCH_BYTES.observe(batch.bytes_count)
        began_s = self._clock.monotonic_s()
        BATCH_AGE_SECONDS.observe(began_s - batch.opened_s)
        async with self._watch.over(batch):
            self._watch.enter("insert")
            rejected = await self._store(batch)
            await self._timed("join", self._join(batch))
            await self._record_position(batch)
            await self._timed("dead_letter", self._dead_letter(batch, rejected))
            self._ledger.mark_done(batch.records)
            await self._timed("commit", self._commit())
        ended_s = self._clock.monotonic_s()
        self.last = LastFlush(ended_s, ended_s - began_s)
        return_free_memory(above_bytes=LARGE_WORKER_BYTES)  # no await: what is committed must not be flushed again

    async def _store(self, batch: SpanBatch) -> Mapping[int, str]:
        """Return when every sink has stored the batch: the rejected rows with their reasons."""
        rejected: dict[int, str] = {}
        if batch.rows_count:
            spans = SpanRows(await asyncio.to_thread(batch.rows), batch.dedup_token)
            for sink in self._sinks:
                write = partial(self._write, sink, spans)
                rejected |= await self._retry.until_done(write, component=sink.name)
        SPANS_STORED.inc(batch.rows_count - len(rejected))
        self._watch.moved()
        return rejected

    async def _join(self, batch: SpanBatch) -> None:
        joiner = self._joiner
        if joiner is None or not (batch.rows_count or batch.events_count):
            return
        spans, events, token = batch.rows(), batch.events(), batch.dedup_token
        if batch.events_count:
            await self._retry.until_done(lambda: joiner.store(events, dedup_token=token), component="store")
        await self._retry.until_done(lambda: joiner.join(spans, events, batch.masking), component="store")

    async def _record_position(self, batch: SpanBatch) -> None:
        await self._retry.until_done(lambda: self._positions.record(batch), component="store")
        self._observe_age(batch)
        self._watch.moved()

    async def _write(self, sink: Sink, spans: SpanRows) -> dict[int, str]:
        started_s = self._clock.monotonic_s()
        outcome = "failed"
        try:
            rejected = await sink.write(spans)
            outcome = "stored"
        finally:
            seconds = self._clock.monotonic_s() - started_s
            INSERT_SECONDS.labels(outcome).observe(seconds)
            STAGE_SECONDS.labels("insert").inc(seconds)
        return dict(rejected)

    async def _dead_letter(self, batch: SpanBatch, rejected: Mapping[int, str]) -> None:
        # Rows that a sink rejected are cut from their records here, in a thread; other dead letters are cut already.
        dead_letters = (
            await asyncio.to_thread(list, batch.dead_letters(rejected)) if rejected else batch.dead_letters({})
        )
        for decoded, dead_letter in dead_letters:
            await self._dead_letters.add(
                decoded.record,
                dead_letter,
                partition_id=decoded.partition_id,
                encoding=decoded.outcome.encoding,
            )
        await self._dead_letters.flush()

    async def _commit(self) -> None:
        committable = self._ledger.committable()
        try:
            await self._retry.until_done(lambda: self._source.commit(committable), component="kafka")
        except LostPartition as exc:
            LOST_BATCHES.inc()
            _log.warning(
                "Could not commit: the partitions were revoked. Their records are read again.", error=exc.detail
            )
        self._ledger.committed(committable)
        self._watch.moved()

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


class FlushWatch:
    """Turns readiness red, with the current stage, while a flush takes longer than ``late_s``."""

    def __init__(self, *, readiness: Readiness, clock: Clock, late_s: float) -> None:
        self._readiness = readiness
        self._clock = clock
        self._late_s = late_s
        self._stage = STARTING
        self._moved_s = clock.monotonic_s()

    @property
    def idle_s(self) -> float:
        """Seconds since the last call of ``moved``."""
        return self._clock.monotonic_s() - self._moved_s

    def moved(self) -> None:
        """Note progress: something was decoded, stored, acknowledged or committed."""
        self._moved_s = self._clock.monotonic_s()

    def enter(self, stage: str) -> None:
        """Note that the flush enters this stage."""
        self._stage = stage

    @asynccontextmanager
    async def over(self, batch: SpanBatch) -> AsyncIterator[None]:
        """Watch the flush of ``batch`` inside the context."""
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
                f"A batch of {len(batch.records)} records with {batch.rows_count} spans has been flushed for"
                f" {seconds:.0f} s, stage {self._stage}; CLEARSPAN_INGEST__FLUSH_LATE_S is {self._late_s:g}.",
            )
            await asyncio.sleep(LATE_INTERVAL_S)
