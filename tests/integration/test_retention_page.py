"""The commands in ``docs/retention.md``, run in order by a shell, print what the page shows."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

from common.clickhouse.connect import open_store
from common.clickhouse.migrate import migrate
from common.postgres.pool import Database
from common.settings import ClickHouseSettings
from common.times import SystemClock
from query_api.retention.rules import RetentionRecords
from query_api.retention.run import Retention, retaining
from tests.support.shell_pages import api_of_a_page, check_commands, commands


async def test_commands_print_what_the_page_shows(
    database: Database, chdb_dir: Path, chdb_settings: Callable[[], ClickHouseSettings]
) -> None:
    page = commands("retention.md")
    assert len([shown for _, shown in page if shown is not None]) >= 3
    settings = chdb_settings()
    await migrate(settings, data_dir=chdb_dir)
    store = open_store(settings, data_dir=chdb_dir)
    retention = Retention(store, RetentionRecords(database), SystemClock(), interval_s=1.0, rest=0.0)

    async with api_of_a_page(database, settings, data_dir=chdb_dir) as address, retaining(retention):
        await check_commands(page, environment={"API": address})
    await store.close()
