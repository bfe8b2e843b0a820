"""The worker: its main loop, and what happens when partitions move or it is asked to stop.

::

    poll ── chunks ── decoder ── batch ──┐      one batch fills, its chunks opened in other processes …
                                          └── settle      … while the one before is written, buried, committed

At most one batch is in flight, and as many chunks as keep the decoder busy. When the next batch is full before the
one in flight is settled, the source is paused: memory is bounded by two batches and these chunks, never by a queue.
The second translation of errors lives here (the first is HTTP's):

=====================  ==============================================================
``Rejected``           dead letter, go on; past a streak: hold the partition
transient              try again with back-off, keep the offset, ``/readyz`` is red
``LostPartition``      drop what was read, it is read again by whom it belongs to
anything else          our bug: stop without committing, the supervisor restarts us
=====================  ==============================================================
"""

from __future__ import annotations

import asyncio
from collections import Counter, deque
from collections.abc import Awaitable, Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Final, NamedTuple, Protocol, TypeVar
from uuid import UUID

from common.clock import Clock, SystemClock
from common.errors import ServiceError, Unavailable
from common.kafka.record import Partition, Publisher, RecordSource
from common.settings import Settings
from common.telemetry import (
    BASE64_IDS,
    CONSUMER_PAUSED,
    LAG_RECORDS,
    LOST_BATCHES,
    MAPPING_ERRORS,
    PARTITIONS_HELD,
    RECORDS_EMPTY,
    RECORDS_IN,
    SPANS_IN,
    STAGE_SECONDS,
    get_logger,
)
from ingest.batch import FlushPolicy, SpanBatch
from ingest.commit import Ledger
from ingest.consume import Rules
from ingest.dead_letter import DeadLetters
from ingest.decoding.accumulator import Waiting
from ingest.decoding.chunk import Chunk, ChunkRecord, DecodedChunk, records_of
from ingest.decoding.decoder import Decoder
from ingest.flush import Flusher, Retry
from ingest.flush_watch import FlushWatch
from ingest.readiness import Readiness
from ingest.semconv.prices import prices_in
from ingest.sinks.sink import Sink
from ingest.streak import Streaks

T = TypeVar("T")

LINGER_S_MAX: Final = 0.1
"""How long a chunk waits for more records, because making one costs as much as fifty spans. It counts as age of the batch."""

LINGER_SHARE: Final = 0.2
"""… or for this share of the age at which batches are written."""

SETTLING_POLL_S: Final = 0.02
"""How often a batch that is due looks whether the one in flight is settled."""

WATCH_INTERVAL_S: Final = 2.0
DECODE: Final = "decode"
NOT_CONNECTED: Final = "Not connected yet."

REVOKE_FLUSH_S: Final = 20.0
"""Time to settle what was read before partitions move: well below the rebalance time-out of 60 s, so that the commit still counts."""

_log = get_logger(__name__)


class KnownProjects(Protocol):
    """Knows which projects there are."""

    async def exists(self, project_id: UUID, /) -> bool:
        """Whether there is such a project. Raises ``Unavailable`` (transient)."""
        ...


@dataclass(frozen=True, slots=True)
class Policy:
    """The worker's settings as plain values."""

    rules: Rules
    flush: FlushPolicy
    dead_letter_topic: str = "spans.dead_letter"
    poll_records_max: int = 500
    poll_s_max: float = 0.2  # a quiet poll; also how long a rebalance or SIGTERM waits for the loop at most
    retry_delay_s_max: float = 10.0
    flush_late_s: float = 10.0
    shutdown_grace_s: float = 20.0
    streak_max: int = 10_000

    @classmethod
    def of(cls, settings: Settings) -> Policy:
        """The part of the settings that the loop obeys. Raises ``IllegalPrices``."""
        ingest = settings.ingest
        return cls(
            rules=Rules(
                settings.kafka.topics,
                settings.limits.span_limits(),
                settings.default_project_id,
                prices_in(ingest.prices_file),
            ),
            flush=FlushPolicy(ingest.batch_rows_max, ingest.batch_bytes_max, ingest.batch_age_max_s),
            dead_letter_topic=settings.kafka.dead_letter_topic,
            poll_records_max=ingest.poll_records_max,
            retry_delay_s_max=ingest.retry_delay_max_s,
            flush_late_s=ingest.flush_late_s,
            shutdown_grace_s=ingest.shutdown_grace_s,
            streak_max=ingest.dead_letter_streak_max,
        )


async def _nothing() -> None:
    """Nothing to prepare."""


@dataclass(frozen=True, slots=True)
class Dependencies:
    """Everything outside that the worker touches.

    ``prepare`` is awaited before each joining of the group. ``systems`` are asked now and then whether they are there, so
    that ``/readyz`` knows it before a batch does. All stay the caller's to close, but for ``source``.
    """

    source: RecordSource
    decoder: Decoder
    sink: Sink
    publisher: Publisher
    projects: KnownProjects
    readiness: Readiness = field(default_factory=Readiness)
    prepare: Callable[[], Awaitable[object]] = _nothing
    systems: Mapping[str, Callable[[], Awaitable[object]]] = field(default_factory=dict)
    clock: Clock = field(default_factory=SystemClock)
    sleep: Callable[[float], Awaitable[None]] = asyncio.sleep


class _Decoding(NamedTuple):
    """A chunk that is being opened. ``came_s`` is when its first record came, ``begun_s`` when it was handed out."""

    chunk: Chunk
    came_s: float
    begun_s: float
    task: asyncio.Task[DecodedChunk]


class Worker:
    """One member of the consumer group. ``run`` once; ``stop`` from anywhere on the loop."""

    def __init__(self, policy: Policy, dependencies: Dependencies) -> None:
        self._policy = policy
        self._doors = dependencies
        self._source = dependencies.source
        self._readiness = dependencies.readiness
        self._clock = dependencies.clock
        self._ledger = Ledger()
        self._streaks = Streaks(streak_max=policy.streak_max)
        self._flushing = FlushWatch(
            readiness=dependencies.readiness, clock=dependencies.clock, late_s=policy.flush_late_s
        )
        self._retry = Retry(
            readiness=dependencies.readiness, delay_s_max=policy.retry_delay_s_max, sleep=dependencies.sleep
        )
        self._flusher = _flusher(policy, dependencies, self._ledger, retry=self._retry, watch=self._flushing)
        self._waiting = Waiting(linger_s=min(LINGER_S_MAX, LINGER_SHARE * policy.flush.age_s_max))
        self._decodings: deque[_Decoding] = deque()
        self._decoded: deque[ChunkRecord] = deque()
        self._came_s = 0.0
        self._batch = SpanBatch()
        self._is_joining = False
        self._is_behind = False
        self._flush_task: asyncio.Task[None] | None = None
        self._stopping = asyncio.Event()
        # Held for one step of the loop, or while partitions move: what is polled belongs to us until it is settled.
        self._turn = asyncio.Lock()
        for system in ("kafka", *dependencies.systems):
            dependencies.readiness.red(system, NOT_CONNECTED)

    @property
    def idle_s(self) -> float:
        """How long nothing was decoded, written, acknowledged or committed; 0 while something is being decoded, which has a limit of
        its own."""
        if any(not each.task.done() for each in self._decodings):
            return 0.0
        return self._flushing.idle_s

    def stop(self) -> None:
        """Ask the loop to end after its current step, then to flush, commit and leave."""
        self._stopping.set()

    async def run(self) -> None:
        """Until ``stop``. Raises what is a bug of ours; offsets then stay where they are."""
        try:
            async with asyncio.TaskGroup() as tasks:
                self._tasks = tasks
                watching = [tasks.create_task(self._watch(), name="watch")]
                watching += [
                    tasks.create_task(self._probe(*each), name="probe") for each in self._doors.systems.items()
                ]
                if await self._join():
                    while not self._stopping.is_set():
                        await self._step_or_rejoin()
                    async with self._turn:
                        await self._drain(within_s=self._policy.shutdown_grace_s)
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
            _log.warning("Leaving the group to join it again.", error=exc.detail)
            async with self._turn:
                await self._discard()
            await self._join()

    async def _step(self) -> None:
        """One turn: take in, or wait; then write if it is time."""
        if self._policy.flush.is_full(self._batch) and self._flush_task is not None:
            await self._wait_for_flush()
        elif self._decoded:
            self._add_decoded()
        else:
            await self._take_in()
        if self._flush_task is not None and self._flush_task.done():
            self._flush_task = None
        if self._flush_task is None and self._policy.flush.is_due(
            self._batch, now_s=self._clock.monotonic_s(), is_behind=self._is_behind
        ):
            batch, self._batch = self._batch, SpanBatch()
            self._flush_task = self._tasks.create_task(self._flusher.flush(batch), name="flush")

    async def _take_in(self) -> None:
        """Keep the decoder busy, and add the chunk whose turn it is."""
        if len(self._decodings) < self._doors.decoder.chunks_max and not self._waiting.is_whole:
            await self._poll()
        self._hand_out()
        if self._decodings and await self._receive():
            self._add_decoded()

    async def _poll(self) -> None:
        started_s = self._clock.monotonic_s()
        records = await self._source.poll(
            timeout_s=self._poll_timeout_s(now_s=started_s), records_max=self._policy.poll_records_max
        )
        now_s = self._clock.monotonic_s()
        self._waiting.extend(records, now_s=now_s)
        if records or not self._decodings:
            self._is_behind = self._waiting.is_whole
        STAGE_SECONDS.labels("poll").inc(now_s - started_s)

    def _poll_timeout_s(self, *, now_s: float) -> float:
        """Until the chunk or the batch is due; not at all while a chunk is being opened, which is what to wait for.

        While a batch is in flight nothing can be done about one that is due, so never at once then.
        """
        if self._decodings:
            return 0.0
        longest_s = self._policy.poll_s_max
        if self._waiting:
            longest_s = min(longest_s, max(0.0, self._waiting.due_s - now_s))
        if self._batch.is_empty:
            return longest_s
        left_s = self._batch.opened_s + self._policy.flush.age_s_max - now_s
        shortest_s = 0.0 if self._flush_task is None else SETTLING_POLL_S
        return min(longest_s, max(shortest_s, left_s))

    async def _wait_for_flush(self) -> None:
        """Backpressure: the next batch is full and the one before is not settled."""
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

    def _hand_out(self) -> None:
        """Have chunks opened that are due, as many as the decoder takes."""
        now_s = self._clock.monotonic_s()
        while len(self._decodings) < self._doors.decoder.chunks_max and self._waiting.is_due(now_s=now_s):
            came_s = self._waiting.since_s
            records = self._waiting.take(now_s=now_s)
            partition_ids = {
                partition: self._source.partition_id_of(partition) for partition in {each.source for each in records}
            }
            self._decodings.append(self._open(Chunk(records, partition_ids, self._clock.now_ns()), came_s=came_s))

    def _open(self, chunk: Chunk, *, came_s: float) -> _Decoding:
        decoding = self._tasks.create_task(self._doors.decoder.open(chunk), name="open")
        return _Decoding(chunk, came_s, self._clock.monotonic_s(), decoding)

    async def _receive(self) -> bool:
        """Take the chunk whose turn it is from the decoder; false if it is not there yet, a moment later.

        Its spans may claim projects that do not exist: then it is opened again, to refuse them. Rare, so it may cost.
        """
        chunk, came_s, begun_s, decoding = self._decodings[0]
        await asyncio.wait({decoding}, timeout=self._policy.poll_s_max)
        if not decoding.done():
            self._tell_when_late(chunk, seconds=self._clock.monotonic_s() - begun_s)
            return False
        self._flushing.moved()
        decoded = decoding.result()
        unknown = await self._unknown_projects(decoded.claimed)
        if unknown is None:
            return False
        if unknown:
            self._decodings[0] = self._open(chunk.refusing(unknown), came_s=came_s)
            return False
        self._decodings.popleft()
        self._readiness.green(DECODE)
        STAGE_SECONDS.labels("decode").inc(decoded.seconds)
        self._decoded.extend(records_of(chunk, decoded))
        self._came_s = came_s
        return True

    def _tell_when_late(self, chunk: Chunk, *, seconds: float) -> None:
        if seconds > self._policy.flush_late_s:
            reason = (
                f"{len(chunk.records)} records have been decoded for {seconds:.0f} s;"
                f" CLEARSPAN_INGEST__FLUSH_LATE_S is {self._policy.flush_late_s:g}."
            )
            self._readiness.red(DECODE, reason)

    async def _unknown_projects(self, claimed: frozenset[UUID]) -> frozenset[UUID] | None:
        """Those that do not exist; ``None`` when that cannot be known now, a moment later.

        One try a step: a step is never longer than a moment, because partitions and SIGTERM wait for it. The default
        project is there by definition, so that spans that name none do not wait for Postgres.
        """
        asked = claimed - {self._policy.rules.default_project_id}
        try:
            unknown = frozenset([each for each in asked if not await self._doors.projects.exists(each)])
        except ServiceError as exc:
            if not exc.transient:
                raise
            self._tell_away("projects", exc.detail)
            await self._idle()
            return None
        self._readiness.green("projects")
        return unknown

    def _add_decoded(self) -> None:
        """Add as much of what is opened as the batch has room for."""
        held_before = self._streaks.held
        taken: list[ChunkRecord] = []
        while self._decoded and not self._policy.flush.is_full(self._batch):
            decoded = self._decoded.popleft()
            if self._streaks.admits(decoded.record.source, is_undecodable=decoded.outcome.is_undecodable):
                self._ledger.take(decoded.record)
                self._batch.add(decoded, now_s=self._came_s)
                taken.append(decoded)
        _count(taken)
        for partition in self._streaks.held - held_before:
            self._hold(partition)

    async def _idle(self) -> None:
        """Take nothing for a moment, and stay a member of the group."""
        self._source.pause()
        try:
            await self._source.poll(timeout_s=self._policy.poll_s_max, records_max=1)
        finally:
            self._source.resume()

    def _hold(self, partition: Partition) -> None:
        self._source.pause(partition)
        PARTITIONS_HELD.labels(partition.topic, str(partition.partition)).set(1)
        reason = (
            f"More than {self._policy.streak_max} records in a row cannot be decoded and name no project; nothing more is"
            " taken of the partition. Is the encoding of its topic right?"
        )
        self._readiness.red(_held_component(partition), reason)
        _log.error("Partition held.", topic=partition.topic, partition=partition.partition, reason=reason)

    async def _join(self) -> bool:
        """Join the group, for as long as it takes; false if asked to stop before that."""

        async def join() -> None:
            await self._doors.prepare()
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
            await self._drain(within_s=REVOKE_FLUSH_S)
            for topic, number in partitions:
                with suppress(KeyError):
                    LAG_RECORDS.remove(topic, str(number))

    async def _drain(self, *, within_s: float) -> None:
        """Settle what is in batches, within the time; what is not settled then is forgotten, and read again."""
        self._forget_unflushed_input()
        try:
            async with asyncio.timeout(within_s):
                if self._flush_task is not None:
                    await self._flush_task
                if not self._batch.is_empty:
                    await self._flusher.flush(self._batch)
        except TimeoutError:
            LOST_BATCHES.inc()
            _log.warning("Not flushed in time; what was read is read again.", within_s=within_s)
        await self._discard()

    async def _discard(self) -> None:
        """Let go of everything that is not settled."""
        settling, self._flush_task = self._flush_task, None
        if settling is not None and not settling.done():
            settling.cancel()
            await asyncio.wait({settling})
        self._forget_unflushed_input()
        self._batch = SpanBatch()
        self._ledger.forget_all()
        self._forget_streaks()
        self._source.resume()
        CONSUMER_PAUSED.set(0)

    def _forget_streaks(self) -> None:
        """What is read again is counted again, and partitions that come back are not paused any more."""
        for partition in self._streaks.held:
            self._readiness.green(_held_component(partition))
            PARTITIONS_HELD.labels(partition.topic, str(partition.partition)).set(0)
        self._streaks.forget_all()

    def _forget_unflushed_input(self) -> None:
        self._waiting.clear()
        self._decoded.clear()
        while self._decodings:
            self._decodings.popleft().task.cancel()
        self._readiness.green(DECODE)

    async def _watch(self) -> None:
        """Ask Kafka now and then how far behind we are, which also tells whether it is there."""
        while True:
            await self._doors.sleep(WATCH_INTERVAL_S)
            if self._is_joining:  # which says itself what it waits for
                continue
            try:
                lag = await self._source.lag()
            except ServiceError as exc:
                if not exc.transient:
                    raise
                self._tell_away("kafka", exc.detail)
            else:
                self._readiness.green("kafka")
                for partition, records_count in lag.items():
                    LAG_RECORDS.labels(partition.topic, str(partition.partition)).set(records_count)

    async def _probe(self, system: str, ask: Callable[[], Awaitable[object]]) -> None:
        """Ask one system now and then whether it is there; one that is merely busy is."""
        while True:
            away: str | None = None
            try:
                await ask()
            except Unavailable as exc:
                away = exc.detail
            except ServiceError as exc:
                _log.debug("A probe was refused, so somebody is there.", component=system, error=exc.detail)
            if away is None:
                self._readiness.green(system)
            else:
                self._tell_away(system, away)
            await self._doors.sleep(WATCH_INTERVAL_S)

    def _tell_away(self, component: str, reason: str) -> None:
        """Red while it lasts; the log says when it begins."""
        if self._readiness.reasons.get(component, NOT_CONNECTED) == NOT_CONNECTED:
            _log.warning("Waiting.", component=component, error=reason)
        self._readiness.red(component, reason)


def _flusher(policy: Policy, dependencies: Dependencies, ledger: Ledger, *, retry: Retry, watch: FlushWatch) -> Flusher:
    dead_letters = DeadLetters(
        dependencies.publisher,
        topic=policy.dead_letter_topic,
        clock=dependencies.clock,
        readiness=dependencies.readiness,
        retry_delay_s_max=policy.retry_delay_s_max,
        moved=watch.moved,
        sleep=dependencies.sleep,
    )
    return Flusher(
        sink=dependencies.sink,
        dead_letters=dead_letters,
        source=dependencies.source,
        ledger=ledger,
        clock=dependencies.clock,
        retry=retry,
        watch=watch,
    )


def _count(taken: Sequence[ChunkRecord]) -> None:
    records: Counter[str] = Counter()
    spans: Counter[str] = Counter()
    for record, _, outcome, *_rest in taken:
        records[record.topic] += 1
        if not record.value:
            RECORDS_EMPTY.labels(record.topic).inc()
        rejections = outcome.rejections
        spans[record.topic] += outcome.rows_count + (0 if rejections.is_of_record else len(rejections))
        BASE64_IDS.inc(outcome.base64_ids_count)
        for reason, count in outcome.mapping_errors.items():
            MAPPING_ERRORS.labels(reason).inc(count)
    for topic, count in records.items():
        RECORDS_IN.labels(topic).inc(count)
        SPANS_IN.labels(topic).inc(spans[topic])


def _held_component(partition: Partition) -> str:
    return f"{partition.topic}/{partition.partition}"
