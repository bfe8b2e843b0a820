"""The API is killed between any two statements that write a history: afterwards everything is stored, or nothing."""

from __future__ import annotations

import asyncio
import json
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Final
from uuid import uuid4

import pytest

from common.ids import DEFAULT_PROJECT_ID
from common.postgres.pool import Database
from common.settings import PostgresSettings
from query_api.registry.store import Lineage, Owner
from query_api.registry.values import CommitTarget, Content, Header, Kind, Variant
from query_api.request.references import Reference

ROOT: Final = Path(__file__).parents[2]
COUNTS: Final = """
SELECT (SELECT count(*) FROM artifacts) AS artifacts, (SELECT count(*) FROM variants) AS variants,
    (SELECT count(*) FROM revisions) AS revisions
"""
OTHERS_AT_WORK: Final = """
SELECT 1 FROM pg_stat_activity WHERE datname = current_database() AND pid <> pg_backend_pid() AND xact_start IS NOT NULL LIMIT 1
"""


class DyingApi:
    """A client of ``tests/support/dying_api.py``, line by line."""

    def __init__(self, process: subprocess.Popen[str]) -> None:
        self._process = process

    def ask(self, path: str, body: Any, *, dies_at: int) -> dict[str, Any]:
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        case = {"method": "POST", "path": path, "body": body, "dies_at": dies_at}
        self._process.stdin.write(json.dumps(case) + "\n")
        self._process.stdin.flush()
        answer: dict[str, Any] = json.loads(self._process.stdout.readline())
        return answer


@contextmanager
def dying_api(settings: PostgresSettings) -> Iterator[DyingApi]:
    command = [sys.executable, "-m", "tests.support.dying_api", settings.dsn.get_secret_value()]
    pipe = subprocess.PIPE
    with subprocess.Popen(command, cwd=ROOT, stdin=pipe, stdout=pipe, stderr=subprocess.DEVNULL, text=True) as process:
        yield DyingApi(process)
        assert process.stdin is not None
        process.stdin.close()


@pytest.fixture(scope="module")
def api(shared_postgres: PostgresSettings) -> Iterator[DyingApi]:
    with dying_api(shared_postgres) as api:
        yield api


@pytest.fixture
def lineage(shared_database: Database) -> Lineage:
    return Lineage(shared_database, Kind.APPLICATION, Owner(DEFAULT_PROJECT_ID, uuid4()))


async def branch(lineage: Lineage) -> Variant:
    """A new variant with three revisions."""
    artifact = await lineage.create_artifact(f"app-{uuid4()}", header=Header(), flags="{}")
    variant = await lineage.create_variant(artifact.id, f"main-{uuid4()}", header=Header())
    assert variant is not None
    for _ in range(3):
        await lineage.commit(CommitTarget(variant.id), Content(Header(), data='{"script":"s"}'))
    return variant


async def counts(database: Database) -> list[int]:
    """Return the rows of each layer, after Postgres has rolled back every killed transaction."""
    async with asyncio.timeout(120):
        while await database.fetch_one(OTHERS_AT_WORK) is not None:  # noqa: ASYNC110 - the server sends no event
            await asyncio.sleep(0.01)
    row = await database.fetch_one(COUNTS)
    assert row is not None
    return [row["artifacts"], row["variants"], row["revisions"]]


async def outcomes(api: DyingApi, database: Database, path: str, body: Any, *, all_of_it: list[int]) -> list[str]:
    """Return what is stored after each crash, from before the first statement to after the last: ``nothing`` or ``all``."""
    seen: list[str] = []
    while True:
        before = await counts(database)
        answer = await asyncio.to_thread(api.ask, path, body(), dies_at=len(seen))
        added = [now - then for now, then in zip(await counts(database), before, strict=True)]
        assert added in ([0, 0, 0], all_of_it), f"half of it after step {len(seen)}: {added}"
        if answer["status"] is not None:
            assert (answer["status"], added) == (200, all_of_it)
            return seen
        seen.append("all" if added == all_of_it else "nothing")


async def test_killed_create_leaves_everything_or_nothing(api: DyingApi, shared_database: Database):
    def body() -> Any:
        return {"application": {"slug": f"s-{uuid4()}", "data": {"script": "s"}}}

    seen = await outcomes(api, shared_database, "/simple/applications/", body, all_of_it=[1, 1, 2])

    # begin, artifact, variant, revisions 0 and 1, the answer, commit; and after the commit
    assert seen == ["nothing"] * 7 + ["all"]


async def test_killed_fork_leaves_everything_or_nothing(api: DyingApi, shared_database: Database, lineage: Lineage):
    source = await branch(lineage)

    def body() -> Any:
        return {
            "application_variant": {"slug": f"f-{uuid4()}"},
            "application_variant_ref": {"id": str(source.id)},
            "application_revision_ref": {"version": "1"},
        }

    seen = await outcomes(api, shared_database, "/applications/variants/fork", body, all_of_it=[0, 1, 2])

    # the source, its variant again, the cut; the fork itself is one statement
    assert seen == ["nothing"] * 4


@pytest.mark.parametrize(
    ("change", "steps"),
    [({"data": {"script": "t"}}, ["nothing"]), ({"delta": {"set": {"script": "t"}}}, ["nothing"] * 5 + ["all"])],
)
async def test_killed_commit_leaves_everything_or_nothing(
    api: DyingApi, shared_database: Database, lineage: Lineage, change: Any, steps: list[str]
):
    target = await branch(lineage)
    body = {"application_revision": {"variant_id": str(target.id), **change}}

    seen = await outcomes(api, shared_database, "/applications/revisions/commit", lambda: body, all_of_it=[0, 0, 1])

    assert seen == steps
    versions = [each.version for each in await lineage.log(target.id)]
    assert versions == list(range(len(versions) - 1, -1, -1))
    found = await lineage.find(Variant, Reference(target.id))
    assert found is not None
    assert found.revisions_count == len(versions)
