"""An API or a Postgres that is killed during changes leaves no change without an entry, and no entry of a change that is not there."""

from __future__ import annotations

import asyncio
import signal
from contextlib import suppress
from itertools import count
from pathlib import Path
from uuid import uuid4

import aiohttp
import psutil
import pytest

from clearspan.embedded.postgres import EmbeddedPostgres
from common.errors import ServiceError
from common.ids import DEFAULT_PROJECT_ID, DEFAULT_USER_ID
from common.postgres.audit import AuditActor, AuditFilter, AuditLog, AuditOutcome, AuditSubject, BegunWrite
from common.postgres.migrate import migrate
from common.postgres.pool import Database, open_database
from common.settings import PostgresSettings
from query_api.registry.store import Lineage, Owner
from query_api.registry.values import Header, Kind
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


async def test_no_change_in_postgres_outlives_its_entry_when_postgres_is_killed(tmp_path: Path) -> None:
    """The entry does not wait for the disk, but the change that follows it does."""
    postgres = await asyncio.to_thread(EmbeddedPostgres, tmp_path / "postgres")
    settings = PostgresSettings.model_validate({"dsn": postgres.dsn})
    await migrate(settings, default_project_id=DEFAULT_PROJECT_ID)
    confirmed, done = list[str](), asyncio.Semaphore(0)
    async with open_database(settings) as database:
        writing = [asyncio.create_task(_change_until_killed(database, confirmed, done)) for _ in range(WRITERS)]
        for _ in range(DONE_MIN):
            await done.acquire()
        server = psutil.Process(postgres.child.pid)
        ended = [server, *server.children(recursive=True)]
        for process in ended:
            with suppress(psutil.NoSuchProcess):
                process.kill()
        await asyncio.gather(*writing)
        await asyncio.to_thread(psutil.wait_procs, ended)

    await asyncio.to_thread(postgres._server.ensure_postgres_running)
    try:
        async with open_database(settings) as database:
            rows = await database.fetch_all("SELECT slug FROM artifacts WHERE kind = 'query'")
            entries = await AuditLog(database).read(AuditFilter(DEFAULT_PROJECT_ID), count_max=100_000)
    finally:
        await asyncio.to_thread(postgres.stop)
    made = {row["slug"] for row in rows}
    assert set(confirmed) <= made, "a change was lost"
    assert made <= {entry.request_id for entry in entries}, "a change has no entry"


async def _change_until_killed(database: Database, confirmed: list[str], done: asyncio.Semaphore) -> None:
    log = AuditLog(database)
    lineage = Lineage(database, Kind.QUERY, Owner(DEFAULT_PROJECT_ID, DEFAULT_USER_ID))
    subject = AuditSubject(DEFAULT_PROJECT_ID, AuditActor.NOBODY, "create_query")
    with suppress(ServiceError):
        while True:
            slug = uuid4().hex
            await log.begin([BegunWrite(subject, slug, [], is_in_postgres=True)])
            await lineage.create_artifact(slug, header=Header(), flags="{}")
            confirmed.append(slug)
            done.release()
