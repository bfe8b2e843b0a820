"""``clearspan deliver``: the process that delivers subscriptions, with its health and metrics. Any number of them."""

from __future__ import annotations

import asyncio
import os
import signal

from common.clickhouse.connect import open_store
from common.postgres.pool import open_database
from common.settings import InvalidSettings, Settings
from common.telemetry import configure_logging, get_logger
from ingest.health import open_health
from ingest.readiness import NOT_CONNECTED, Readiness
from query_api.delivery.deliverer import open_deliverer

_log = get_logger(__name__)


async def serve(settings: Settings) -> None:
    """Deliver until SIGTERM or SIGINT: the first signal ends after the batches under way, the second at once."""
    loop = asyncio.get_running_loop()
    stopping = asyncio.Event()

    def on_signal(number: int) -> None:
        if stopping.is_set():
            os._exit(128 + number)
        stopping.set()
        _log.info("Stopping: finishing batches, giving leases back.", signal=signal.Signals(number).name)

    for number in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(number, on_signal, number)
    readiness = Readiness()
    for system in ("clickhouse", "postgres"):
        readiness.red(system, NOT_CONNECTED)

    def report(system: str, reason: str) -> None:
        if reason:
            readiness.waits_for(system, reason)
        else:
            readiness.green(system)

    names = "CLEARSPAN_DELIVER_HOST and CLEARSPAN_DELIVER_PORT"
    store = open_store(settings.clickhouse, data_dir=settings.data_dir)
    try:
        async with (
            open_health(
                readiness, host=settings.deliver_host, port=settings.deliver_port, http=settings.http, names=names
            ),
            open_database(settings.postgres) as database,
            open_deliverer(settings, store=store, database=database, report=report),
        ):
            await stopping.wait()
    finally:
        await store.close()
    _log.info("Ended.")


def run(settings: Settings) -> int:
    """Run the process; return the exit code, 0 only after an orderly end. Raises ``InvalidSettings``."""
    configure_logging(log_format=settings.log_format, level=settings.log_level)
    try:
        asyncio.run(serve(settings))
    except InvalidSettings:
        raise
    except Exception:  # noqa: BLE001 - any failure is logged and exits with 1
        _log.exception("Ended by an error. Every position that was stored was acknowledged.")
        return 1
    return 0
