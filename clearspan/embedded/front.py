"""The door of the embedded broker: a gate before the Kafka protocol that can hold back what is produced.

The broker keeps its log in memory and cannot forget what was read, so it is renewed when it has grown too large
(``broker.py``). Nothing acknowledged may be lost then: the gate holds new produce requests back, waits until the ones
under way are answered, and lets go of every connection once the new broker stands; producers try again by themselves.

Only the frame is understood: four bytes of length, then the api key (request) or the correlation id (response).
Source: Kafka protocol guide, “Request and Response Headers”.
"""

from __future__ import annotations

import asyncio
import struct
from contextlib import suppress
from typing import Final

from clearspan.embedded.processes import LOOPBACK

PRODUCE: Final = 0
FRAME_BYTES_MAX: Final = 128 * 1024 * 1024
UNANSWERED_MAX: Final = 1_000
"""Produce requests remembered a connection. Only a client that wants no acknowledgement has so many unanswered."""


class Front:
    """Listens for clients, forwards frames to the broker behind it."""

    def __init__(self, *, broker_port: int) -> None:
        self._broker_port = broker_port
        self._open = asyncio.Event()
        self._open.set()
        self._answered = asyncio.Condition()
        self._produces_under_way = 0
        self._connections: list[set[asyncio.Task[None]]] = []
        self._server: asyncio.Server | None = None

    async def listen(self, port: int) -> int:
        """Listen on loopback; returns the port."""
        self._server = await asyncio.start_server(self._serve, LOOPBACK, port)
        return int(self._server.sockets[0].getsockname()[1])

    async def hold_produces(self, *, timeout_s: float) -> None:
        """Hold new produce requests back; returns when the ones under way are answered, or after ``timeout_s``."""
        self._open.clear()
        with suppress(TimeoutError):
            async with asyncio.timeout(timeout_s), self._answered:
                await self._answered.wait_for(lambda: self._produces_under_way == 0)

    async def reopen(self, *, broker_port: int) -> None:
        """Send everybody away from the old broker and let them in to the new one."""
        self._broker_port = broker_port
        await self.disconnect()
        self._open.set()

    async def disconnect(self) -> None:
        """Close every connection; clients come back by themselves."""
        tasks = [task for forwards in self._connections for task in forwards]
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)

    async def close(self) -> None:
        """Stop listening and close every connection. Safe to call twice."""
        if self._server is not None:
            self._server.close()
        await self.disconnect()

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            upstream_reader, upstream_writer = await asyncio.open_connection(LOOPBACK, self._broker_port)
        except OSError:
            writer.close()
            return
        produces: set[int] = set()
        # Tasks of its own, so that `disconnect` cancels them and not the callback of the server.
        forwards = {
            asyncio.create_task(self._requests(reader, upstream_writer, produces), name="front-requests"),
            asyncio.create_task(self._responses(upstream_reader, writer, produces), name="front-responses"),
        }
        self._connections.append(forwards)
        await asyncio.wait(forwards, return_when=asyncio.FIRST_COMPLETED)
        for task in forwards:
            task.cancel()
        await asyncio.gather(*forwards, return_exceptions=True)
        self._connections.remove(forwards)
        await self._settle(len(produces))
        writer.close()
        upstream_writer.close()

    async def _requests(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter, produces: set[int]) -> None:
        while True:
            length = await _length(reader)
            head = await reader.readexactly(8)
            api_key, _version, correlation_id = struct.unpack(">hhi", head)
            if api_key == PRODUCE:
                await self._open.wait()
                if len(produces) >= UNANSWERED_MAX:
                    await self._settle(len(produces))
                    produces.clear()
                produces.add(correlation_id)
                self._produces_under_way += 1
            writer.write(struct.pack(">i", length) + head)
            await _pipe(reader, writer, length - 8)

    async def _responses(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter, produces: set[int]) -> None:
        while True:
            length = await _length(reader)
            head = await reader.readexactly(4)
            writer.write(struct.pack(">i", length) + head)
            await _pipe(reader, writer, length - 4)
            (correlation_id,) = struct.unpack(">i", head)
            if correlation_id in produces:
                produces.discard(correlation_id)
                await self._settle(1)

    async def _settle(self, count: int) -> None:
        self._produces_under_way -= count
        async with self._answered:
            self._answered.notify_all()


class _Closed(Exception):
    """The peer has closed the connection between two frames."""


async def _length(reader: asyncio.StreamReader) -> int:
    try:
        (length,) = struct.unpack(">i", await reader.readexactly(4))
    except asyncio.IncompleteReadError:
        raise _Closed from None
    if not 4 <= length <= FRAME_BYTES_MAX:
        raise _Closed
    return int(length)


async def _pipe(reader: asyncio.StreamReader, writer: asyncio.StreamWriter, count: int) -> None:
    while count > 0:
        piece = await reader.read(min(count, 256 * 1024))
        if not piece:
            raise _Closed
        writer.write(piece)
        await writer.drain()
        count -= len(piece)
    await writer.drain()
