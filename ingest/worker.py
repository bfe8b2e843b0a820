"""The worker's main loop, and what happens when partitions move or it is asked to stop.

::

    poll ── chunks ── decoder ── batch ──┐      one batch fills, its chunks decoded in other processes …
                                          └── flush      … while the previous one is stored, dead-lettered, committed

At most one batch is in flight, and as many chunks as keep the decoder busy. If the next batch is full before the one in
flight is flushed, the source is paused: memory is bounded by two batches and these chunks, never by a queue.
Errors are handled in two places: HTTP, and here:

=====================  ==============================================================
``Rejected``           dead letter, continue; past a streak: hold the partition
transient              retry with back-off, keep the offset, ``/readyz`` is red
``LostPartition``      drop what was polled; the new owner reads it again
``TopicReplaced``      flush what was polled, however long that takes, then join the group again
anything else          a defect: stop without committing, the supervisor restarts us
=====================  ==============================================================
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from contextlib import AbstractAsyncContextManager, suppress
from functools import partial
from typing import Final
from uuid import UUID

from common.errors import ServiceError
from common.kafka.record import Partition, TopicReplaced
from common.readiness import NOT_CONNECTED, Retry, probe
from common.telemetry import CONSUMER_PAUSED, LOST_BATCHES, STAGE_SECONDS, get_logger
from common.waiting import limited_after
from ingest.batch import SpanBatch
from ingest.dead_letter import DeadLetters
from ingest.decode import attributed
from ingest.decoding.chunk import ChunkRecord
from ingest.decoding.counts import count_records
from ingest.decoding.queue import DecodingQueue
from ingest.flush import Destinations, Flusher, FlushWatch
from ingest.lag import forget_lag, report_lag
from ingest.masking.current import CurrentMasking
from ingest.partitions import Ledger, Streaks
from ingest.policy import Dependencies, Policy

LINGER_S_MAX: Final = 0.05
"""How long a chunk waits for more records: it costs as much as fifty spans. This counts as age of the batch."""

LINGER_SHARE: Final = 0.1
"""… or this share of the age at which batches are flushed, if that is less."""

FLUSHING_POLL_S: Final = 0.02
"""How often a batch that is due checks whether the one in flight is flushed."""

WATCH_INTERVAL_S: Final = 2.0
DECODE: Final = "decode"

REVOKE_FLUSH_S: Final = 20.0
"""Time to flush what was polled before partitions move: well below the rebalance time-out of 60 s, so that the commit
still counts.
"""

_log = get_logger(__name__)


class Worker:
    """One member of the consumer group. Call ``run`` once; call ``stop`` from anywhere on the loop."""

    def __init__(self, policy: Policy, dependencies: Dependencies) -> None:
        self._policy = policy
        self._dependencies = dependencies
        self._source = dependencies.source
        self._readiness = dependencies.readiness
        self._clock = dependencies.clock
        self._ledger = Ledger()
        self._streaks = Streaks(streak_max=policy.streak_max, readiness=self._readiness)
        self._watch = FlushWatch(readiness=self._readiness, clock=self._clock, late_s=policy.flush_late_s)
        self._retry = Retry(readiness=self._readiness, delay_s_max=policy.retry_delay_s_max, sleep=dependencies.sleep)
        self._flusher = Flusher(
            destinations=Destinations(dependencies.sinks, dependencies.joiner, dependencies.positions),
            dead_letters=DeadLetters(
                dependencies.dead_letters,
                dependencies.publisher,
                topic=policy.dead_letter_topic,
                topics=policy.rules.topics,
                retry=self._retry,
                clock=self._clock,
                moved=self._watch.moved,
            ),
            source=self._source,
            ledger=self._ledger,
            clock=self._clock,
            retry=self._retry,
            watch=self._watch,
        )
        linger_s = min(LINGER_S_MAX, LINGER_SHARE * policy.flush.age_s_max)
        self._queue = DecodingQueue(dependencies.decoder, linger_s=linger_s)
        self._masking = CurrentMasking(dependencies.masks, policy.masking, clock=self._clock, readiness=self._readiness)
        self._batch = SpanBatch()
        self._flush_task: asyncio.Task[None] | None = None
        self._is_behind = False
        self._is_joining = False
        self._stopping = asyncio.Event()
        # Held for one step of the loop, or while partitions move: what is polled is ours until it is flushed.
        self._turn = asyncio.Lock()
        for system in ("kafka", *dependencies.systems):
            self._readiness.red(system, NOT_CONNECTED)

    @property
    def idle_s(self) -> float:
        """Seconds since anything was decoded, stored, acknowledged or committed; 0 while a chunk is being decoded,
        which has a limit of its own.
        """
        return 0.0 if self._queue.is_busy else self._watch.idle_s

    def stop(self) -> None:
        """Ask the loop to end after its current step, then to flush, commit and leave."""
        self._stopping.set()

    async def run(self) -> None:
        """Run until ``stop``. Raises on a defect; offsets are then unchanged."""
        try:
            async with asyncio.TaskGroup() as tasks:
                self._tasks = tasks
                watching = [tasks.create_task(self._regularly(self._watch_lag, starts_at_once=False), name="watch")]
                watching.append(tasks.create_task(self._regularly(self._masking.refresh), name="masking"))
                for system, ask in self._dependencies.systems.items():
                    probing = partial(probe, self._readiness, system, ask)
                    watching.append(tasks.create_task(self._regularly(probing), name="probe"))
                if await self._join():
                    while not self._stopping.is_set():
                        await self._step_or_rejoin()
                    async with self._turn:
                        self._forget_unbatched()
                        await self._drain(asyncio.timeout(self._policy.shutdown_grace_s))
                for task in watching:
                    task.cancel()
        finally:
            with suppress(ServiceError):
                await self._source.close()

    async def _step_or_rejoin(self) -> None:
        try:
            async with self._turn:
                await self._step()
        except ServiceError as exc:
            if not exc.transient:
                raise
            _log.warning("Leaving the consumer group to join it again.", error=exc.detail)
            async with self._turn:
                if isinstance(exc, TopicReplaced):  # what was polled cannot be read again
                    await self._drain(limited_after(self._stopping, self._policy.shutdown_grace_s))
                await self._discard()
            await self._join()

    # One step of the loop.

    async def _step(self) -> None:
        """Take records, or wait; then flush if it is time."""
        if self._policy.flush.is_full(self._batch) and self._flush_task is not None:
            await self._wait_for_flush()
        elif self._queue.decoded:
            self._add_decoded()
        else:
            await self._take_in()
        if self._flush_task is not None and self._flush_task.done():
            self._flush_task = None
        if self._flush_task is None and self._policy.flush.is_due(
            self._batch, self._flusher.last, now_s=self._clock.monotonic_s(), is_behind=self._is_behind
        ):
            batch, self._batch = self._batch, SpanBatch()
            self._flush_task = self._tasks.create_task(self._flusher.flush(batch), name="flush")

    async def _take_in(self, *, polls: bool = True) -> None:
        """Keep the decoder busy, and add the chunk whose turn it is."""
        masking = self._masking.known
        if masking is None and not self._queue.is_decoding:
            await self._idle()
            return
        if masking is not None:
            if polls and self._queue.has_room and not self._queue.waiting.is_whole:
                await self._poll()
            self._queue.send_due(
                self._tasks,
                self._source.partition_id_of,
                now_s=self._clock.monotonic_s(),
                now_ns=self._clock.now_ns(),
                masking=masking,
                is_last=not polls,
            )
        if self._queue.is_decoding and await self._receive():
            self._add_decoded()

    async def _poll(self) -> None:
        started_s = self._clock.monotonic_s()
        records = await self._source.poll(
            timeout_s=self._poll_timeout_s(now_s=started_s), records_max=self._policy.poll_records_max
        )
        now_s = self._clock.monotonic_s()
        self._queue.waiting.extend(attributed(records, self._policy.rules), now_s=now_s)
        if records or not self._queue.is_decoding:
            self._is_behind = self._queue.waiting.is_whole
        STAGE_SECONDS.labels("poll").inc(now_s - started_s)

    def _poll_timeout_s(self, *, now_s: float) -> float:
        """Return the time until the chunk or the batch is due; 0 while a chunk is being decoded, which is what to wait
        for.

        While a batch is in flight nothing can be done about one that is due, so it is never 0 then.
        """
        if self._queue.is_decoding:
            return 0.0
        longest_s = self._policy.poll_s_max
        if self._queue.waiting:
            longest_s = min(longest_s, max(0.0, self._queue.waiting.due_s - now_s))
        if self._batch.is_empty:
            return longest_s
        left_s = self._policy.flush.due_s(self._batch, self._flusher.last) - now_s
        shortest_s = 0.0 if self._flush_task is None else FLUSHING_POLL_S
        return min(longest_s, max(shortest_s, left_s))

    async def _wait_for_flush(self) -> None:
        """Backpressure: the next batch is full and the previous one is not flushed."""
        assert self._flush_task is not None  # noqa: S101 - narrows the type: the caller checked
        started_s = self._clock.monotonic_s()
        self._source.pause()
        CONSUMER_PAUSED.set(1)
        await asyncio.wait({self._flush_task}, timeout=self._policy.poll_s_max)
        if self._flush_task.done():
            self._source.resume()
            CONSUMER_PAUSED.set(0)
        else:
            await self._source.poll(timeout_s=0, records_max=1)
        STAGE_SECONDS.labels("paused").inc(self._clock.monotonic_s() - started_s)

    async def _receive(self) -> bool:
        """Take the chunk whose turn it is from the decoder; return false, a moment later, if it is not ready.

        If its spans claim projects that do not exist, it is decoded again to reject them. This is rare, so it may be
        slow.
        """
        chunk, _, begun_s, decoding, _ = self._queue.first
        await asyncio.wait({decoding}, timeout=self._policy.poll_s_max)
        if not decoding.done():
            self._report_if_late(len(chunk.records), seconds=self._clock.monotonic_s() - begun_s)
            return False
        self._watch.moved()
        decoded = decoding.result()
        unknown = await self._unknown_projects(decoded.claimed)
        if unknown is None:
            return False
        if unknown:
            self._queue.decode_again(chunk.rejecting(unknown), self._tasks, now_s=self._clock.monotonic_s())
            return False
        self._readiness.green(DECODE)
        STAGE_SECONDS.labels("decode").inc(decoded.seconds)
        self._masking.count(decoded.masked)
        self._queue.accept(decoded)
        return True

    def _report_if_late(self, records_count: int, *, seconds: float) -> None:
        if seconds > self._policy.flush_late_s:
            reason = (
                f"{records_count} records have been decoded for {seconds:.0f} s;"
                f" CLEARSPAN_INGEST__FLUSH_LATE_S is {self._policy.flush_late_s:g}."
            )
            self._readiness.red(DECODE, reason)

    async def _unknown_projects(self, claimed: frozenset[UUID]) -> frozenset[UUID] | None:
        """Return the projects that do not exist; ``None``, a moment later, if that cannot be determined now.

        One try per step: a step stays short, because rebalances and SIGTERM wait for it. The default project exists by
        definition, so spans that name no project do not wait for Postgres.
        """
        unchecked = claimed - {self._policy.rules.default_project_id}
        try:
            unknown = frozenset(
                [project for project in unchecked if not await self._dependencies.projects.exists(project)]
            )
        except ServiceError as exc:
            if not exc.transient:
                raise
            self._readiness.waits_for("projects", exc.detail)
            await self._idle()
            return None
        self._readiness.green("projects")
        return unknown

    def _add_decoded(self) -> None:
        """Add decoded records until the batch is full."""
        held_before = self._streaks.held
        taken: list[ChunkRecord] = []
        while self._queue.decoded and not self._policy.flush.is_full(self._batch):
            decoded = self._queue.decoded.popleft()
            if self._streaks.admits(decoded.record.source, is_undecodable=decoded.outcome.is_undecodable):
                self._ledger.take(decoded.record)
                self._batch.add(decoded, now_s=self._queue.decoded_came_s)
                taken.append(decoded)
        count_records(taken)
        for partition in self._streaks.held - held_before:
            self._source.pause(partition)

    async def _idle(self) -> None:
        """Take nothing for a moment, and stay a member of the group."""
        self._source.pause()
        try:
            await self._source.poll(timeout_s=self._policy.poll_s_max, records_max=1)
        finally:
            self._source.resume()

    # Joining and leaving the group.

    async def _join(self) -> bool:
        """Join the group, however long it takes; return false if asked to stop before that."""

        async def join() -> None:
            await self._dependencies.prepare()
            await self._source.open(on_revoked=self._on_revoked, on_assigned=self._on_assigned)

        self._is_joining = True
        joining = self._tasks.create_task(self._retry.until_done(join, component="kafka"), name="join")
        stopped = self._tasks.create_task(self._stopping.wait(), name="stopping")
        await asyncio.wait({joining, stopped}, return_when=asyncio.FIRST_COMPLETED)
        self._is_joining = False
        stopped.cancel()
        if not joining.done():
            joining.cancel()
        await asyncio.wait({joining})
        return not joining.cancelled()

    async def _on_assigned(self, partitions: frozenset[Partition]) -> None:
        _log.info("Partitions assigned.", partitions=sorted(partitions))

    async def _on_revoked(self, partitions: frozenset[Partition]) -> None:
        async with self._turn:
            _log.info("Partitions revoked.", partitions=sorted(partitions))
            await self._drain(asyncio.timeout(REVOKE_FLUSH_S))
            forget_lag(partitions)

    async def _drain(self, limit: AbstractAsyncContextManager[object]) -> None:
        """Flush what was polled; forget what is left when ``limit``, a context, raises ``TimeoutError``."""
        try:
            async with limit:
                while not await self._is_drained():
                    pass
        except TimeoutError:
            LOST_BATCHES.inc()
            _log.warning("Not everything was flushed in time. The rest is read again, unless its topic was deleted.")
        await self._discard()

    async def _is_drained(self) -> bool:
        """Flush what is batched, then batch some of what was polled; return true if there was none."""
        if self._flush_task is not None:
            await self._flush_task
            self._flush_task = None
        if not self._batch.is_empty:
            await self._flusher.flush(self._batch)
            self._batch = SpanBatch()
        if self._queue.decoded:
            self._add_decoded()
        elif not self._queue.is_empty:
            try:
                await self._take_in(polls=False)
            except ServiceError as exc:
                if not exc.transient:
                    raise
                await self._dependencies.sleep(self._policy.poll_s_max)
        return self._queue.is_empty and self._batch.is_empty

    async def _discard(self) -> None:
        """Forget everything that is not flushed."""
        flushing, self._flush_task = self._flush_task, None
        if flushing is not None and not flushing.done():
            flushing.cancel()
            await asyncio.wait({flushing})
        self._forget_unbatched()
        self._batch = SpanBatch()
        self._ledger.forget_all()
        self._streaks.forget_all()
        self._source.resume()
        CONSUMER_PAUSED.set(0)

    def _forget_unbatched(self) -> None:
        self._queue.clear()
        self._readiness.green(DECODE)

    # Tasks that run next to the loop.

    async def _regularly(self, act: Callable[[], Awaitable[None]], *, starts_at_once: bool = True) -> None:
        if not starts_at_once:
            await self._dependencies.sleep(WATCH_INTERVAL_S)
        while True:
            await act()
            await self._dependencies.sleep(WATCH_INTERVAL_S)

    async def _watch_lag(self) -> None:
        if not self._is_joining:  # joining reports itself what it waits for
            await report_lag(self._source, self._readiness)
