"""An API that is killed during changes leaves no change without an entry, and no entry of a change that is not there."""

from __future__ import annotations

import asyncio
import signal
from itertools import count
from pathlib import Path
from uuid import uuid4

import aiohttp
import pytest

from common.ids import DEFAULT_PROJECT_ID
from common.postgres.audit import AuditFilter, AuditLog, AuditOutcome
from common.postgres.pool import Database
from common.settings import PostgresSettings
from tests.support.api_process import killable_api

WRITERS = 8
DONE_MIN = 60


async def _write_until_killed(address: str, done: asyncio.Semaphore) -> None:
    async with aiohttp.ClientSession(address) as client:
        for number in count():
            slug = f"{number}-{uuid4().hex}"
            try:
                async with client.post("/queries/", json={"query": {"slug": slug}}) as response:
                    assert response.status == 200, await response.text()
            except aiohttp.ClientError:
                return
            done.release()


@pytest.mark.parametrize("round_number", range(2))
async def test_no_change_is_without_an_entry(
    database: Database, database_settings: PostgresSettings, tmp_path: Path, round_number: int
) -> None:
    done = asyncio.Semaphore(0)
    with killable_api(database_settings, tmp_path / "api.log") as (address, process):
        writing = [asyncio.create_task(_write_until_killed(address, done)) for _ in range(WRITERS)]
        for _ in range(DONE_MIN + 7 * round_number):
            await done.acquire()
        process.send_signal(signal.SIGKILL)
        await asyncio.gather(*writing)

    rows = await database.fetch_all("SELECT id::text AS id FROM artifacts WHERE kind = 'query'")
    made = {row["id"] for row in rows}
    entries = await AuditLog(database).read(AuditFilter(DEFAULT_PROJECT_ID, operation="create_query"), count_max=10_000)
    recorded = {entity["id"] for entry in entries for entity in entry.entities}
    unknown = [entry for entry in entries if entry.outcome is AuditOutcome.UNKNOWN]
    assert len(made) >= DONE_MIN
    assert recorded <= made, "an entry says what was not done"
    assert len(made - recorded) <= len(unknown), "a change has no entry"
    assert {entry.outcome for entry in entries} <= {AuditOutcome.DONE, AuditOutcome.UNKNOWN}
