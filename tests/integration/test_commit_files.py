"""How many files a reader of a commit has to know: those with functions that one request runs."""

from __future__ import annotations

import sys
from pathlib import Path
from types import FrameType

from common.postgres.pool import open_database
from common.settings import PostgresSettings
from tests.support.history import clients_of

ROOT = Path(__file__).parents[2]
PACKAGES = ("clearspan", "common", "ingest", "query_api")
FILES_MAX = 16
OF_THE_LOG = {"common/telemetry.py", "common/printable.py"}
"""Entered only if an earlier test has configured logging."""


async def test_a_commit_runs_few_files(database_settings: PostgresSettings) -> None:
    entered: set[str] = set()

    def note(frame: FrameType, event: str, _argument: object) -> None:
        if event == "call" and frame.f_code.co_filename.startswith(str(ROOT)):
            path = frame.f_code.co_filename.removeprefix(f"{ROOT}/")
            if path.startswith(PACKAGES):
                entered.add(path)

    async with open_database(database_settings) as database, clients_of(database) as (client,):
        _, variant, _ = await client.branch(commits=2)
        sys.setprofile(note)
        try:
            await client.commit(variant["id"], message="third", data={"parameters": {"prompt": "3"}})
        finally:
            sys.setprofile(None)

    entered -= OF_THE_LOG
    assert len(entered) <= FILES_MAX, "\n".join(sorted(entered))
