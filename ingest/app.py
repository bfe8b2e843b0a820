"""The worker process: its composition root, and how it starts and ends. What it does meanwhile is ``worker.py``'s concern."""

from __future__ import annotations

import asyncio
import os
import signal
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import AsyncExitStack, asynccontextmanager
from functools import partial

from common.clickhouse.connect import open_store
from common.clickhouse.migrate import require_tables as require_clickhouse_tables
from common.clickhouse.store import ColumnStore
from common.clock import SystemClock
from common.environment import read_settings
from common.kafka.cluster import ensure_topics
from common.kafka.consumer import KafkaSource
from common.kafka.producer import KafkaPublisher
from common.kafka.record import Publisher, RecordSource
from common.memory import tune_for_batches
from common.postgres.migrate import require_tables as require_postgres_tables
from common.postgres.pool import Database, open_database
from common.postgres.projects import Projects
from common.settings import IllegalSettings, Settings
from common.telemetry import configure_logging, get_logger
from ingest.announce import open_announcer
from ingest.decoding.decoder import open_decoder
from ingest.health import open_health
from ingest.readiness import Readiness
from ingest.semconv.prices import prices_in
from ingest.sinks.clickhouse import ClickHouseSink
from ingest.worker import NOT_CONNECTED, Dependencies, KnownProjects, Policy, Worker

_log = get_logger(__name__)


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
    policy = Policy.of(settings)
    async with AsyncExitStack() as stack:
        # First of all: a process needs a second until it is there, in which the rest of us starts too.
        decoder = await open_decoder(policy.rules, processes=settings.ingest.decode_processes)
        stack.push_async_callback(decoder.close)
        await stack.enter_async_context(
            open_health(readiness, host=settings.worker_host, port=settings.worker_port, http=settings.http)
        )
        if store is None:
            store = open_store(settings.clickhouse, data_dir=settings.data_dir)
            stack.push_async_callback(store.close)
        if publisher is None:
            publisher = KafkaPublisher(settings.kafka)
            stack.push_async_callback(publisher.close)
        systems: dict[str, Callable[[], Awaitable[object]]] = {"clickhouse": partial(require_clickhouse_tables, store)}
        if database is not None:
            systems["postgres"] = partial(require_postgres_tables, database)
        clock = SystemClock()
        announcer = await stack.enter_async_context(open_announcer(publisher, topic=settings.kafka.stored_topic))
        dependencies = Dependencies(
            source=source or KafkaSource(settings.kafka),
            decoder=decoder,
            sink=ClickHouseSink(
                store,
                clock=clock,
                insert_timeout_s=settings.clickhouse.insert_timeout_s,
                announce=announcer.announce,
            ),
            publisher=publisher,
            projects=projects,
            readiness=readiness,
            prepare=lambda: ensure_topics(settings.kafka),
            systems=systems,
            clock=clock,
        )
        yield Worker(policy, dependencies)


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


def run() -> int:
    """The worker as a process of its own; the exit code is 0 only after an orderly end. Raises ``IllegalSettings``."""
    settings = read_settings()
    prices_in(settings.ingest.prices_file)  # a bad line is told before anything is connected
    configure_logging(log_format=settings.log_format, level=settings.log_level)
    try:
        asyncio.run(_serve_with_postgres(settings))
    except IllegalSettings:
        raise
    except Exception:  # noqa: BLE001 - the last line of defence: whatever it is, it is logged and the exit code is not 0
        _log.exception("Ended by an error; nothing was committed that is not durable.")
        return 1
    return 0


async def _serve_with_postgres(settings: Settings) -> None:
    tune_for_batches()
    async with open_database(settings.postgres) as database:
        await serve(settings, projects=Projects(database, SystemClock()), database=database)
