"""The parts of ``clearspan deliver``: a runner of leases with the jobs of subscriptions, alerts, retention and
settling."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import AbstractAsyncContextManager, asynccontextmanager, nullcontext, suppress
from functools import partial
from typing import Final

from common.clickhouse.migrate import require_tables as require_clickhouse_tables
from common.clickhouse.store import ColumnStore
from common.errors import ServiceError
from common.fair_share import FairShare
from common.kafka.log import KafkaLog
from common.postgres.keys import Keys
from common.postgres.leases import Kind, Leases
from common.postgres.migrate import require_tables as require_postgres_tables
from common.postgres.pool import Database
from common.settings import Settings
from common.telemetry import ALERTS, SUBSCRIPTIONS, SUBSCRIPTIONS_HELD, get_logger
from common.times import Clock, SystemClock
from jobs.alerts.jobs import EVALUATIONS_MAX, SENDERS_MAX, AlertJobs
from jobs.alerts.store import LeasedAlerts
from jobs.context import JobContext
from jobs.failures import counts_by_state
from jobs.retention.run import Retention
from jobs.runner import TICK_S, Job, LeaseRunner, Report
from jobs.settling.records import SettlingRecords
from jobs.settling.run import Settling, SettlingTimes
from jobs.subscriptions.delivery import Subscribing
from jobs.subscriptions.pace import Pace
from jobs.subscriptions.reading import BatchReader
from jobs.subscriptions.settled_reading import SettledBatchReader
from jobs.subscriptions.store import LeasedSubscriptions
from query_api.delivery.schemas import State
from query_api.freshness.follow import Follower, following
from query_api.request.progress import StoredThrough
from query_api.retention.rules import RetentionRecords

PROBE_S: Final = 1.0
"""How often a start looks whether there are tables."""

COUNT_S: Final = 15.0
"""How often the subscriptions and alerts of all projects are counted."""

MANY: Final = 1_000_000
"""Subscriptions wait for each other in turns of their own (``pace.py``)."""

_log: Final = get_logger(__name__)


@asynccontextmanager
async def open_jobs(
    settings: Settings,
    *,
    store: ColumnStore,
    database: Database,
    stored: StoredThrough | None = None,
    clock: Clock | None = None,
    report: Report = lambda _system, _reason: None,
    tick_s: float = TICK_S,
) -> AsyncIterator[None]:
    """Run the jobs while inside. ``store`` and ``database`` are used and left open.

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
    leases = Leases(database, settings.delivery.lease_s)
    keys = Keys(database, clock) if settings.auth == "on" else None
    context = JobContext(settings, store, database, leases, keys, clock)
    runner = LeaseRunner(leases, jobs_of(context, stored), clock, report=report, tick_s=tick_s)
    async with following_workers:
        running = asyncio.create_task(_run(runner, context, report), name="jobs")
        try:
            yield
        finally:
            running.cancel()
            with suppress(asyncio.CancelledError):
                await running
            await runner.close()


def jobs_of(context: JobContext, stored: StoredThrough) -> dict[Kind, Job]:
    """Return what runs for each kind of leases."""
    settings = context.settings
    subscribing = Subscribing(
        context,
        LeasedSubscriptions(context.leases),
        BatchReader(context.store, stored, settings, context.clock),
        SettledBatchReader(context.store, context.database, settings, context.clock),
        Pace(context.clock),
        FairShare("batches in memory", settings.delivery.batches_max),
    )
    alerts = AlertJobs(context, LeasedAlerts(context.leases))
    records = RetentionRecords(context.database)
    ahead_us = settings.limits.ahead_s_max * 1_000_000
    retention = Retention(context.store, records, context.clock, settings.retention.interval_s, ahead_us=ahead_us)
    settling_records = SettlingRecords(context.leases)
    times = SettlingTimes(settings.settling_s, settings.settling_max_s)
    settling = Settling(context.store, settling_records, times, context.clock, settling_records.now_us)
    return {
        Kind.SUBSCRIPTION: Job(subscribing.run, MANY, MANY, count=SUBSCRIPTIONS_HELD.set),
        Kind.ALERT: Job(alerts.evaluate, EVALUATIONS_MAX, EVALUATIONS_MAX // 2),
        Kind.MESSAGES: Job(alerts.send, SENDERS_MAX, SENDERS_MAX // 2),
        Kind.RETENTION: Job(retention.work, 1, 1),
        Kind.SETTLING: Job(settling.work, 1, 1),
    }


async def _run(runner: LeaseRunner, context: JobContext, report: Report) -> None:
    """Wait for the tables, then run what is due."""
    for system, probe in (
        ("clickhouse", partial(require_clickhouse_tables, context.store)),
        ("postgres", partial(require_postgres_tables, context.database)),
    ):
        while True:
            try:
                await probe()
            except ServiceError as exc:
                report(system, exc.detail)
                await asyncio.sleep(PROBE_S)
            else:
                report(system, "")
                break
    async with asyncio.TaskGroup() as group:  # `gather` would not wait for the end of both
        group.create_task(runner.run())
        group.create_task(_watch(context))


async def _watch(context: JobContext) -> None:
    """Count the subscriptions and alerts of all projects, again and again. A shorter interval of retention counts at
    once.
    """
    is_scheduled = False
    while True:
        try:
            if not is_scheduled:
                await RetentionRecords(context.database).run_within(context.settings.retention.interval_s)
                is_scheduled = True
            subscriptions = await counts_by_state(context.database, Kind.SUBSCRIPTION)
            alerts = await counts_by_state(context.database, Kind.ALERT)
            for state in State:
                SUBSCRIPTIONS.labels(state).set(subscriptions.get(state, 0))
                ALERTS.labels(state).set(alerts.get(state, 0))
        except ServiceError as exc:
            _log.warning("Subscriptions and alerts are not counted.", reason=exc.detail)
        except Exception:  # noqa: BLE001 - the jobs must not end with it
            _log.exception("Subscriptions and alerts are not counted.")
        await asyncio.sleep(COUNT_S)
