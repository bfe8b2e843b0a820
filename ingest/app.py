"""The worker process: its composition root, how it starts and how it ends. Its work is in ``worker.py``."""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import AsyncExitStack, asynccontextmanager
from functools import partial
from typing import Final

from common.clickhouse.connect import open_store
from common.clickhouse.dead_letters import DeadLetterTable
from common.clickhouse.migrate import require_tables as require_clickhouse_tables
from common.clickhouse.store import ColumnStore
from common.http.health import open_health
from common.kafka.cluster import ensure_topics
from common.kafka.consumer import KafkaSource
from common.kafka.producer import KafkaPublisher
from common.kafka.record import RecordSource
from common.memory import tune_for_batches
from common.postgres.masking import MaskingRules
from common.postgres.migrate import require_tables as require_postgres_tables
from common.postgres.pool import Database, open_database
from common.postgres.projects import Projects
from common.prices.file import prices_of
from common.process import run_process, stop_on_signal
from common.readiness import NOT_CONNECTED, Readiness
from common.settings import Settings
from common.telemetry import get_logger
from common.times import SystemClock
from ingest.clickhouse_sink import ClickHouseSink
from ingest.decoding.decoder import open_decoder
from ingest.gaps import Gaps
from ingest.joiner import Joiner
from ingest.policy import Dependencies, KnownProjects, Policy
from ingest.stored_positions import StoredPositions, open_announcer
from ingest.worker import Worker

ADDRESS_NAMES: Final = "CLEARSPAN_WORKER_HOST and CLEARSPAN_WORKER_PORT"

_log = get_logger(__name__)


@asynccontextmanager
async def open_worker(
    settings: Settings,
    *,
    projects: KnownProjects,
    store: ColumnStore | None = None,
    source: RecordSource | None = None,
    readiness: Readiness | None = None,
    database: Database | None = None,
) -> AsyncIterator[Worker]:
    """Open a worker with everything that it needs, and its health server on ``worker_port``; ``run`` connects it.

    ``store``, if given (embedded mode shares it), is used and left open. ``source`` replaces the one that the settings
    describe. ``database`` has the masking rules; without it there are none.
    """
    readiness = readiness or Readiness()
    readiness.red("kafka", NOT_CONNECTED)
    policy = Policy.of(settings)
    async with AsyncExitStack() as stack:
        # First, because a process needs a second to start, and the rest starts meanwhile.
        decoder = await open_decoder(
            policy.rules, processes=settings.ingest.decode_processes, niceness=policy.decoder_niceness
        )
        stack.push_async_callback(decoder.close)
        await stack.enter_async_context(
            open_health(
                readiness, host=settings.worker_host, port=settings.worker_port, names=ADDRESS_NAMES, http=settings.http
            )
        )
        if store is None:
            store = open_store(settings.clickhouse, data_dir=settings.data_dir)
            stack.push_async_callback(store.close)
        publisher = KafkaPublisher(settings.kafka)
        stack.push_async_callback(publisher.close)
        systems: dict[str, Callable[[], Awaitable[object]]] = {"clickhouse": partial(require_clickhouse_tables, store)}
        if database is not None:
            systems["postgres"] = partial(require_postgres_tables, database)
        clock = SystemClock()
        announcer = await stack.enter_async_context(open_announcer(publisher, topic=settings.kafka.stored_topic))
        timeout_s = settings.clickhouse.insert_timeout_s
        gaps = Gaps(readiness)
        dependencies = Dependencies(
            source=source or KafkaSource(settings.kafka, report_gap=gaps.report),
            decoder=decoder,
            sinks=(ClickHouseSink(store, clock=clock, insert_timeout_s=timeout_s),),
            positions=StoredPositions(store, clock=clock, insert_timeout_s=timeout_s, announce=announcer.announce),
            joiner=Joiner(store, decoder, clock=clock, timeout_s=timeout_s),
            dead_letters=DeadLetterTable(store, deadline_s=timeout_s),
            publisher=publisher,
            projects=projects,
            masks=None if database is None else MaskingRules(database),
            readiness=readiness,
            prepare=lambda: ensure_topics(settings.kafka),
            systems=systems,
            clock=clock,
        )
        yield Worker(policy, dependencies)


async def serve(settings: Settings) -> None:
    """Run the worker until SIGTERM or SIGINT: the first signal drains it, the second ends the process at once."""
    tune_for_batches()
    async with (
        open_database(settings.postgres) as database,
        open_worker(settings, projects=Projects(database, SystemClock()), database=database) as worker,
    ):
        with stop_on_signal(worker.stop, log=_log, what="Stopping: flushing, committing, leaving the group."):
            await worker.run()
    _log.info("Ended.")


def run(settings: Settings) -> int:
    """Run the worker as a process; return the exit code, 0 only after an orderly end. Raises ``InvalidSettings``."""
    prices_of(settings)  # reports a bad line before anything is connected
    failure = "Ended by an error. Everything that was committed is durable."
    return run_process(serve(settings), settings, log=_log, failure=failure)
