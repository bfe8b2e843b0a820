"""The commands in ``docs/saved-queries.md``, run in order by a shell, print what the page shows."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

from common.postgres.pool import Database
from common.settings import ClickHouseSettings
from tests.support.shell_pages import api_of_a_page, check_commands, commands, stack_of_a_page


async def test_every_command_prints_what_the_page_shows(
    shared_database: Database, chdb_dir: Path, chdb_settings: Callable[[], ClickHouseSettings], tmp_path: Path
):
    page = commands("saved-queries.md")
    assert len([shown for _, shown in page if shown is not None]) >= 8

    async with api_of_a_page(shared_database, chdb_settings(), data_dir=chdb_dir) as address:
        with stack_of_a_page(address, tmp_path / "data") as environment:
            await check_commands(page, environment=environment)
