"""How many files a reader of a commit has to know: those with functions that one request runs."""

from __future__ import annotations

from common.postgres.pool import open_database
from common.settings import PostgresSettings
from tests.support.history import clients_of
from tests.support.steps import files_entered

FILES_MAX = 16
OF_THE_LOG = {"common/telemetry.py", "common/printable.py"}
"""Entered only if an earlier test has configured logging."""


async def test_a_commit_runs_few_files(database_settings: PostgresSettings) -> None:
    async with open_database(database_settings) as database, clients_of(database) as (client,):
        _, variant, _ = await client.branch(commits=2)
        with files_entered() as entered:
            await client.commit(variant["id"], message="third", data={"parameters": {"prompt": "3"}})

    entered -= OF_THE_LOG
    assert 10 < len(entered) <= FILES_MAX, "\n".join(sorted(entered))
