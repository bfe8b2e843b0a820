"""The embedded stack: what starts in which order, what ends it, and how the broker is replaced.

::

    lock ── ports ── guard ── Postgres, broker ── tables, topics ── API ── worker ┐
                                                         ↑                          │ broker too large
                                                         └─── replace the broker ───┘

Everything is closed in reverse order, except the API, which ends before the worker is drained. SIGTERM and SIGINT drain
for as long as work progresses; a second signal ends the process at once. If records had to be dropped, the stack says
which, and its exit code is 1.
"""

from __future__ import annotations

import asyncio
import os
import signal
import time
from collections.abc import AsyncIterator, Mapping
from contextlib import AsyncExitStack
from typing import Any, Final, Literal

from pydantic import SecretStr

from clearspan.embedded.broker import CLUSTERS
from clearspan.embedded.broker_proxy import DRAINING_CLIENT
from clearspan.embedded.children import Guard, end_left_over, write_children
from clearspan.embedded.embedded_settings import embedded_settings
from clearspan.embedded.external_broker import broker_of
from clearspan.embedded.journal import CarryOver, Journal, JournallingPublisher
from clearspan.embedded.layout import Layout, Running, StackError, Stopping, hold, make_private
from clearspan.embedded.ports import (
    OTLP_PORTS,
    require_free_ports,
    why_left_out,
    with_last_ports,
    write_last_ports,
)
from clearspan.embedded.postgres import EmbeddedPostgres
from clearspan.migrate import migrate_all
from common.clickhouse.connect import open_store
from common.clickhouse.interrupted_inserts import complete_interrupted_inserts
from common.clickhouse.store import ColumnStore
from common.errors import ServiceError
from common.kafka.cluster import ensure_topics
from common.kafka.dead_letters import open_dead_letters
from common.kafka.log import KafkaLog
from common.kafka.offsets import uncommitted, uncommitted_count
from common.kafka.producer import KafkaPublisher
from common.kafka.record import Publisher
from common.memory import tune_for_batches
from common.postgres.pool import Database, open_database
from common.postgres.projects import Projects
from common.readiness import Readiness, Retry
from common.settings import Settings
from common.telemetry import configure_logging, get_logger
from common.times import SystemClock
from common.waiting import wait_for
from ingest.app import open_worker
from ingest.dead_letter import BulkPublisher, DeadLetterMessage
from ingest.semconv.prices import prices_in
from ingest.worker import Worker
from query_api.delivery.deliverer import STOP_S as DELIVERIES_STOP_S
from query_api.delivery.deliverer import open_deliverer
from query_api.http.app import open_api, request_s_max

WATCH_INTERVAL_S: Final = 1.0
DRAIN_INTERVAL_S: Final = 0.1
PROGRESS_INTERVAL_S: Final = 1.0
CHILDREN_GRACE_S: Final = 20.0
"""The part of a stop in which the broker and Postgres end."""

MIGRATE_GRACE_S: Final = 5.0
"""How long a stop during the start waits for migrations that are running; it does not wait for a store that is down."""

BROKER_DIED: Final = "The broker died while it was drained. Records that were not stored yet are lost."

_log = get_logger(__name__)


async def run_stack(settings: Settings) -> None:
    """Run everything until SIGTERM or SIGINT.

    Raises ``InvalidSettings``, and ``StackError`` if the stack cannot start or had to drop acknowledged records.
    """
    settings = embedded_settings(with_last_ports(settings, Layout(settings.data_dir.resolve())))
    configure_logging(log_format=settings.log_format, level=settings.log_level)
    tune_for_batches()
    layout = Layout(settings.data_dir)
    with hold(layout):
        for child in end_left_over(layout):
            _log.warning("Ended a process that an earlier stack had left behind.", name=child.name, pid=child.pid)
        ports = {"CLEARSPAN_API_PORT": settings.api_port, "CLEARSPAN_WORKER_PORT": settings.worker_port}
        if settings.embedded_broker == "on":
            ports["CLEARSPAN_KAFKA_PORT"] = settings.kafka_port
        left_out = why_left_out(settings, ports.values())
        for name, reason in left_out.items():
            _log.warning("A default port of OTLP is not available; starting without it.", setting=name, reason=reason)
        of_otlp = {
            variable: 0 if name in left_out else getattr(settings, name) for name, variable in OTLP_PORTS.items()
        }
        require_free_ports(ports | of_otlp)
        write_last_ports(settings, layout)
        settings = settings.model_copy(update=dict.fromkeys(left_out, 0))
        prices_in(settings.ingest.prices_file)  # checked before anything starts
        stack = _Stack(settings, layout, left_out=left_out)
        async with AsyncExitStack() as resources:
            await stack.run(resources)
        Stopping(is_done=True, dropped=stack.dropped).write(layout)
    if stack.dropped:
        raise StackError(stack.dropped)
    _log.info("Stopped.")


def _address(host: str, port: int) -> str:
    return f"http://[{host}]:{port}" if ":" in host else f"http://{host}:{port}"


def stop_s_max(settings: Settings) -> float:
    """Return how long a stop may report no progress: batches and requests under way, two drains, the children's end."""
    api_s = 2 * DELIVERIES_STOP_S + request_s_max(settings.query)
    return api_s + 2 * settings.ingest.shutdown_grace_s + CHILDREN_GRACE_S


class _Stack:
    """The parts that live as long as the process, and the worker, which is replaced with each broker."""

    def __init__(self, settings: Settings, layout: Layout, *, left_out: Mapping[str, str]) -> None:
        self._settings = settings
        self._left_out = left_out
        self._layout = layout
        self._broker = broker_of(settings, layout)
        self._journal = Journal(layout.dead_letters)
        self._readiness = Readiness()
        self._stopping = asyncio.Event()
        self._api = AsyncExitStack()
        self._left_count: int | None = None
        self._carried_bytes = 0
        self.dropped = ""
        """A sentence about acknowledged records that were lost."""

    async def run(self, resources: AsyncExitStack) -> None:
        """Start in order and work until asked to stop; ``resources`` closes in reverse order."""
        self._handle_signals()
        await self._start_servers(resources)
        showing = asyncio.create_task(self._show_progress(), name="show-progress")
        resources.callback(showing.cancel)
        if not await self._make_tables_and_topics():
            return
        kafka = self._settings.kafka
        self._publisher = KafkaPublisher(kafka, client_id=DRAINING_CLIENT)
        self._worker_publisher: Publisher = self._publisher
        if not self._broker.keeps_records:
            self._worker_publisher = JournallingPublisher(self._publisher, self._journal, topic=kafka.dead_letter_topic)
        resources.push_async_callback(self._publisher.close)
        store = open_store(self._settings.clickhouse, data_dir=self._layout.root)
        resources.push_async_callback(store.close)
        if not self._broker.keeps_records:
            await complete_interrupted_inserts(store, clusters=CLUSTERS)
        database = await resources.enter_async_context(open_database(self._settings.postgres))
        await resources.enter_async_context(self._api)
        api_port = await self._api.enter_async_context(open_api(self._settings, store=store))
        await self._api.enter_async_context(open_deliverer(self._settings, store=store, database=database))
        _log.info("The API listens.", port=api_port)
        async with asyncio.TaskGroup() as tasks:
            self._admit(tasks)
            # At least once: records that are acknowledged by now are drained, even if the stack is stopped at once.
            while await self._work(store, database, tasks) == "renew":
                await self._replace_broker(tasks)
                _log.info("The broker was replaced.")

    async def _start_servers(self, resources: AsyncExitStack) -> None:
        self._guard = Guard()
        resources.callback(self._guard.close)
        postgres = await asyncio.to_thread(EmbeddedPostgres, self._layout.postgres)
        self._postgres = postgres.child
        resources.push_async_callback(asyncio.to_thread, postgres.stop)
        make_private(self._layout)
        self._watch_children()
        await self._broker.start(self._settings.kafka_port)
        resources.push_async_callback(self._broker.close)
        self._watch_children()
        self._settings = self._settings.model_copy(
            update={
                "kafka": self._broker.reached(self._settings.kafka),
                "postgres": self._settings.postgres.model_copy(update={"dsn": SecretStr(postgres.dsn)}),
            }
        )
        self._write_running(postgres.dsn)

    def _watch_children(self) -> None:
        """Let the guard, and the next start, know the processes that this stack has started."""
        children = [self._postgres, *self._broker.children()]
        write_children(self._layout, children)
        self._guard.watch(children)

    def _write_running(self, dsn: str) -> None:
        settings = self._settings
        Running(
            pid=os.getpid(),
            api=_address(settings.api_host, settings.api_port),
            worker=_address(settings.worker_host, settings.worker_port),
            kafka=self._broker.bootstrap,
            postgres=dsn,
            auth=settings.auth,
            topics=list(settings.kafka.topics),
            otlp=_address(settings.api_host, settings.otlp_http_port) if settings.otlp_http_port else "",
            otlp_left_out=self._left_out.get("otlp_http_port", ""),
            otlp_grpc=_address(settings.api_host, settings.otlp_grpc_port) if settings.otlp_grpc_port else "",
            otlp_grpc_left_out=self._left_out.get("otlp_grpc_port", ""),
            stop_s=stop_s_max(settings),
            has_own_broker=not self._broker.keeps_records,
        ).write(self._layout)

    async def _make_tables_and_topics(self) -> bool:
        """Create what the other parts need; return false if asked to stop before that is done."""
        making = asyncio.gather(
            migrate_all(self._settings), wait_for(lambda: ensure_topics(self._settings.kafka), "kafka", log=_log)
        )
        stopping = asyncio.create_task(self._stopping.wait(), name="stopping")
        either: set[asyncio.Future[Any]] = {making, stopping}
        await asyncio.wait(either, return_when=asyncio.FIRST_COMPLETED)
        stopping.cancel()
        await asyncio.wait({making}, timeout=MIGRATE_GRACE_S)
        if not making.done():
            making.cancel()
            await asyncio.wait({making})
            return False
        making.result()
        return True

    async def _work(self, store: ColumnStore, database: Database, tasks: asyncio.TaskGroup) -> Literal["renew", "stop"]:
        """Run a worker until the process is asked to stop or the broker has grown too large, and drain it.

        Afterwards the journal holds the open dead letters that would end with the broker.
        """
        ended = await self._run_worker(store, database, tasks)
        if not self._broker.keeps_records:
            await self._keep_open_dead_letters()
        return ended

    async def _run_worker(
        self, store: ColumnStore, database: Database, background: asyncio.TaskGroup
    ) -> Literal["renew", "stop"]:
        async with (
            open_worker(
                self._settings,
                projects=Projects(database, SystemClock()),
                store=store,
                readiness=self._readiness,
                publisher=self._worker_publisher,
                database=database,
            ) as worker,
            asyncio.TaskGroup() as tasks,
        ):
            working = tasks.create_task(worker.run(), name="worker")
            watching = tasks.create_task(self._watch_broker(background), name="watch-broker")
            stopping = tasks.create_task(self._stopping.wait(), name="stopping")
            await asyncio.wait({working, watching, stopping}, return_when=asyncio.FIRST_COMPLETED)
            renew = watching.done() and not self._stopping.is_set()
            if renew:
                _log.info(
                    "The broker has grown too large; draining it to replace it.", bytes=self._broker.memory_bytes()
                )
                draining = tasks.create_task(self._drain(), name="drain")
                await asyncio.wait({working, draining, stopping}, return_when=asyncio.FIRST_COMPLETED)
                draining.cancel()
            # Before the drain of a stop: a broker that dies now must not be replaced by one that accepts more records.
            for task in (watching, stopping):
                task.cancel()
            if self._stopping.is_set() and not working.done():
                await self._drain_to_stop(worker)
            worker.stop()
        return "renew" if renew and not self._stopping.is_set() else "stop"

    async def _watch_broker(self, background: asyncio.TaskGroup) -> None:
        """Return when the broker has grown too large; restart it if it has died, and the guard as well.

        Dead letters that were carried over do not count, because the next broker would hold them, too.
        """
        while self._broker.memory_bytes() < self._settings.embedded_broker_bytes_max + self._carried_bytes:
            await asyncio.sleep(WATCH_INTERVAL_S)
            self._guard.revive()
            if not self._broker.is_alive():
                _log.error("The broker died. Records that were not stored yet are lost. Starting a new broker.")
                self._carrying.cancel()
                await self._replace_broker(background)

    async def _drain(self) -> bool:
        """Hold produce requests, and wait until every acknowledged record is stored and committed.

        Return false if the broker dies meanwhile: what it still held is lost.
        """
        await self._broker.hold_produces()
        kafka = self._settings.kafka
        while True:
            try:
                self._left_count = await uncommitted_count(kafka, kafka.topics)
                if self._left_count == 0:
                    return True
            except ServiceError as exc:
                if not self._broker.is_alive():
                    _log.error(BROKER_DIED)
                    return False
                _log.warning("Waiting for the broker.", error=exc.detail)
            await asyncio.sleep(DRAIN_INTERVAL_S)

    async def _drain_to_stop(self, worker: Worker) -> None:
        """Drain for as long as the worker makes progress: the records end with the broker.

        The API ends first: its publishes would be held from now on, and their senders would wait in vain.
        """
        await self._api.aclose()
        if self._broker.keeps_records:
            return
        begun_s = time.monotonic()
        draining = asyncio.create_task(self._drain(), name="drain")
        grace_s = self._settings.ingest.shutdown_grace_s
        try:
            while not draining.done() and min(worker.idle_s, time.monotonic() - begun_s) < grace_s:
                await asyncio.wait({draining}, timeout=DRAIN_INTERVAL_S)
            is_drained = draining.done() and draining.result()
        finally:
            draining.cancel()
        if not is_drained:
            self.dropped = await self._describe_dropped()
            _log.error(self.dropped)

    async def _describe_dropped(self) -> str:
        if not self._broker.is_alive():
            return BROKER_DIED
        kafka = self._settings.kafka
        grace_s = self._settings.ingest.shutdown_grace_s
        head = f"Nothing was stored for {grace_s:g} s, so what the broker still held is dropped:"
        reasons = " ".join(f"{component}: {reason}" for component, reason in self._readiness.reasons.items())
        try:
            counts = await uncommitted(kafka, kafka.topics)
        except ServiceError as exc:
            return f"{head} it cannot be counted ({exc.detail}). {reasons}".rstrip()
        described = ", ".join(f"{count} records of {at.topic}/{at.partition}" for at, count in counts.items())
        return f"{head} {described}. {reasons}".rstrip()

    async def _show_progress(self) -> None:
        """While the stack stops, write that it does and how many records are left."""
        await self._stopping.wait()
        while True:
            Stopping(left_count=self._left_count).write(self._layout)
            await asyncio.sleep(PROGRESS_INTERVAL_S)

    async def _keep_open_dead_letters(self) -> None:
        """Keep in the journal what is neither replayed nor dropped: the broker is about to forget it."""
        self._carrying.cancel()
        await asyncio.wait({self._carrying})
        try:
            await self._journal.replace(self._open_dead_letters())
        except (ServiceError, OSError) as exc:
            _log.warning("Could not rewrite the journal of dead letters; it stays as it is.", error=str(exc))

    async def _open_dead_letters(self) -> AsyncIterator[DeadLetterMessage]:
        kafka = self._settings.kafka
        async for record in open_dead_letters(KafkaLog(kafka), kafka.dead_letter_topic):
            yield DeadLetterMessage.of(record)
        for dead_letter in self._carry_over.left():
            yield dead_letter

    async def _replace_broker(self, tasks: asyncio.TaskGroup) -> None:
        """Replace the broker by a new one, with the topics and the dead letters of the journal."""
        await self._broker.replace()
        self._watch_children()
        await ensure_topics(self._settings.kafka)
        self._admit(tasks)

    def _admit(self, tasks: asyncio.TaskGroup) -> None:
        """Forward produce requests to a broker that has its topics, and publish the journal's dead letters."""
        self._broker.admit_produces()
        if self._broker.keeps_records:
            return
        self._carried_bytes = self._journal.size
        bulk = BulkPublisher(
            self._publisher,
            topic=self._settings.kafka.dead_letter_topic,
            retry=Retry(readiness=self._readiness, delay_s_max=self._settings.ingest.retry_delay_max_s),
        )
        self._carry_over = CarryOver(self._journal, bulk)
        self._carrying = tasks.create_task(self._carry_over.run(), name="carry-over")

    def _handle_signals(self) -> None:
        loop = asyncio.get_running_loop()
        for number in (signal.SIGINT, signal.SIGTERM):
            loop.add_signal_handler(number, self._stop_or_exit)

    def _stop_or_exit(self) -> None:
        if self._stopping.is_set():
            os._exit(1)
        _log.info("Draining.")
        self._stopping.set()
