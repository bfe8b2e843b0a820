"""The commands in ``docs/scores.md``, run in order by a shell, print what the page shows."""

from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path

from common.postgres.pool import Database
from common.score import NAME_LENGTH_MAX, SCORES_MAX
from common.settings import ClickHouseSettings
from query_api.pages.span_model import ScoreModel
from tests.support.shell_pages import DOCS, api_of_a_page, check_commands, commands, stack_of_a_page

PAGE = "scores.md"


async def test_commands_print_what_the_page_shows(
    shared_database: Database, chdb_dir: Path, chdb_settings: Callable[[], ClickHouseSettings], tmp_path: Path
) -> None:
    page = commands(PAGE)
    assert len([shown for _, shown in page if shown is not None]) == 4
    async with api_of_a_page(shared_database, chdb_settings(), data_dir=chdb_dir) as address:
        with stack_of_a_page(address, tmp_path / "data") as environment:
            await check_commands(page, environment=environment)


def test_page_names_members_and_limits() -> None:
    text = (DOCS / PAGE).read_text()

    assert re.findall(r"^\| `(\w+)` \|", text, re.MULTILINE)[: len(ScoreModel.model_fields)] == list(
        ScoreModel.model_fields
    )
    assert f"at most {SCORES_MAX:,} scores" in text
    assert f"1 to {NAME_LENGTH_MAX} characters" in text
