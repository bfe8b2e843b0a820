"""A Postgres that can be unavailable: a proxy between it and its clients forwards bytes or refuses connections."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from urllib.parse import parse_qs, urlsplit

from common.settings import PostgresSettings
from tests.support.ports import free_port


class Switch:
    """Forwards connections to a Unix socket while it is on."""

    def __init__(self, socket_path: str) -> None:
        self.port = free_port()
        self._socket_path = socket_path
        self._server: asyncio.Server | None = None
        self._open: set[asyncio.StreamWriter] = set()

    async def on(self) -> None:
        """Accept connections."""
        self._server = await asyncio.start_server(self._forward, "127.0.0.1", self.port)

    async def off(self) -> None:
        """Close every connection and refuse new ones."""
        if self._server is not None:
            self._server.close()
            self._server = None
        for writer in self._open:
            writer.transport.abort()
        self._open.clear()

    async def _forward(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        there, back = await asyncio.open_unix_connection(self._socket_path)
        self._open |= {writer, back}
        await asyncio.gather(_pump(reader, back), _pump(there, writer))
        self._open -= {writer, back}


async def _pump(source: asyncio.StreamReader, target: asyncio.StreamWriter) -> None:
    with suppress(ConnectionError):
        while data := await source.read(65_536):
            target.write(data)
            await target.drain()
    target.close()


@asynccontextmanager
async def switchable(settings: PostgresSettings) -> AsyncIterator[tuple[Switch, PostgresSettings]]:
    """A proxy that accepts connections, and the settings of a client that uses it."""
    parts = urlsplit(settings.dsn.get_secret_value())
    (directory,) = parse_qs(parts.query)["host"]
    switch = Switch(f"{directory}/.s.PGSQL.5432")
    await switch.on()
    try:
        dsn = f"postgresql://{parts.username}@127.0.0.1:{switch.port}{parts.path}"
        yield switch, PostgresSettings.model_validate({"dsn": dsn, "timeout_s": 2})
    finally:
        await switch.off()
