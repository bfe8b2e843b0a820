"""``clearspan migrate``: create or update the tables of both stores. Safe to run twice and from two places at once."""

from __future__ import annotations

import asyncio

from clearspan.console import fail
from common.clickhouse.migrate import migrate as migrate_clickhouse
from common.errors import ServiceError
from common.migrations import InvalidMigration
from common.postgres.migrate import migrate as migrate_postgres
from common.settings import Settings
from common.telemetry import configure_logging, get_logger
from common.waiting import wait_for

_log = get_logger(__name__)


def run(settings: Settings) -> int:
    """Run the command; return its exit code."""
    configure_logging(log_format=settings.log_format, level=settings.log_level)
    try:
        asyncio.run(migrate_all(settings))
    except (InvalidMigration, ServiceError) as exc:
        return fail(str(exc))
    return 0


async def migrate_all(settings: Settings) -> None:
    """Apply the missing migrations to ClickHouse and to Postgres; wait for a server that is not up yet, and log that.

    Raises ``InvalidMigration`` if the database contradicts the files, and ``ServiceError`` if a store refuses a
    statement, usually because a privilege is missing: waiting helps with neither.
    """

    async def clickhouse() -> None:
        applied = await migrate_clickhouse(settings.clickhouse, data_dir=settings.data_dir.resolve())
        _log.info("ClickHouse is up to date.", applied=applied or "nothing new")

    async def postgres() -> None:
        applied = await migrate_postgres(settings.postgres, default_project_id=settings.default_project_id)
        _log.info("Postgres is up to date.", applied=applied or "nothing new")

    await wait_for(clickhouse, "clickhouse", log=_log)
    await wait_for(postgres, "postgres", log=_log)
