"""A real Postgres for the tests of a run, and a migrated database for each test that needs one."""

from __future__ import annotations

import asyncio
import tempfile
from collections.abc import AsyncIterator, Iterator
from pathlib import Path

import pytest

from common.postgres.pool import Database, open_database
from common.settings import PostgresSettings
from tests.support.postgres import PostgresServer, postgres_server
from tests.support.process_guard import ProcessGuard


@pytest.fixture(scope="session")
def postgres(process_guard: ProcessGuard) -> Iterator[PostgresServer]:
    """The server.

    Not below pytest's directory: as root the server runs as another user, and the next pytest on the machine makes that
    directory inaccessible.
    """
    with tempfile.TemporaryDirectory(prefix="clearspan-tests-") as directory:
        process_guard.remove_directory(Path(directory))
        with postgres_server(Path(directory) / "data") as server:
            yield server


@pytest.fixture
async def postgres_settings(postgres: PostgresServer) -> PostgresSettings:
    """Settings of an empty database."""
    return await postgres.fresh_database()


@pytest.fixture
async def database_settings(postgres: PostgresServer) -> PostgresSettings:
    """Settings of a migrated database with the default project."""
    return await postgres.migrated_database()


@pytest.fixture
async def database(database_settings: PostgresSettings) -> AsyncIterator[Database]:
    """That database, opened."""
    async with open_database(database_settings) as opened:
        yield opened


@pytest.fixture(scope="module")
def shared_postgres(postgres: PostgresServer) -> PostgresSettings:
    """One migrated database for all tests of a module; each test creates its own projects."""
    with asyncio.Runner() as runner:
        return runner.run(postgres.migrated_database())


@pytest.fixture
async def shared_database(shared_postgres: PostgresSettings) -> AsyncIterator[Database]:
    """The database of the module, opened for one test."""
    async with open_database(shared_postgres) as opened:
        yield opened
