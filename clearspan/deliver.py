"""``clearspan deliver``: the process of subscriptions, alerts and retention, with its health and metrics."""

from __future__ import annotations

import asyncio

from common.clickhouse.connect import open_store
from common.http.health import open_health
from common.postgres.pool import open_database
from common.process import run_process, stop_on_signal
from common.readiness import NOT_CONNECTED, Readiness
from common.settings import Settings
from common.telemetry import get_logger
from jobs.app import open_jobs

_log = get_logger(__name__)


async def serve(settings: Settings) -> None:
    """Deliver until SIGTERM or SIGINT: the first signal ends after the batches under way, the second at once."""
    stop = asyncio.Event()
    readiness = Readiness()
    for system in ("clickhouse", "postgres"):
        readiness.red(system, NOT_CONNECTED)

    def report(system: str, reason: str) -> None:
        if reason:
            readiness.waits_for(system, reason)
        else:
            readiness.green(system)

    names = "CLEARSPAN_DELIVER_HOST and CLEARSPAN_DELIVER_PORT"
    with stop_on_signal(stop.set, log=_log, what="Stopping: finishing batches, giving leases back."):
        store = open_store(settings.clickhouse, data_dir=settings.data_dir)
        try:
            async with (
                open_health(
                    readiness, host=settings.deliver_host, port=settings.deliver_port, names=names, http=settings.http
                ),
                open_database(settings.postgres) as database,
                open_jobs(settings, store=store, database=database, report=report),
            ):
                await stop.wait()
        finally:
            await store.close()
    _log.info("Ended.")


def run(settings: Settings) -> int:
    """Run the process; return the exit code, 0 only after an orderly end. Raises ``InvalidSettings``."""
    failure = "Ended by an error. Every position that was stored was acknowledged."
    return run_process(serve(settings), settings, log=_log, failure=failure)
