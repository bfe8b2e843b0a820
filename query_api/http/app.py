"""The API process: its composition root, its server, and how it starts and ends.

It listens at once and needs nothing for that. Stores and publishers connect by themselves when they are first used; the
one thing it waits for is the secret that signs cursors, which ``migrate`` made and Postgres keeps.
"""

from __future__ import annotations

import asyncio
import signal
from collections.abc import AsyncIterator, Mapping
from contextlib import AsyncExitStack, asynccontextmanager, suppress
from dataclasses import replace
from typing import Final

from aiohttp import web

from common.clickhouse.connect import open_store
from common.clickhouse.migrate import require_tables as require_clickhouse_tables
from common.clickhouse.store import ColumnStore
from common.clock import Clock, SystemClock
from common.errors import Unavailable
from common.kafka.cluster import read_cluster_id
from common.kafka.end_offsets import KafkaEndOffsets
from common.kafka.log import KafkaLog
from common.kafka.producer import KafkaPublisher
from common.kafka.record import EndOffsets, Publisher
from common.memory import tune_for_batches
from common.postgres.keys import Keys
from common.postgres.migrate import require_tables as require_postgres_tables
from common.postgres.pool import Database, open_database
from common.postgres.projects import Projects
from common.postgres.secrets import cursor_secret
from common.settings import IllegalSettings, QuerySettings, Settings
from common.telemetry import configure_logging, get_logger
from common.waiting import wait_for
from query_api.compute.pool import open_compute
from query_api.freshness.follow import Follower, following
from query_api.http import routes
from query_api.http.auth import refuse_open_door
from query_api.http.dispatch import Dispatcher
from query_api.http.router import Router
from query_api.http.server import Runner
from query_api.http.startup_state import StartupState
from query_api.intake.publish import refuse_unread_intake
from query_api.request.context import ApiContext, Check, waiting_places
from query_api.request.progress import KnownEndOffsets
from query_api.request.route import Route

BESIDE_QUERY_S: Final = 5.0
"""What a request takes at the most beside its query and the wait for its turn: those under way are answered before the process ends."""

_log: Final = get_logger("clearspan.api")


def request_s_max(query: QuerySettings) -> float:
    """How long a request under way may take, in seconds: its turn, its query and what comes beside it."""
    return query.queue_s + query.budget_s + BESIDE_QUERY_S


def make_runner(state: StartupState, served: tuple[Route, ...] = routes.ROUTES) -> Runner:
    """The API over a stage, which may still change. Make it inside a running loop."""

    def let_go() -> None:
        state.context.stored.release()

    settings = state.context.settings
    grace_s = request_s_max(settings.query)
    return Runner(Dispatcher(Router(served), state).answer, settings.http, let_go=let_go, grace_s=grace_s)


@asynccontextmanager
async def open_api(
    settings: Settings,
    *,
    store: ColumnStore | None = None,
    publisher: Publisher | None = None,
    ends: EndOffsets | None = None,
    clock: Clock | None = None,
) -> AsyncIterator[int]:
    """The API, listening while inside; gives the port, which is another one where ``api_port`` is 0.

    ``store`` and ``publisher`` are used as they are and left open, where they are shared or a test brings its own.
    Raises ``IllegalSettings`` where authentication is off on an open address, intake would go to a topic that is not
    read, or the address cannot be had.
    """
    refuse_open_door(settings)
    refuse_unread_intake(settings.kafka)
    async with AsyncExitStack() as resources:
        database = await resources.enter_async_context(open_database(settings.postgres))
        if store is None:
            store = open_store(settings.clickhouse, data_dir=settings.data_dir)
            resources.push_async_callback(store.close)
        if publisher is None:
            publisher = KafkaPublisher(settings.kafka)
            resources.push_async_callback(publisher.close)
        compute = open_compute(settings.compute, preload=routes.__name__)
        resources.push_async_callback(compute.close)
        clock = clock or SystemClock()
        known_ends = KnownEndOffsets(ends or KafkaEndOffsets(settings.kafka), clock)
        resources.push_async_callback(known_ends.close)
        state = StartupState(
            ApiContext(
                settings=settings,
                store=store,
                publisher=publisher,
                keys=Keys(database, clock) if settings.auth == "on" else None,
                clock=clock,
                ends=known_ends,
                cursor_secret=settings.query.cursor_secret.get_secret_value().encode(),
                waiting=waiting_places(settings.query.waiting_max),
                compute=compute,
                database=database,
            )
        )
        state.context = replace(state.context, checks=_checks(state, database))
        await resources.enter_async_context(following(_follower(state.context)))
        if not state.context.cursor_secret:
            state.waits_for = "Starting: waiting for Postgres."
            starting = asyncio.create_task(_find_cursor_secret(state, database), name="find-cursor-secret")
            resources.push_async_callback(_end, starting)
        runner, otlp_runner = make_runner(state), make_runner(state, routes.OTLP_ROUTES)
        resources.push_async_callback(_clean_up, runner, otlp_runner)
        if settings.otlp_http_port:
            await _listen(otlp_runner, settings.api_host, settings.otlp_http_port, port_name="CLEARSPAN_OTLP_HTTP_PORT")
        yield await _listen(runner, settings.api_host, settings.api_port, port_name="CLEARSPAN_API_PORT")


async def _clean_up(*runners: Runner) -> None:
    """End all at once: each waits for the requests under way."""
    await asyncio.gather(*(runner.cleanup() for runner in runners))


def run(settings: Settings) -> int:
    """``clearspan serve``: the API until SIGTERM or SIGINT; returns the exit code."""
    configure_logging(log_format=settings.log_format, level=settings.log_level)
    tune_for_batches()
    asyncio.run(_serve(settings))
    return 0


async def _serve(settings: Settings) -> None:
    asked_to_end = asyncio.Event()
    loop = asyncio.get_running_loop()
    for each in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(each, asked_to_end.set)
    async with open_api(settings) as port:
        _log.info("listening", host=settings.api_host, port=port, otlp_http_port=settings.otlp_http_port)
        await asked_to_end.wait()
        _log.info("ending")


def _follower(context: ApiContext) -> Follower:
    settings = context.settings
    return Follower(
        context.stored,
        store=context.store,
        announcements=KafkaLog(settings.kafka),
        topic=settings.kafka.stored_topic,
        clock=context.clock,
        reread_s=settings.query.stored_reread_s,
    )


def _checks(state: StartupState, database: Database) -> Mapping[str, Check]:
    projects = Projects(database, state.context.clock)
    default_project_id = state.context.settings.default_project_id

    async def kafka() -> None:
        await read_cluster_id(state.context.settings.kafka)

    async def clickhouse() -> None:
        await require_clickhouse_tables(state.context.store)

    async def postgres() -> None:
        await require_postgres_tables(database)
        if state.waits_for:
            raise Unavailable(state.waits_for)
        if not await projects.exists(default_project_id):
            raise Unavailable(
                f"There is no project {default_project_id}, which CLEARSPAN_DEFAULT_PROJECT_ID names;"
                " `clearspan migrate` makes it."
            )

    return {"clickhouse": clickhouse, "kafka": kafka, "postgres": postgres}


async def _find_cursor_secret(state: StartupState, database: Database) -> None:
    async def probe() -> None:
        try:
            secret = await cursor_secret(database)
        except Unavailable as exc:
            state.waits_for = f"Starting: {exc.public_message}"
            raise
        state.context = replace(state.context, cursor_secret=secret)
        state.waits_for = ""

    await wait_for(probe, "postgres", log=_log)


async def _end(task: asyncio.Task[None]) -> None:
    task.cancel()
    with suppress(asyncio.CancelledError):
        await task


async def _listen(runner: Runner, host: str, port: int, *, port_name: str) -> int:
    await runner.setup()
    try:
        await web.TCPSite(runner, host, port).start()
    except OSError as exc:
        raise IllegalSettings(
            f"CLEARSPAN_API_HOST and {port_name} are {host}:{port}, which cannot be had: {exc.strerror}."
        ) from exc
    return int(runner.addresses[0][1])
