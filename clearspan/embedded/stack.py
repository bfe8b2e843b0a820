"""The embedded stack: what starts in which order, and what ends it.

::

    lock ── ports ── guard ── Postgres, broker ── tables, topics ── API ── worker

Everything is closed in reverse order, except the API, which ends before the worker. SIGTERM and SIGINT let what has
begun end; a second signal ends the process at once. Records that are not stored yet are still in the broker, and the
next start stores them.
"""

from __future__ import annotations

import asyncio
import os
import signal
from collections.abc import Mapping
from contextlib import AsyncExitStack
from typing import Any, Final

from pydantic import SecretStr

from clearspan.embedded.broker import EmbeddedBroker
from clearspan.embedded.children import Guard, end_left_over, write_children
from clearspan.embedded.layout import Layout, Running, Stopping, hold, make_private
from clearspan.embedded.ports import (
    OTLP_PORTS,
    free_port,
    require_free_ports,
    why_left_out,
    with_last_ports,
    write_last_ports,
)
from clearspan.embedded.postgres import EmbeddedPostgres
from clearspan.migrate import migrate_all
from common.clickhouse.connect import open_store
from common.clickhouse.store import ColumnStore
from common.kafka.cluster import ensure_topics
from common.memory import tune_for_batches
from common.postgres.pool import Database, open_database
from common.postgres.projects import Projects
from common.prices.file import prices_of
from common.readiness import Readiness
from common.settings import Settings
from common.telemetry import configure_logging, get_logger
from common.times import SystemClock
from common.waiting import wait_for
from ingest.app import open_worker
from jobs.app import open_jobs
from jobs.runner import STOP_S as DELIVERIES_STOP_S
from query_api.http.app import open_api, request_s_max

NO_STREAK: Final = 2**31
"""More undecodable records than a partition of the embedded broker ever holds."""


def embedded_settings(settings: Settings) -> Settings:
    """Return the settings with the defaults of the embedded stack where the environment has none."""
    given = settings.model_fields_set
    changes = {
        "data_dir": settings.data_dir.resolve(),
        "api_port": settings.api_port or free_port(),  # written to the data directory before the API listens
        "worker_port": settings.worker_port or free_port(),  # the same for all workers of this stack
        "auth": settings.auth if "auth" in given else "off",
        "log_format": settings.log_format if "log_format" in given else "text",
        "clickhouse": settings.clickhouse.model_copy(update={"interface": "chdb", "cluster": ""}),
    }
    if settings.embedded_broker == "on":
        # A partition that is held would fill the disk space of the broker, and nothing more could be produced.
        changes["ingest"] = settings.ingest.model_copy(update={"dead_letter_streak_max": NO_STREAK})
    return settings.model_copy(update=changes)


WATCH_INTERVAL_S: Final = 1.0
PROGRESS_INTERVAL_S: Final = 1.0
CHILDREN_GRACE_S: Final = 20.0
"""The part of a stop in which the broker and Postgres end."""

MIGRATE_GRACE_S: Final = 5.0
"""How long a stop during the start waits for migrations that are running; it does not wait for a store that is down."""

_log = get_logger(__name__)


async def run_stack(settings: Settings) -> None:
    """Run everything until SIGTERM or SIGINT.

    Raises ``InvalidSettings``, and ``StackError`` if the stack cannot start.
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
        prices_of(settings)  # checked before anything starts
        stack = _Stack(settings, layout, left_out=left_out)
        async with AsyncExitStack() as resources:
            await stack.run(resources)
        Stopping(is_done=True).write(layout)
    _log.info("Stopped.")


def _address(host: str, port: int) -> str:
    return f"http://[{host}]:{port}" if ":" in host else f"http://{host}:{port}"


def stop_s_max(settings: Settings) -> float:
    """Return how long a stop may report no progress: requests and batches under way, the children's end."""
    api_s = 2 * DELIVERIES_STOP_S + request_s_max(settings.query)
    return api_s + settings.ingest.shutdown_grace_s + CHILDREN_GRACE_S


class _Stack:
    """The parts of the stack while it runs."""

    def __init__(self, settings: Settings, layout: Layout, *, left_out: Mapping[str, str]) -> None:
        self._settings = settings
        self._left_out = left_out
        self._layout = layout
        self._broker = EmbeddedBroker(settings, layout) if settings.embedded_broker == "on" else None
        self._readiness = Readiness()
        self._stopping = asyncio.Event()

    async def run(self, resources: AsyncExitStack) -> None:
        """Start in order and work until asked to stop; ``resources`` closes in reverse order."""
        self._handle_signals()
        await self._start_servers(resources)
        showing = asyncio.create_task(self._show_progress(), name="show-progress")
        resources.callback(showing.cancel)
        if not await self._make_tables_and_topics():
            return
        store = open_store(self._settings.clickhouse, data_dir=self._layout.root)
        resources.push_async_callback(store.close)
        database = await resources.enter_async_context(open_database(self._settings.postgres))
        api = await resources.enter_async_context(AsyncExitStack())
        api_port = await api.enter_async_context(open_api(self._settings, store=store))
        await api.enter_async_context(open_jobs(self._settings, store=store, database=database))
        _log.info("The API listens.", port=api_port)
        await self._work(api, store, database)

    async def _start_servers(self, resources: AsyncExitStack) -> None:
        self._guard = Guard()
        resources.callback(self._guard.close)
        postgres = await asyncio.to_thread(EmbeddedPostgres, self._layout.postgres)
        self._postgres = postgres.child
        resources.push_async_callback(asyncio.to_thread, postgres.stop)
        make_private(self._layout)
        self._watch_children()
        kafka = self._settings.kafka
        if self._broker is not None:
            resources.push_async_callback(self._broker.close)
            await self._broker.start()
            self._watch_children()
            kafka = kafka.unsecured_at(self._broker.bootstrap)  # certificates and users are for another one
        self._settings = self._settings.model_copy(
            update={
                "kafka": kafka,
                "postgres": self._settings.postgres.model_copy(update={"dsn": SecretStr(postgres.dsn)}),
            }
        )
        self._write_running(postgres.dsn)

    def _watch_children(self) -> None:
        """Let the guard, and the next start, know the processes that this stack has started."""
        children = [self._postgres, *(self._broker.children() if self._broker else [])]
        write_children(self._layout, children)
        self._guard.watch(children)

    def _write_running(self, dsn: str) -> None:
        settings = self._settings
        Running(
            pid=os.getpid(),
            api=_address(settings.api_host, settings.api_port),
            worker=_address(settings.worker_host, settings.worker_port),
            kafka=settings.kafka.bootstrap,
            postgres=dsn,
            auth=settings.auth,
            topics=list(settings.kafka.topics),
            otlp=_address(settings.api_host, settings.otlp_http_port) if settings.otlp_http_port else "",
            otlp_left_out=self._left_out.get("otlp_http_port", ""),
            otlp_grpc=_address(settings.api_host, settings.otlp_grpc_port) if settings.otlp_grpc_port else "",
            otlp_grpc_left_out=self._left_out.get("otlp_grpc_port", ""),
            stop_s=stop_s_max(settings),
            has_own_broker=self._broker is not None,
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

    async def _work(self, api: AsyncExitStack, store: ColumnStore, database: Database) -> None:
        """Run a worker until the process is asked to stop; close the API before the worker ends."""
        async with (
            open_worker(
                self._settings,
                projects=Projects(database, SystemClock()),
                store=store,
                readiness=self._readiness,
                database=database,
            ) as worker,
            asyncio.TaskGroup() as tasks,
        ):
            working = tasks.create_task(worker.run(), name="worker")
            watching = tasks.create_task(self._watch_children_live(), name="watch-children")
            stopping = tasks.create_task(self._stopping.wait(), name="stopping")
            await asyncio.wait({working, watching, stopping}, return_when=asyncio.FIRST_COMPLETED)
            stopping.cancel()
            await api.aclose()
            worker.stop()
            await asyncio.wait({working})
            watching.cancel()

    async def _watch_children_live(self) -> None:
        """Start the broker again if it has died, and the guard as well."""
        while True:
            await asyncio.sleep(WATCH_INTERVAL_S)
            self._guard.revive()
            if self._broker is not None and not self._broker.is_alive():
                _log.error("The broker died. Starting it again with the records that it has on disk.")
                await self._broker.start()
                self._watch_children()

    async def _show_progress(self) -> None:
        """While the stack stops, write that it does."""
        await self._stopping.wait()
        while True:
            Stopping().write(self._layout)
            await asyncio.sleep(PROGRESS_INTERVAL_S)

    def _handle_signals(self) -> None:
        loop = asyncio.get_running_loop()
        for number in (signal.SIGINT, signal.SIGTERM):
            loop.add_signal_handler(number, self._stop_or_exit)

    def _stop_or_exit(self) -> None:
        if self._stopping.is_set():
            os._exit(1)
        _log.info("Stopping: finishing requests and batches.")
        self._stopping.set()
