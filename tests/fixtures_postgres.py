"""A real Postgres for the tests of a run, and a migrated database for each that asks."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Iterator

import pytest

from common.postgres.migrate import migrate
from common.postgres.pool import Database, open_database
from common.project import DEFAULT_PROJECT_ID
from common.settings import PostgresSettings
from tests.support.postgres import PostgresServer, postgres_server


@pytest.fixture(scope="session")
def postgres(tmp_path_factory: pytest.TempPathFactory) -> Iterator[PostgresServer]:
    """The server."""
    with postgres_server(tmp_path_factory.mktemp("pg") / "data") as server:
        yield server


@pytest.fixture
async def postgres_settings(postgres: PostgresServer) -> PostgresSettings:
    """Settings of an empty database."""
    return await postgres.fresh_database()


@pytest.fixture
async def database(postgres_settings: PostgresSettings) -> AsyncIterator[Database]:
    """A migrated database with the default project."""
    await migrate(postgres_settings, default_project_id=DEFAULT_PROJECT_ID)
    async with open_database(postgres_settings) as opened:
        yield opened


@pytest.fixture(scope="module")
def shared_postgres(postgres: PostgresServer) -> PostgresSettings:
    """One migrated database for all tests of a module: each makes projects of its own in it."""

    async def make() -> PostgresSettings:
        settings = await postgres.fresh_database()
        await migrate(settings, default_project_id=DEFAULT_PROJECT_ID)
        return settings

    with asyncio.Runner() as runner:
        return runner.run(make())


@pytest.fixture
async def shared_database(shared_postgres: PostgresSettings) -> AsyncIterator[Database]:
    """The database of the module, opened for one test."""
    async with open_database(shared_postgres) as opened:
        yield opened
