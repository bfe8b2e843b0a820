"""The tables of both stores, brought to where this program needs them. Safe to run twice and from two places at once."""

from __future__ import annotations

from typing import Final

from common.clickhouse.migrate import migrate as migrate_clickhouse
from common.errors import ServiceError
from common.migrations import IllegalMigration
from common.postgres.migrate import migrate as migrate_postgres
from common.settings import Settings
from common.telemetry import get_logger
from common.waiting import wait_for

_log = get_logger(__name__)

CANNOT_MIGRATE: Final = (IllegalMigration, ServiceError)
"""What waiting does not mend: files and database contradict each other, or a store refuses a statement, for want of a right mostly."""


async def migrate_all(settings: Settings) -> None:
    """Apply what is missing to ClickHouse and to Postgres; waits for a server that is not up yet, and says so. Raises
    ``CANNOT_MIGRATE``."""

    async def clickhouse() -> None:
        applied = await migrate_clickhouse(settings.clickhouse, data_dir=settings.data_dir.resolve())
        _log.info("ClickHouse is up to date.", applied=applied or "nothing new")

    async def postgres() -> None:
        applied = await migrate_postgres(settings.postgres, default_project_id=settings.default_project_id)
        _log.info("Postgres is up to date.", applied=applied or "nothing new")

    await wait_for(clickhouse, "clickhouse", log=_log)
    await wait_for(postgres, "postgres", log=_log)
