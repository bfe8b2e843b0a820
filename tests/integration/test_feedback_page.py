"""The commands in ``docs/feedback.md``, run in order by a shell, print what the page shows."""

from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path

from common.postgres.pool import Database
from common.settings import ClickHouseSettings
from query_api.compat.simple_traces.models import Channel, Origin, SimpleTraceCreate, TraceKind
from tests.support.shell_pages import DOCS, api_of_a_page, check_commands, commands, stack_of_a_page

PAGE = "feedback.md"


async def test_commands_print_what_the_page_shows(
    shared_database: Database, chdb_dir: Path, chdb_settings: Callable[[], ClickHouseSettings], tmp_path: Path
) -> None:
    page = commands(PAGE)
    assert len([shown for _, shown in page if shown is not None]) >= 5
    async with api_of_a_page(shared_database, chdb_settings(), data_dir=chdb_dir) as address:
        with stack_of_a_page(address, tmp_path / "data") as environment:
            await check_commands(page, environment=environment)


def test_page_names_every_member_and_its_values() -> None:
    text = (DOCS / PAGE).read_text()

    cells = ", ".join(re.findall(r"^\| (.*?) \|", text, re.MULTILINE))

    assert [name for name in SimpleTraceCreate.model_fields if f"`{name}`" not in cells] == []
    assert [value for value in (*Origin, *TraceKind, *Channel) if f"`{value}`" not in text] == []
