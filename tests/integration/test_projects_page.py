"""The commands in ``docs/projects-and-keys.md``, run in order by a shell, print what the page shows."""

from __future__ import annotations

from pathlib import Path

import pytest
from pydantic import SecretStr

from common.postgres.keys import Keys
from common.postgres.pool import Database
from common.settings import PostgresSettings, Settings
from common.times import SystemClock
from tests.support.api import context_of, serving
from tests.support.shell_pages import check_commands, commands, stack_of_a_page

ADMIN_KEY = "the-key-of-the-admin"


@pytest.mark.long
async def test_commands_print_what_the_page_shows(
    database: Database, database_settings: PostgresSettings, tmp_path: Path
):
    page = commands("projects-and-keys.md")
    assert len([shown for _, shown in page if shown is not None]) >= 2
    settings = Settings(auth="on", admin_key=SecretStr(ADMIN_KEY))
    context = context_of(settings=settings, keys=Keys(database, SystemClock()), database=database)

    async with serving(context) as client:
        address, dsn = str(client._base_url).rstrip("/"), database_settings.dsn.get_secret_value()
        with stack_of_a_page(address, tmp_path / "data", postgres=dsn) as environment:
            environment["CLEARSPAN_ADMIN_KEY"] = ADMIN_KEY
            _, by_hand, *_ = await check_commands(page, environment=environment)

    assert "in force" in by_hand
