"""``DELETE /admin/projects/{project_id}``: nothing of the project is left, and nothing of another is touched."""

from __future__ import annotations

import asyncio
import os
import sys
from collections.abc import AsyncIterator
from datetime import timedelta
from pathlib import Path
from typing import Any
from uuid import UUID

import aiohttp
import pytest
from pydantic import SecretStr

from common.clickhouse.freeing import TABLES_OF_PROJECT
from common.clickhouse.settled_traces import (
    SETTLED_TRACES_TABLE,
    SettledTrace,
    SettlingReason,
    TraceName,
    settled_rows,
)
from common.clickhouse.store import ColumnStore
from common.ids import DEFAULT_PROJECT_ID
from common.postgres.keys import Keys
from common.postgres.leases import Kind, Leases
from common.postgres.pool import Database
from common.postgres.projects import PRESENT_FOR_S, Account, Projects, WantedAccount, open_accounts
from common.settings import Settings
from query_api.retention.rules import RetentionRecords
from tests.fakes.clock import ManualClock
from tests.fakes.kafka import MemoryBroker
from tests.support.api import context_of, serving
from tests.support.dead_letters import add_dead_letter
from tests.support.retention import DAY_US, NOW_US, RetentionWorld, SentSpan

ROOT = Path(__file__).parents[2]
ADMIN = {"Authorization": "Access admin"}

TABLES_WITH_PROJECT = """
SELECT table_name FROM information_schema.columns
WHERE table_schema = 'public' AND column_name = 'project_id'
"""
CASCADES = """
SELECT conrelid::regclass::text AS table_name, confrelid::regclass::text AS refers_to
FROM pg_constraint WHERE contype = 'f' AND confdeltype = 'c'
"""
OTHERS = """
SELECT conrelid::regclass::text AS table_name
FROM pg_constraint WHERE contype = 'f' AND confdeltype != 'c' AND confrelid::regclass::text != 'users'
"""


@pytest.fixture
async def broker() -> MemoryBroker:
    return MemoryBroker()


@pytest.fixture
async def client(store: ColumnStore, database: Database, broker: MemoryBroker) -> AsyncIterator[aiohttp.ClientSession]:
    context = context_of(
        broker=broker,
        settings=Settings(auth="on", admin_key=SecretStr("admin")),
        keys=Keys(database, ManualClock()),
        store=store,
        database=database,
    )
    async with serving(context) as session:
        yield session


async def accounts(database: Database) -> list[Account]:
    """Two projects, each with a key."""
    wanted = {name: WantedAccount(f"{name}@example.org", with_key=True) for name in ("kept", "deleted")}
    opened = await open_accounts(database, wanted)
    return [opened["kept"], opened["deleted"]]


def key_of(account: Account) -> dict[str, str]:
    assert account.key is not None
    return {"Authorization": account.key.text}


async def ask(client: aiohttp.ClientSession, method: str, path: str, headers: dict[str, str], **sent: Any) -> Any:
    async with client.request(method, path, headers=headers, **sent) as response:
        return response.status, await response.json()


async def rows_of(database: Database, project_id: UUID) -> dict[str, int]:
    """How many rows of a project each table of Postgres has."""
    found: dict[str, int] = {}
    for row in await database.fetch_all(TABLES_WITH_PROJECT):
        table = row["table_name"]
        counted = await database.fetch_one(f"SELECT count(*) AS count FROM {table} WHERE project_id = $1", project_id)
        assert counted is not None
        found[table] = counted["count"]
    return found


async def test_deleted_project_leaves_nothing(
    client: aiohttp.ClientSession, database: Database, store: ColumnStore
) -> None:
    opened = await accounts(database)
    worlds = [
        RetentionWorld(store, RetentionRecords(database), account.project.id, ManualClock()) for account in opened
    ]
    for number, (account, world) in enumerate(zip(opened, worlds, strict=True)):
        await world.send([SentSpan(1, 1, NOW_US - 40 * DAY_US), SentSpan(2, 2, NOW_US)])
        await ask(client, "POST", "/applications/", key_of(account), json={"application": {"slug": "app"}})
        await ask(client, "PUT", "/retention", key_of(account), json={"retention": {"max_age_days": 100}})
        await world.run()
        await add_dead_letter(store, number, project=str(account.project.id))
        name = TraceName(account.project.id, bytes(16))
        settled = settled_rows([SettledTrace(name, 1, 1, NOW_US, SettlingReason.COMPLETE)])
        await store.insert(SETTLED_TRACES_TABLE, settled, dedup_token=f"settled/{number}", deadline_s=60.0)
    before = await rows_of(database, opened[0].project.id)
    kept_id, deleted_id = (account.project.id for account in opened)

    path = f"/admin/projects/{deleted_id}"
    assert (await ask(client, "DELETE", path, key_of(opened[1])))[0] == 401
    assert await ask(client, "DELETE", path, ADMIN) == (
        200,
        {"count": 1, "project": {"id": str(deleted_id), "name": "deleted@example.org", "dead_letters": 1}},
    )
    assert (await ask(client, "DELETE", path, ADMIN))[0] == 404
    assert await Leases(database, 9).claim([Kind.RETENTION], full=[]), "the run begins at once"
    await worlds[0].retention.run()

    assert await rows_of(database, kept_id) == before
    assert set((await rows_of(database, deleted_id)).values()) == {0}
    assert [await worlds[1].rows(table) for table in TABLES_OF_PROJECT] == [0] * len(TABLES_OF_PROJECT)
    assert [await worlds[0].rows(table) for table in TABLES_OF_PROJECT] == [2, 2, 2, 0, 1, 0, 1, 1]
    left = (await ask(client, "GET", "/admin/dead-letters", ADMIN))[1]["dead_letters"]
    assert [each["project"] for each in left] == [str(kept_id)]


async def test_key_that_is_remembered_after_its_project_is_deleted_is_refused(
    client: aiohttp.ClientSession, database: Database
) -> None:
    """Its owner is known for seconds; what it writes refers to a project that is gone."""
    [_, deleted] = await accounts(database)
    await ask(client, "POST", "/applications/query", key_of(deleted), json={})
    await ask(client, "DELETE", f"/admin/projects/{deleted.project.id}", ADMIN)

    writes = [
        await ask(client, method, path, key_of(deleted), json=body)
        for method, path, body in (
            ("POST", "/applications/", {"application": {"slug": "late"}}),
            ("POST", "/simple/queries/", {"query": {"slug": "late", "data": {}}}),
            ("PUT", "/retention", {"retention": {"max_age_days": 100}}),
            ("PUT", "/masking", {"masking": {"rules": [{"value": "mine", "action": "drop"}]}}),
        )
    ]

    assert writes == [(401, {"detail": {"message": "Unauthorized"}})] * 4


async def test_spans_that_a_worker_stores_late_are_removed_and_then_the_project_is_forgotten(
    database: Database, store: ColumnStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    _, account = await accounts(database)
    world = RetentionWorld(store, RetentionRecords(database), account.project.id, ManualClock())
    await Projects(database, ManualClock()).delete(account.project.id)
    await world.run()
    await world.send([SentSpan(1, 1, NOW_US)])

    with world.freeing_at_once():
        await world.run()

    assert await world.rows() == 0
    assert account.project.id in await world.records.deleted_projects(is_final_after=timedelta(days=1))


@pytest.mark.parametrize(
    ("name", "status"),
    [("nonsense", 400), (str(DEFAULT_PROJECT_ID), 400), ("0190a000-0000-7000-8000-000000000abc", 404)],
)
async def test_project_that_cannot_be_deleted(client: aiohttp.ClientSession, name: str, status: int) -> None:
    assert (await ask(client, "DELETE", f"/admin/projects/{name}", ADMIN))[0] == status


async def clearspan(client: aiohttp.ClientSession, *arguments: str, reply: str = "") -> tuple[int | None, str]:
    """Run a command against the API; return its exit code and what it printed."""
    url = str(client._base_url).rstrip("/")
    environment = {name: value for name, value in os.environ.items() if not name.startswith("CLEARSPAN_")}
    process = await asyncio.create_subprocess_exec(
        sys.executable, "-m", "clearspan", "projects", *arguments, "--url", url, env=environment, cwd=ROOT,
        stdin=asyncio.subprocess.PIPE, stdout=asyncio.subprocess.PIPE, stderr=asyncio.subprocess.STDOUT,
    )  # fmt: skip
    printed, _ = await process.communicate(reply.encode())
    return process.returncode, printed.decode()


@pytest.mark.long
async def test_commands_ask_before_they_delete(client: aiohttp.ClientSession, database: Database) -> None:
    _, account = await accounts(database)
    project_id, key = str(account.project.id), key_of(account)["Authorization"]
    records = RetentionRecords(database)

    code, printed = await clearspan(client, "retention", "--max-age-days", "0", "--key", key, reply="n\n")
    assert (code, "deletes every trace" in printed) == (1, True)
    assert await records.find_rules(account.project.id) is None
    code, printed = await clearspan(client, "retention", "--max-age-days", "0", "--key", key, "--yes")
    assert code == 0, printed
    code, printed = await clearspan(client, "retention", "--key", key, "--remove", "--max-bytes", "1GB")
    assert (code, "--remove removes all rules" in printed) == (2, True)

    code, printed = await clearspan(client, "delete", project_id, "--admin-key", "admin", reply="\n")
    assert (code, "Nothing was changed" in printed) == (1, True)
    code, printed = await clearspan(client, "delete", project_id, "--admin-key", "wrong", "--yes")
    assert (code, "does not accept the admin key" in printed) == (1, True)
    code, printed = await clearspan(client, "delete", project_id, "--admin-key", "admin", "--yes")
    assert (code, printed) == (0, "Deleted the project deleted@example.org.\n")


async def test_workers_notice_that_a_project_is_deleted(database: Database) -> None:
    _, account = await accounts(database)
    clock = ManualClock()
    worker = Projects(database, clock)
    assert await worker.exists(account.project.id)

    await Projects(database, clock).delete(account.project.id)
    clock.advance(PRESENT_FOR_S + 1)

    assert not await worker.exists(account.project.id)


async def test_every_table_of_a_project_is_emptied_with_it(database: Database) -> None:
    """A new table of a project refers to ``projects``, or to a table that does, with ON DELETE CASCADE.

    Entries of the audit log stay: they say who deleted what (ADR 0023).
    """
    reached = {"projects"}
    cascades = [(row["table_name"], row["refers_to"]) for row in await database.fetch_all(CASCADES)]
    for _ in cascades:
        reached |= {table for table, refers_to in cascades if refers_to in reached}
    tables = {row["table_name"] for row in await database.fetch_all(TABLES_WITH_PROJECT)}

    assert tables - reached == {"audit_entries"}
    assert {row["table_name"] for row in await database.fetch_all(OTHERS)} & tables == set()
