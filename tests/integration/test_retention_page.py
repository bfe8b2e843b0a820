"""The commands in ``docs/retention.md``, run in order by a shell, print what the page shows."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from pathlib import Path

import pytest

from common.clickhouse.migrate import migrate
from common.postgres.pool import Database
from common.settings import ClickHouseSettings
from common.times import SystemClock
from jobs.retention.expire import RetentionLimits
from jobs.retention.run import Retention
from query_api.retention.rules import RetentionRecords
from tests.support.shell_pages import api_of_a_page, check_commands, commands, stack_of_a_page
from tests.support.stores import opened_store


@asynccontextmanager
async def running_after(file: Path, retention: Retention) -> AsyncIterator[None]:
    """Begin to run when the page has shown what goes: its shell then creates the file."""

    async def run() -> None:
        while not await asyncio.to_thread(file.exists):  # noqa: ASYNC110 - of another process
            await asyncio.sleep(0.05)
        while True:
            await retention.run()
            await asyncio.sleep(1)

    running = asyncio.create_task(run())
    try:
        yield
    finally:
        running.cancel()
        await asyncio.wait({running})


@pytest.mark.long
async def test_commands_print_what_the_page_shows(
    database: Database, chdb_dir: Path, chdb_settings: Callable[[], ClickHouseSettings], tmp_path: Path
) -> None:
    page = commands("retention.md")
    assert len([shown for _, shown in page if shown is not None]) >= 3
    begins = tmp_path / "begins"
    [seeing] = [place for place, (command, _) in enumerate(page) if '"deleted":{"traces":1' in command]
    page.insert(seeing, (f"touch {begins}", None))
    settings = chdb_settings()
    await migrate(settings, data_dir=chdb_dir)
    async with (
        opened_store(settings, data_dir=chdb_dir) as store,
        api_of_a_page(database, settings, data_dir=chdb_dir) as address,
    ):
        retention = Retention(
            store, RetentionRecords(database), SystemClock(), interval_s=1.0, limits=RetentionLimits(rest=0.0)
        )
        with stack_of_a_page(address, tmp_path / "data") as environment:
            async with running_after(begins, retention):
                await check_commands(page, environment=environment)
