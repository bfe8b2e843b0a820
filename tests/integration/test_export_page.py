"""The commands in ``docs/export.md``, run in order by a shell, print what the page shows."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from common.postgres.pool import Database
from common.settings import ClickHouseSettings
from query_api.export.columns import COLUMNS, SUMMARY_COLUMNS
from tests.support.shell_pages import DOCS, api_of_a_page, check_commands, commands, stack_of_a_page


@pytest.mark.long
async def test_every_command_prints_what_the_page_shows(
    shared_database: Database, chdb_dir: Path, chdb_settings: Callable[[], ClickHouseSettings], tmp_path: Path
) -> None:
    page = commands("export.md")
    assert len([shown for _, shown in page if shown is not None]) >= 4
    async with api_of_a_page(shared_database, chdb_settings(), data_dir=chdb_dir) as address:
        with stack_of_a_page(address, tmp_path / "data") as environment:
            await check_commands(page, environment=environment, prelude=f'cd "{tmp_path}"\n')


def test_page_lists_every_column() -> None:
    text = (DOCS / "export.md").read_text()
    assert [name for name in COLUMNS if f"`{name}`" not in text] == []
    usual = text.partition("CSV has by default")[2].partition(". Parquet has")[0]
    assert [name for name in SUMMARY_COLUMNS if f"`{name}`" not in usual] == []
