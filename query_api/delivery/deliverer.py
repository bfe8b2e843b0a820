"""The work of ``clearspan deliver``: take subscriptions by lease, and deliver each in a task of its own (ADR 0018)."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import AbstractAsyncContextManager, asynccontextmanager, nullcontext, suppress
from dataclasses import dataclass
from functools import partial
from typing import Final, TypeAlias
from uuid import UUID, uuid4

from common.clickhouse.migrate import require_tables as require_clickhouse_tables
from common.clickhouse.store import ColumnStore
from common.errors import ServiceError
from common.fair_share import FairShare
from common.kafka.log import KafkaLog
from common.postgres.keys import Keys
from common.postgres.migrate import require_tables as require_postgres_tables
from common.postgres.pool import Database
from common.settings import Settings
from common.telemetry import SUBSCRIPTIONS, SUBSCRIPTIONS_HELD, get_logger
from common.times import Clock, SystemClock
from query_api.delivery.alerts.alerting import Alerting, AlertTools, lease_s_of
from query_api.delivery.alerts.store import AlertLeases
from query_api.delivery.delivering import Delivering, DeliveryTools, LeaseLostError
from query_api.delivery.pace import Pace
from query_api.delivery.reading import BatchReader
from query_api.delivery.schemas import State
from query_api.delivery.store import LeasedSubscription, Leases
from query_api.freshness.follow import Follower, following
from query_api.request.progress import StoredThrough

CLAIMED_MAX: Final = 20
"""Subscriptions that a process takes over at once, so that several processes share them."""

TICK_S_MAX: Final = 1.0
STOP_S: Final = 10.0
"""How long a stop waits for batches that are being delivered."""

COUNT_S: Final = 15.0
"""How often the subscriptions of all projects are counted."""

_log: Final = get_logger(__name__)

Report: TypeAlias = Callable[[str, str], object]
"""Takes the name of a system and why it is not available; an empty text if it is."""


@dataclass(slots=True)
class _Running:
    held: LeasedSubscription
    delivering: Delivering
    task: asyncio.Task[None]


class Deliverer:
    """Holds leases and runs what they cover, until it is cancelled."""

    def __init__(self, tools: DeliveryTools, *, report: Report) -> None:
        self._tools = tools
        self._report = report
        self._running: dict[UUID, _Running] = {}
        self._ending: set[asyncio.Task[None]] = set()
        self._renewed_s = tools.clock.monotonic_s()
        self._counted_s = float("-inf")

    async def run(self) -> None:
        """Keep and take leases until cancelled."""
        lease_s = self._tools.settings.delivery.lease_s
        while True:
            try:
                await self._tick()
                self._renewed_s = self._tools.clock.monotonic_s()
                self._report("postgres", "")
            except ServiceError as exc:
                self._report("postgres", exc.detail)
                if self._tools.clock.monotonic_s() - self._renewed_s >= lease_s:
                    for each in list(self._running.values()):
                        self._end(each)
            await asyncio.sleep(min(TICK_S_MAX, lease_s / 5))

    async def close(self) -> None:
        """End all deliveries, those under way after their batch, and give the leases back."""
        running = list(self._running.values())
        for each in running:
            each.delivering.stop()
            if not each.delivering.is_busy:
                each.task.cancel()
        if running:
            await asyncio.wait({each.task for each in running}, timeout=STOP_S)
        for each in running:
            self._end(each)
        if self._ending:
            await asyncio.wait(self._ending, timeout=STOP_S)
        with suppress(ServiceError):
            for each in running:
                await self._tools.leases.release(each.held)

    async def _tick(self) -> None:
        held = await self._tools.leases.renew([id_ for id_, each in self._running.items() if not each.task.done()])
        for id_, each in list(self._running.items()):
            if held.get(id_) != each.held.changes_count:
                self._end(each)
                if (loaded := await self._tools.leases.load(each.held)) is not None:
                    self._start(loaded)
        for claimed in await self._tools.leases.claim(max_count=CLAIMED_MAX):
            self._start(claimed)
        SUBSCRIPTIONS_HELD.set(len(self._running))
        await self._count()

    def _start(self, held: LeasedSubscription) -> None:
        delivering = Delivering(held, self._tools)
        task = asyncio.create_task(_until_lost(delivering), name=f"deliver-{held.slug}")
        self._running[held.id] = _Running(held, delivering, task)

    def _end(self, ending: _Running) -> None:
        """Cancel a delivery. Closing its target may take a moment, for which nothing else waits."""
        self._running.pop(ending.held.id, None)
        if not ending.task.done():
            ending.task.cancel()
            self._ending.add(ending.task)
            ending.task.add_done_callback(self._ending.discard)

    async def _count(self) -> None:
        now_s = self._tools.clock.monotonic_s()
        if now_s - self._counted_s >= COUNT_S:
            counts = await self._tools.leases.counts()
            for state in State:
                SUBSCRIPTIONS.labels(state).set(counts.get(state, 0))
            self._counted_s = now_s


async def _until_lost(delivering: Delivering) -> None:
    try:
        await delivering.run()
    except LeaseLostError:
        _log.info("A subscription was changed, or another process delivers it now.")
    except ServiceError as exc:
        _log.warning("A subscription ended; it begins again.", reason=exc.detail)
    except Exception:  # noqa: BLE001 - one subscription must not end the others
        _log.exception("A subscription ended unexpectedly; it begins again.")


@asynccontextmanager
async def open_deliverer(
    settings: Settings,
    *,
    store: ColumnStore,
    database: Database,
    stored: StoredThrough | None = None,
    clock: Clock | None = None,
    report: Report = lambda _system, _reason: None,
) -> AsyncIterator[Deliverer]:
    """Deliver subscriptions while inside. ``store`` and ``database`` are used and left open.

    The caller keeps ``stored`` up to date; without it, this follows the announcements of the workers.
    ``report`` is called with the state of the systems.
    """
    clock = clock or SystemClock()
    following_workers: AbstractAsyncContextManager[None] = nullcontext()
    if stored is None:
        stored = StoredThrough()
        follower = Follower(
            stored,
            store=store,
            announcements=KafkaLog(settings.kafka),
            topic=settings.kafka.stored_topic,
            clock=clock,
            reread_s=settings.query.stored_reread_s,
        )
        following_workers = following(follower)
    tools = DeliveryTools(
        settings=settings,
        leases=Leases(database, uuid4(), settings.delivery.lease_s),
        reader=BatchReader(store, stored, settings, clock),
        pace=Pace(clock),
        batches=FairShare("batches in memory", settings.delivery.batches_max),
        database=database,
        keys=Keys(database, clock) if settings.auth == "on" else None,
        clock=clock,
    )
    deliverer = Deliverer(tools, report=report)
    leases = AlertLeases(database, uuid4(), lease_s_of(settings))
    alerting = Alerting(AlertTools(settings, store, database, leases, tools.keys, clock))
    async with following_workers:
        running = asyncio.create_task(_run(deliverer, alerting, store, database, report), name="deliverer")
        try:
            yield deliverer
        finally:
            running.cancel()
            with suppress(asyncio.CancelledError):
                await running
            await deliverer.close()


async def _run(
    deliverer: Deliverer, alerting: Alerting, store: ColumnStore, database: Database, report: Report
) -> None:
    """Wait for the tables, then deliver and evaluate alerts."""
    for system, probe in (
        ("clickhouse", partial(require_clickhouse_tables, store)),
        ("postgres", partial(require_postgres_tables, database)),
    ):
        while True:
            try:
                await probe()
            except ServiceError as exc:
                report(system, exc.detail)
                await asyncio.sleep(TICK_S_MAX)
            else:
                report(system, "")
                break
    async with asyncio.TaskGroup() as group:  # `gather` would not wait for the end of both
        group.create_task(deliverer.run())
        group.create_task(alerting.run())
