"""The API process: its composition root, its start and its end.

It listens at once, without any other system. Stores and publishers connect when they are first used; the API waits only
for the secret that signs cursors, which ``clearspan migrate`` creates in Postgres.
"""

from __future__ import annotations

import asyncio
import signal
from collections.abc import AsyncIterator, Mapping
from contextlib import AsyncExitStack, asynccontextmanager, suppress
from dataclasses import replace
from functools import partial
from ipaddress import ip_address
from typing import Final

from aiohttp import web

from common.clickhouse.connect import open_store
from common.clickhouse.migrate import require_tables as require_clickhouse_tables
from common.clickhouse.store import ColumnStore
from common.errors import ServiceError, Unavailable
from common.fair_share import FairBudget
from common.kafka.cluster import read_cluster_id
from common.kafka.log import KafkaLog
from common.kafka.offsets import KafkaEndOffsets
from common.kafka.producer import KafkaPublisher
from common.kafka.record import EndOffsets, Publisher
from common.memory import tune_for_batches
from common.postgres.audit import AuditLog
from common.postgres.keys import Keys
from common.postgres.migrate import cursor_secret
from common.postgres.migrate import require_tables as require_postgres_tables
from common.postgres.pool import Database, open_database
from common.postgres.projects import Projects
from common.settings import InvalidSettings, QuerySettings, Settings
from common.telemetry import configure_logging, get_logger
from common.times import Clock, SystemClock
from common.waiting import wait_for
from query_api.audit.recorder import AuditRecorder, recording
from query_api.compute import ProcessCompute, ThreadCompute
from query_api.freshness.follow import Follower, following
from query_api.http import routes
from query_api.http.body import body_budget
from query_api.http.dispatch import Dispatcher, Runner, StartupState
from query_api.http.otlp_grpc import OtlpGrpcServer
from query_api.intake.publish import check_intake_topics
from query_api.request.context import ApiContext, Check, export_places, waiting_places
from query_api.request.limits import DEFAULT_LIMITS, Limits
from query_api.request.progress import KnownEndOffsets
from query_api.request.route import Route, Router

OVERHEAD_S: Final = 5.0
"""The longest time that a request takes besides its query and the wait for its turn."""

USES_STORED_S: Final = 60.0
"""How old the last use of a key may be in Postgres."""

_log: Final = get_logger("clearspan.api")


def request_s_max(query: QuerySettings) -> float:
    """Return how long a request may take, in seconds: the wait for its turn, its query, and overhead."""
    return query.queue_s + query.budget_s + OVERHEAD_S


def make_runner(
    state: StartupState, served: tuple[Route, ...] = routes.ROUTES, *, bodies: FairBudget | None = None
) -> Runner:
    """Return a runner that serves ``served`` with the context that ``state`` has by then. Make it inside a running
    loop. ``bodies`` is the budget for bodies, by default one of its own."""
    settings = state.context.settings
    return Runner(
        Dispatcher(Router(served), state, bodies or body_budget(settings)).dispatch,
        settings.http,
        before_shutdown=state.context.stored.release,
        grace_s=request_s_max(settings.query),
    )


@asynccontextmanager
async def open_api(
    settings: Settings,
    *,
    store: ColumnStore | None = None,
    publisher: Publisher | None = None,
    ends: EndOffsets | None = None,
    clock: Clock | None = None,
    limits: Limits = DEFAULT_LIMITS,
) -> AsyncIterator[int]:
    """Serve the API while inside; yield its port, which the system chooses if ``api_port`` is 0.

    A ``store`` or ``publisher`` that is given is not closed. Raises ``InvalidSettings`` if authentication is off on an
    address that is not loopback, if intake would publish to a topic that is not read, or if the address is not
    available.
    """
    check_auth(settings)
    check_intake_topics(settings.kafka)
    async with AsyncExitStack() as resources:
        database = await resources.enter_async_context(open_database(settings.postgres))
        clock = clock or SystemClock()
        audit = AuditRecorder(AuditLog(database), clock, settings.access)
        await resources.enter_async_context(recording(audit))
        if store is None:
            store = open_store(settings.clickhouse, data_dir=settings.data_dir)
            resources.push_async_callback(store.close)
        if publisher is None:
            publisher = KafkaPublisher(settings.kafka)
            resources.push_async_callback(publisher.close)
        processes = settings.compute.processes
        compute = ProcessCompute(settings.compute) if processes else ThreadCompute()
        resources.push_async_callback(compute.close)
        known_ends = KnownEndOffsets(ends or KafkaEndOffsets(settings.kafka), clock)
        resources.push_async_callback(known_ends.close)
        state = StartupState(
            ApiContext(
                settings=settings,
                store=store,
                publisher=publisher,
                keys=await resources.enter_async_context(_keys(settings, database, clock)),
                clock=clock,
                ends=known_ends,
                cursor_secret=settings.query.cursor_secret.get_secret_value().encode(),
                waiting=waiting_places(settings.query.waiting_max),
                exports=export_places(settings.query.exports_max),
                compute=compute,
                started_us=clock.now_ns() // 1_000,
                limits=limits,
                database=database,
            ),
            audit=audit,
        )
        state.context = replace(state.context, checks=_checks(state, database))
        follower = Follower(
            state.context.stored,
            store=store,
            announcements=KafkaLog(settings.kafka),
            topic=settings.kafka.stored_topic,
            clock=clock,
            reread_s=settings.query.stored_reread_s,
        )
        await resources.enter_async_context(following(follower))
        if not state.context.cursor_secret:
            state.waits_for = "Starting: waiting for Postgres."
            starting = asyncio.create_task(_find_cursor_secret(state, database), name="find-cursor-secret")
            resources.push_async_callback(_end, starting)
        bodies = body_budget(settings)
        runner, otlp_runner = make_runner(state, bodies=bodies), make_runner(state, routes.OTLP_ROUTES, bodies=bodies)
        grpc_server = OtlpGrpcServer(state, routes.OTLP, bodies) if settings.otlp_grpc_port else None
        resources.push_async_callback(_clean_up, runner, otlp_runner, grpc_server=grpc_server, settings=settings)
        if settings.otlp_http_port:
            await _listen(otlp_runner, settings.api_host, settings.otlp_http_port, port_name="CLEARSPAN_OTLP_HTTP_PORT")
        if grpc_server is not None:
            await grpc_server.start(settings.api_host, settings.otlp_grpc_port)
        yield await _listen(runner, settings.api_host, settings.api_port, port_name="CLEARSPAN_API_PORT")


@asynccontextmanager
async def _keys(settings: Settings, database: Database, clock: Clock) -> AsyncIterator[Keys | None]:
    """Yield the keys, ``None`` without authentication; end the requests of those that end elsewhere. Store every
    ``USES_STORED_S``, and at the end, when they were last used."""
    if settings.auth == "off":
        yield None
        return
    keys = Keys(database, clock, count_max=settings.access.keys_max)
    storing = asyncio.create_task(_keep_storing_uses(keys), name="store-uses-of-keys")
    watching = asyncio.create_task(keys.watch(), name="watch-keys")
    try:
        yield keys
    finally:
        await _end(watching)
        await _end(storing)
        await _store_uses(keys)


async def _keep_storing_uses(keys: Keys) -> None:
    while True:
        await asyncio.sleep(USES_STORED_S)
        await _store_uses(keys)


async def _store_uses(keys: Keys) -> None:
    try:
        await keys.store_uses()
    except ServiceError as error:
        _log.warning("When keys were last used is not stored yet.", reason=error.detail)


def check_auth(settings: Settings) -> None:
    """Raise ``InvalidSettings`` if authentication is off and the API would listen beyond this machine."""
    if settings.auth == "off" and not _is_loopback(settings.api_host):
        raise InvalidSettings(
            f"CLEARSPAN_AUTH=off listens on loopback only, and CLEARSPAN_API_HOST is {settings.api_host}: "
            "set CLEARSPAN_AUTH=on or CLEARSPAN_API_HOST=127.0.0.1."
        )


def _is_loopback(host: str) -> bool:
    try:
        return ip_address(host).is_loopback
    except ValueError:
        return host == "localhost"


async def _clean_up(*runners: Runner, grpc_server: OtlpGrpcServer | None, settings: Settings) -> None:
    """End all servers at the same time: each waits for its running requests."""
    grpc_stops = [grpc_server.stop(grace_s=request_s_max(settings.query))] if grpc_server is not None else []
    await asyncio.gather(*(runner.cleanup() for runner in runners), *grpc_stops)


def run(settings: Settings) -> int:
    """Run ``clearspan serve`` until SIGTERM or SIGINT; return the exit code."""
    configure_logging(log_format=settings.log_format, level=settings.log_level)
    tune_for_batches()
    asyncio.run(_serve(settings))
    return 0


async def _serve(settings: Settings) -> None:
    stop = asyncio.Event()
    loop = asyncio.get_running_loop()
    for number in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(number, stop.set)
    async with open_api(settings) as port:
        _log.info(
            "The API listens.",
            host=settings.api_host,
            port=port,
            otlp_http_port=settings.otlp_http_port,
            otlp_grpc_port=settings.otlp_grpc_port,
        )
        await stop.wait()
        _log.info("Stopping.")


def _checks(state: StartupState, database: Database) -> Mapping[str, Check]:
    context = state.context
    projects = Projects(database, context.clock)
    default_project_id = context.settings.default_project_id

    async def postgres() -> None:
        await require_postgres_tables(database)
        if state.waits_for:
            raise Unavailable(state.waits_for)
        if not await projects.exists(default_project_id):
            raise Unavailable(
                f"CLEARSPAN_DEFAULT_PROJECT_ID names the project {default_project_id}, which does not exist;"
                " `clearspan migrate` creates it."
            )

    return {
        "clickhouse": partial(require_clickhouse_tables, context.store),
        "kafka": partial(read_cluster_id, context.settings.kafka),
        "postgres": postgres,
    }


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
        raise InvalidSettings(
            f"CLEARSPAN_API_HOST and {port_name} are {host}:{port}, which is not available: {exc.strerror}."
        ) from exc
    return int(runner.addresses[0][1])
