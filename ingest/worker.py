"""The worker: composition, main loop, and what happens when partitions move or the process is asked to end.

::

    poll ── open records ── normalise ── batch ──┐ (thread)      one batch fills …
                                                 └── settle      … while the one before is written, buried, committed

At most one batch is in flight. When the next one is full before that is settled, the source is paused: memory is
bounded by two batches, never by a queue. The second translation of errors lives here (the first is HTTP's):

=====================  ==============================================================
``Rejected``           dead letter, go on; too many in a row: hold the partition
transient              try again with back-off, keep the offset, ``/readyz`` is red
``LostPartition``      drop what was read, it is read again by whom it belongs to
anything else          our bug: stop without committing, the supervisor restarts us
=====================  ==============================================================
"""

from __future__ import annotations

import asyncio
import os
import signal
from collections import deque
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import AsyncExitStack, asynccontextmanager, suppress
from dataclasses import dataclass, field
from typing import Final, Protocol, TypeVar
from uuid import UUID

from common.clickhouse.connect import open_store
from common.clickhouse.span_columns import warm_up
from common.clickhouse.store import ColumnStore
from common.clock import Clock, SystemClock
from common.errors import ServiceError, Unavailable
from common.garbage import search_for_cycles_rarely
from common.kafka.consumer import KafkaSource
from common.kafka.producer import KafkaPublisher
from common.kafka.record import Partition, Publisher, Record, RecordSource
from common.kafka.topics import ensure_topics
from common.limits import MIB
from common.postgres.pool import Database, open_database
from common.postgres.projects import Projects
from common.settings import Settings, read_settings
from common.telemetry import (
    BASE64_IDS,
    CONSUMER_PAUSED,
    LAG_RECORDS,
    LOST_BATCHES,
    PARTITIONS_HELD,
    RECORDS_EMPTY,
    RECORDS_IN,
    SPANS_IN,
    STAGE_SECONDS,
    configure_logging,
    get_logger,
)
from ingest.batch import FlushPolicy, SpanBatch
from ingest.commit import Ledger
from ingest.consume import Opened, Rules, open_record, without_projects
from ingest.dead_letter import DeadLetters
from ingest.health import open_health
from ingest.normalise import normalise
from ingest.readiness import Readiness
from ingest.settle import Settler, until_done
from ingest.sinks.clickhouse import ClickHouseSink
from ingest.sinks.sink import Sink
from ingest.streak import Streaks

T = TypeVar("T")

CHUNK_BYTES: Final = MIB
"""Records are opened so many bytes at a time, so that what is decoded and not yet in a batch stays small."""

SETTLING_POLL_S: Final = 0.02
"""A due batch looks so often whether the one in flight is settled."""

WATCH_INTERVAL_S: Final = 2.0
NOT_CONNECTED: Final = "Not connected yet."

REVOKE_FLUSH_S: Final = 20.0
"""Time to settle what was read when partitions move: well below the rebalance time-out of 60 s, so that the commit still counts."""

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
    shutdown_grace_s: float = 20.0
    streak_max: int = 10_000

    @classmethod
    def of(cls, settings: Settings) -> Policy:
        """The part of the settings that the loop obeys."""
        ingest = settings.ingest
        return cls(
            rules=Rules(settings.kafka.topics, settings.limits.span_limits(), settings.default_project_id),
            flush=FlushPolicy(ingest.batch_rows_max, ingest.batch_bytes_max, ingest.batch_age_max_s),
            dead_letter_topic=settings.kafka.dead_letter_topic,
            poll_records_max=ingest.poll_records_max,
            retry_delay_s_max=ingest.retry_delay_max_s,
            shutdown_grace_s=ingest.shutdown_grace_s,
            streak_max=ingest.dead_letter_streak_max,
        )


async def _nothing() -> None:
    """Nothing to prepare."""


@dataclass(frozen=True, slots=True)
class Doors:
    """Everything outside that the worker touches.

    ``prepare`` is awaited before each joining of the group. ``systems`` are asked now and then whether they are there, so
    that ``/readyz`` knows it before a batch does.
    """

    source: RecordSource
    sink: Sink
    publisher: Publisher
    projects: KnownProjects
    readiness: Readiness = field(default_factory=Readiness)
    prepare: Callable[[], Awaitable[object]] = _nothing
    systems: Mapping[str, Callable[[], Awaitable[object]]] = field(default_factory=dict)
    clock: Clock = field(default_factory=SystemClock)
    sleep: Callable[[float], Awaitable[None]] = asyncio.sleep


class Worker:
    """One member of the consumer group. ``run`` once; ``stop`` from anywhere on the loop."""

    def __init__(self, policy: Policy, doors: Doors) -> None:
        self._policy = policy
        self._doors = doors
        self._source = doors.source
        self._readiness = doors.readiness
        self._clock = doors.clock
        self._ledger = Ledger()
        self._streaks = Streaks(streak_max=policy.streak_max)
        self._settler = _settler(policy, doors, self._ledger)
        self._polled: deque[Record] = deque()
        self._unchecked: list[Opened] = []
        self._opened: deque[Opened] = deque()
        self._batch = SpanBatch()
        self._away: set[str] = set()
        self._is_behind = False
        self._settling: asyncio.Task[None] | None = None
        self._stopping = asyncio.Event()
        # Held for one step of the loop, or while partitions move: what is polled belongs to us until it is settled.
        self._turn = asyncio.Lock()
        self._thread = ThreadPoolExecutor(1, thread_name_prefix="open-records")
        for system in ("kafka", *doors.systems):
            doors.readiness.red(system, NOT_CONNECTED)

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
            self._thread.shutdown(wait=True, cancel_futures=True)
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
        if self._policy.flush.is_full(self._batch) and self._settling is not None:
            await self._wait_for_settled()
        elif self._opened or self._unchecked or self._polled:
            await self._fill()
        else:
            await self._poll()
        if self._settling is not None and self._settling.done():
            self._settling = None
        if self._settling is None and self._policy.flush.is_due(
            self._batch, now_s=self._clock.monotonic_s(), is_behind=self._is_behind
        ):
            batch, self._batch = self._batch, SpanBatch()
            self._settling = self._tasks.create_task(self._settler.settle(batch), name="settle")

    async def _poll(self) -> None:
        started_s = self._clock.monotonic_s()
        records = await self._source.poll(
            timeout_s=self._poll_timeout_s(now_s=started_s), records_max=self._policy.poll_records_max
        )
        self._polled.extend(records)
        self._is_behind = sum(len(each.value or b"") for each in records) >= CHUNK_BYTES
        STAGE_SECONDS.labels("poll").inc(self._clock.monotonic_s() - started_s)

    def _poll_timeout_s(self, *, now_s: float) -> float:
        """Until the batch is due; while one is in flight nothing can be done about that, so never at once."""
        if self._batch.is_empty:
            return self._policy.poll_s_max
        left_s = self._batch.opened_s + self._policy.flush.age_s_max - now_s
        shortest_s = 0.0 if self._settling is None else SETTLING_POLL_S
        return min(self._policy.poll_s_max, max(shortest_s, left_s))

    async def _wait_for_settled(self) -> None:
        """Backpressure: the next batch is full and the one before is not settled."""
        assert self._settling is not None  # noqa: S101 - narrows the type: the caller checked
        started_s = self._clock.monotonic_s()
        self._source.pause()
        CONSUMER_PAUSED.set(1)
        await asyncio.wait({self._settling}, timeout=self._policy.poll_s_max)
        if self._settling.done():
            self._source.resume()
            CONSUMER_PAUSED.set(0)
        else:
            await self._source.poll(timeout_s=0, records_max=1)
        STAGE_SECONDS.labels("paused").inc(self._clock.monotonic_s() - started_s)

    async def _fill(self) -> None:
        """Open the next portion of what was polled, and add as much of it as the batch has room for."""
        if not self._opened:
            if not self._unchecked:
                records = self._next_portion()
                self._unchecked = await self._in_thread(lambda: self._open(records))
            if not await self._check_projects():
                return
        held_before = self._streaks.held
        await self._in_thread(self._add_opened)
        for partition in self._streaks.held - held_before:
            self._hold(partition)

    def _next_portion(self) -> list[Record]:
        records: list[Record] = []
        bytes_count = 0
        while self._polled and bytes_count < CHUNK_BYTES:
            record = self._polled.popleft()
            records.append(record)
            bytes_count += len(record.value or b"")
        return records

    def _open(self, records: Sequence[Record]) -> list[Opened]:
        started_s = self._clock.monotonic_s()
        now_ns = self._clock.now_ns()
        opened = [open_record(each, self._policy.rules, now_ns=now_ns) for each in records]
        STAGE_SECONDS.labels("decode").inc(self._clock.monotonic_s() - started_s)
        return opened

    def _add_opened(self) -> None:
        started_s = self._clock.monotonic_s()
        while self._opened and not self._policy.flush.is_full(self._batch):
            opened = self._opened.popleft()
            record = opened.record
            if not self._streaks.admits(record.source, is_refused=opened.is_refused):
                continue
            self._ledger.take(record)
            normals = normalise(opened.spans) if opened.spans else []
            self._batch.add(opened, normals, log=self._source.log_of(record.source), now_s=started_s)
            _count(opened)
        STAGE_SECONDS.labels("decode").inc(self._clock.monotonic_s() - started_s)

    async def _check_projects(self) -> bool:
        """Whether it is known by now which of the claimed projects exist; if not, a moment has passed.

        One try a step: a step is never longer than a moment, because partitions and SIGTERM wait for it. The default
        project is there by definition, so that spans that name none do not wait for Postgres.
        """
        claimed = {claim for each in self._unchecked for claim in each.claimed}
        claimed.discard(self._policy.rules.default_project_id)
        try:
            unknown = {each for each in claimed if not await self._doors.projects.exists(each)}
        except ServiceError as exc:
            if not exc.transient:
                raise
            self._readiness.red("projects", exc.detail)
            await self._idle()
            return False
        self._readiness.green("projects")
        opened, self._unchecked = self._unchecked, []
        self._opened.extend(without_projects(each, unknown) for each in opened)
        return True

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
        reason = f"More than {self._policy.streak_max} records in a row were refused; nothing more is taken of it."
        self._readiness.red(_held_component(partition), reason)
        _log.error("Partition held.", topic=partition.topic, partition=partition.partition, reason=reason)

    async def _join(self) -> bool:
        """Join the group, for as long as it takes; false if asked to stop before that."""

        async def join() -> None:
            await self._doors.prepare()
            await self._source.open(on_revoked=self._on_revoked, on_assigned=self._on_assigned)

        joining = self._tasks.create_task(self._until_done(join, component="kafka"), name="join")
        stopped = self._tasks.create_task(self._stopping.wait(), name="stopping")
        await asyncio.wait({joining, stopped}, return_when=asyncio.FIRST_COMPLETED)
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
            for partition in partitions & self._streaks.held:
                self._readiness.green(_held_component(partition))
                PARTITIONS_HELD.labels(partition.topic, str(partition.partition)).set(0)
            self._streaks.forget(partitions)
            for topic, number in partitions:
                with suppress(KeyError):
                    LAG_RECORDS.remove(topic, str(number))

    async def _drain(self, *, within_s: float) -> None:
        """Settle what is in batches, within the time; what is not settled then is forgotten, and read again."""
        self._forget_unsettled_input()
        try:
            async with asyncio.timeout(within_s):
                if self._settling is not None:
                    await self._settling
                if not self._batch.is_empty:
                    await self._settler.settle(self._batch)
        except TimeoutError:
            LOST_BATCHES.inc()
            _log.warning("Not settled in time; what was read is read again.", within_s=within_s)
        await self._discard()

    async def _discard(self) -> None:
        """Let go of everything that is not settled."""
        settling, self._settling = self._settling, None
        if settling is not None and not settling.done():
            settling.cancel()
            await asyncio.wait({settling})
        self._forget_unsettled_input()
        self._batch = SpanBatch()
        self._ledger.forget_all()
        self._source.resume()
        CONSUMER_PAUSED.set(0)

    def _forget_unsettled_input(self) -> None:
        self._polled.clear()
        self._unchecked = []
        self._opened.clear()

    async def _watch(self) -> None:
        """Ask Kafka now and then how far behind we are, which also tells whether it is there."""
        while True:
            await self._doors.sleep(WATCH_INTERVAL_S)
            try:
                lag = await self._source.lag()
            except ServiceError as exc:
                if not exc.transient:
                    raise
                self._readiness.red("kafka", exc.detail)
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
                self._away.discard(system)
                self._readiness.green(system)
            else:
                if system not in self._away:
                    _log.warning("Waiting.", component=system, error=away)
                self._away.add(system)
                self._readiness.red(system, away)
            await self._doors.sleep(WATCH_INTERVAL_S)

    async def _in_thread(self, work: Callable[[], T]) -> T:
        return await asyncio.get_running_loop().run_in_executor(self._thread, work)

    async def _until_done(self, act: Callable[[], Awaitable[T]], *, component: str) -> T:
        return await until_done(
            act,
            component=component,
            readiness=self._readiness,
            retry_delay_s_max=self._policy.retry_delay_s_max,
            sleep=self._doors.sleep,
        )


@asynccontextmanager
async def open_worker(
    settings: Settings,
    *,
    projects: KnownProjects,
    store: ColumnStore | None = None,
    source: RecordSource | None = None,
    readiness: Readiness | None = None,
    publisher: Publisher | None = None,
    database: Database | None = None,
) -> AsyncIterator[Worker]:
    """The worker with all it needs, and its health listening on ``worker_port``; nothing is connected before ``run``.

    ``store`` and ``publisher`` are used as they are and left open, where they are shared (embedded mode). ``source`` replaces
    the one that the settings describe. ``database`` is only asked whether it is there.
    """
    readiness = readiness or Readiness()
    readiness.red("kafka", NOT_CONNECTED)
    async with AsyncExitStack() as stack:
        await stack.enter_async_context(open_health(readiness, host=settings.worker_host, port=settings.worker_port))
        if store is None:
            store = open_store(settings.clickhouse, data_dir=settings.data_dir)
            stack.push_async_callback(store.close)
        if publisher is None:
            publisher = KafkaPublisher(settings.kafka)
            stack.push_async_callback(publisher.close)
        await asyncio.to_thread(warm_up)
        systems = {"clickhouse": store.ping} | ({"postgres": database.ping} if database is not None else {})
        clock = SystemClock()
        doors = Doors(
            source=source or KafkaSource(settings.kafka),
            sink=ClickHouseSink(store, clock=clock, insert_timeout_s=settings.clickhouse.insert_timeout_s),
            publisher=publisher,
            projects=projects,
            readiness=readiness,
            prepare=lambda: ensure_topics(settings.kafka),
            systems=systems,
            clock=clock,
        )
        yield Worker(Policy.of(settings), doors)


async def serve(settings: Settings, *, projects: KnownProjects, database: Database | None = None) -> None:
    """Run the worker until SIGTERM or SIGINT: the first asks it to drain, the second ends the process at once."""
    loop = asyncio.get_running_loop()
    async with open_worker(settings, projects=projects, database=database) as worker:
        asked = asyncio.Event()

        def on_signal(number: int) -> None:
            if asked.is_set():
                os._exit(128 + number)
            asked.set()
            _log.info("Asked to end: flushing, committing, leaving the group.", signal=signal.Signals(number).name)
            worker.stop()

        for each in (signal.SIGTERM, signal.SIGINT):
            loop.add_signal_handler(each, on_signal, each)
        try:
            await worker.run()
        finally:
            for each in (signal.SIGTERM, signal.SIGINT):
                loop.remove_signal_handler(each)
    _log.info("Ended.")


def _settler(policy: Policy, doors: Doors, ledger: Ledger) -> Settler:
    dead_letters = DeadLetters(
        doors.publisher,
        topic=policy.dead_letter_topic,
        clock=doors.clock,
        readiness=doors.readiness,
        retry_delay_s_max=policy.retry_delay_s_max,
        sleep=doors.sleep,
    )
    return Settler(
        sink=doors.sink,
        dead_letters=dead_letters,
        source=doors.source,
        ledger=ledger,
        clock=doors.clock,
        readiness=doors.readiness,
        retry_delay_s_max=policy.retry_delay_s_max,
        sleep=doors.sleep,
    )


def run() -> int:
    """The worker as a process of its own; the exit code is 0 only after an orderly end."""
    settings = read_settings()
    configure_logging(log_format=settings.log_format, level=settings.log_level)
    try:
        asyncio.run(_serve_with_postgres(settings))
    except Exception:  # noqa: BLE001 - the last line of defence: whatever it is, it is logged and the exit code is not 0
        _log.exception("Ended by an error; nothing was committed that is not durable.")
        return 1
    return 0


async def _serve_with_postgres(settings: Settings) -> None:
    search_for_cycles_rarely()
    async with open_database(settings.postgres) as database:
        await serve(settings, projects=Projects(database, SystemClock()), database=database)


def _count(opened: Opened) -> None:
    topic = opened.record.topic
    RECORDS_IN.labels(topic).inc()
    if not opened.record.value:
        RECORDS_EMPTY.labels(topic).inc()
    whole = sum(each.span_index is None for each in opened.refusals)
    SPANS_IN.labels(topic).inc(len(opened.spans) + len(opened.refusals) - whole)
    if opened.base64_ids_count:
        BASE64_IDS.inc(opened.base64_ids_count)


def _held_component(partition: Partition) -> str:
    return f"{partition.topic}/{partition.partition}"
