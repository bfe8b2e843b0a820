"""TLS before a real Postgres, whose build for tests has none: what a server does with an SSLRequest, then bytes."""

from __future__ import annotations

import asyncio
import ssl
import struct
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from pathlib import Path

SSL_REQUEST = struct.pack("!ii", 8, 80_877_103)
"""https://www.postgresql.org/docs/current/protocol-message-formats.html"""


class TlsProxy:
    """Listens on the loopback interface; ``users`` are the common names of the certificates of its clients."""

    def __init__(self, socket: Path, context: ssl.SSLContext) -> None:
        self.users: list[str] = []
        self._socket = socket
        self._context = context

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        with suppress(OSError, asyncio.IncompleteReadError):
            assert await reader.readexactly(len(SSL_REQUEST)) == SSL_REQUEST, "a client that does not ask for TLS"
            writer.write(b"S")
            await writer.start_tls(self._context)
            subject = dict(field[0] for field in writer.get_extra_info("peercert")["subject"])
            self.users.append(subject["commonName"])
            from_server, to_server = await asyncio.open_unix_connection(str(self._socket))
            await asyncio.gather(_copy(reader, to_server), _copy(from_server, writer))
        writer.close()


async def _copy(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    try:
        while data := await reader.read(65_536):
            writer.write(data)
            await writer.drain()
    finally:
        writer.close()


@asynccontextmanager
async def postgres_over_tls(socket: Path, *, certificate: Path, authority: Path) -> AsyncIterator[tuple[TlsProxy, int]]:
    """Yield a proxy to the server at a Unix socket, and its port."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(certificate)
    context.verify_mode = ssl.CERT_REQUIRED
    context.load_verify_locations(authority)
    proxy = TlsProxy(socket, context)
    server = await asyncio.start_server(proxy.serve, "127.0.0.1", 0)
    async with server:
        yield proxy, server.sockets[0].getsockname()[1]
