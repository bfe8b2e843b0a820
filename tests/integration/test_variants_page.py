"""The commands in ``docs/variants.md``, run in order by a shell, print what the page shows."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

from common.postgres.pool import Database
from common.settings import ClickHouseSettings
from query_api.filter.parse import FilteringModel, parse
from tests.support.shell_pages import api_of_a_page, blocks, check_commands, commands, stack_of_a_page


async def test_every_command_prints_what_the_page_shows(
    database: Database, chdb_dir: Path, chdb_settings: Callable[[], ClickHouseSettings], tmp_path: Path
):
    page = commands("variants.md")
    assert len([shown for _, shown in page if shown is not None]) >= 10

    async with api_of_a_page(database, chdb_settings(), data_dir=chdb_dir) as address:
        with stack_of_a_page(address, tmp_path / "data") as environment:
            await check_commands(page, environment=environment)


def test_the_filter_of_the_page_is_valid():
    bodies = [json.loads(text) for kind, text in blocks("variants.md") if kind == "json"]
    [filtering] = [body["filtering"] for body in bodies if "filtering" in body]

    parse(FilteringModel.model_validate(filtering))
