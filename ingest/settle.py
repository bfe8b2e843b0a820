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
from common.codec.decoded import Refusal
from common.errors import Overloaded, Rejected, RejectionCode, ServiceError
from common.kafka.record import LostPartition, Record, RecordSource
from common.settings import Encoding
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
from ingest.batch import Burial, SpanBatch
from ingest.commit import Ledger
from ingest.dead_letter import DeadLetters
from ingest.decode import Layout, lay_out
from ingest.readiness import Readiness
from ingest.sinks.sink import RefusedRow, Sink

T = TypeVar("T")

QUERYABLE_SAMPLES_MAX: Final = 100
"""Records of a batch whose age is observed: enough for a histogram, and next to no time beside that of the insert."""

_log = get_logger(__name__)


async def until_done(
    act: Callable[[], Awaitable[T]],
    *,
    component: str,
    readiness: Readiness,
    retry_delay_s_max: float,
    sleep: Callable[[float], Awaitable[None]] = asyncio.sleep,
) -> T:
    """What ``act`` gives, tried again after each transient failure but ``LostPartition``; ``/readyz`` is red meanwhile."""
    backoff = Backoff(delay_s_max=retry_delay_s_max)
    while True:
        try:
            result = await act()
        except ServiceError as exc:
            if not exc.transient or isinstance(exc, LostPartition):
                raise
            delay_s = max(backoff.next_delay_s(), exc.retry_after_s if isinstance(exc, Overloaded) else 0.0)
            readiness.red(component, exc.detail)
            _log.warning("Waiting.", component=component, error=exc.detail, next_try_s=round(delay_s, 2))
            await sleep(delay_s)
        else:
            readiness.green(component)
            return result


class Settler:
    """Settles one batch after the other; never two at once."""

    def __init__(
        self,
        *,
        sink: Sink,
        dead_letters: DeadLetters,
        source: RecordSource,
        ledger: Ledger,
        clock: Clock,
        readiness: Readiness,
        retry_delay_s_max: float,
        sleep: Callable[[float], Awaitable[None]] = asyncio.sleep,
    ) -> None:
        self._sink = sink
        self._dead_letters = dead_letters
        self._source = source
        self._ledger = ledger
        self._clock = clock
        self._readiness = readiness
        self._retry_delay_s_max = retry_delay_s_max
        self._sleep = sleep

    async def settle(self, batch: SpanBatch) -> None:
        """Return when the batch is committed, or when its partitions turned out to be somebody else's."""
        BATCH_ROWS.observe(batch.rows_count)
        BATCH_BYTES.observe(batch.bytes_count)
        BATCH_AGE_SECONDS.observe(self._clock.monotonic_s() - batch.opened_s)
        refused = await self._until_done(lambda: self._write(batch), component="store")
        await self._timed("bury", self._bury(batch, refused))
        self._ledger.settle(batch.records)
        await self._timed("commit", self._commit())

    async def _write(self, batch: SpanBatch) -> list[RefusedRow]:
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

    async def _bury(self, batch: SpanBatch, refused: list[RefusedRow]) -> None:
        cutter = _Cutter()
        for burial in batch.burials:
            await self._bury_one(burial, cutter)
        for row, reason in refused:
            refusal = Refusal(None, RejectionCode.REFUSED_BY_STORE, reason)
            await self._bury_one(batch.burial_of_row(row, refusal), cutter)
        await self._dead_letters.flush()

    async def _bury_one(self, burial: Burial, cutter: _Cutter) -> None:
        record, encoding, refusal = burial
        # One at a time, when it is needed: each copy carries the whole resource of its record.
        value = await asyncio.to_thread(cutter.value_of, burial)
        await self._dead_letters.bury(record, refusal, value, encoding=encoding)

    async def _commit(self) -> None:
        watermark = self._ledger.watermark()
        try:
            await self._until_done(lambda: self._source.commit(watermark), component="kafka")
        except LostPartition as exc:
            LOST_BATCHES.inc()
            _log.warning("Not committed: the partitions moved. They are read again.", error=exc.detail)
        self._ledger.committed(watermark)

    async def _until_done(self, act: Callable[[], Awaitable[T]], *, component: str) -> T:
        return await until_done(
            act,
            component=component,
            readiness=self._readiness,
            retry_delay_s_max=self._retry_delay_s_max,
            sleep=self._sleep,
        )

    async def _timed(self, stage: str, work: Awaitable[None]) -> None:
        started_s = self._clock.monotonic_s()
        try:
            await work
        finally:
            STAGE_SECONDS.labels(stage).inc(self._clock.monotonic_s() - started_s)

    def _observe_age(self, batch: SpanBatch) -> None:
        now_ms = self._clock.now_ns() // 1_000_000
        for record in batch.records[:: len(batch.records) // QUERYABLE_SAMPLES_MAX + 1]:
            QUERYABLE_SECONDS.observe(max(0, now_ms - record.timestamp_ms) / 1_000)


class _Cutter:
    """Cuts the values of dead letters. The refusals of a record follow on each other, so it is laid out once for all."""

    def __init__(self) -> None:
        self._record: Record | None = None
        self._layout: Layout | None = None

    def value_of(self, burial: Burial) -> bytes:
        """The span alone; the whole record where it is refused as a whole, or is one that cannot be laid out."""
        record, encoding, refusal = burial
        if refusal.span_index is None:
            return record.value or b""
        if record is not self._record:
            self._record, self._layout = record, _laid_out(record, encoding)
        return (record.value or b"") if self._layout is None else self._layout.cut([refusal.span_index])


def _laid_out(record: Record, encoding: Encoding) -> Layout | None:
    """``None`` where the bytes cannot be followed: a dead letter is never lost to them."""
    try:
        return lay_out(record, encoding)
    except Rejected:
        return None
