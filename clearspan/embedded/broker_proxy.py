"""The door of the embedded broker: a gate before the Kafka protocol that can hold back what is produced.

The broker keeps its log in memory and cannot forget what was read, so it is renewed when it has grown too large
(``broker.py``). Nothing acknowledged may be lost then: the gate holds new produce requests back, waits until the ones
under way are answered, and lets go of every connection once the new broker stands; producers try again by themselves.

The gate is closed until somebody says that the topics are there: the broker acknowledges what is produced to a topic that it does
not have, and nobody can ever read it. While the log is drained one client passes, the worker: it cannot commit before its dead
letters are published.

Only the frame is understood: four bytes of length, then the api key (request) or the correlation id (response), and of produce
requests who sends them. Source: Kafka protocol guide, “Request and Response Headers”.
"""

from __future__ import annotations

import asyncio
import struct
from collections.abc import Iterable
from typing import Final

from clearspan.embedded.processes import LOOPBACK

PRODUCE: Final = 0
SETTLING_CLIENT: Final = "clearspan-worker"
"""The client id of who produces while the log is drained."""

FRAME_BYTES_MAX: Final = 128 * 1024 * 1024
UNANSWERED_MAX: Final = 1_000
"""Produce requests remembered a connection. Only a client that wants no acknowledgement has so many unanswered."""


class BrokerProxy:
    """Listens for clients, forwards frames to the broker behind it."""

    def __init__(self, *, broker_port: int) -> None:
        self._broker_port = broker_port
        self._admits = asyncio.Event()
        self._is_drained = False
        self._answered = asyncio.Condition()
        self._connections: list[_Connection] = []
        self._server: asyncio.Server | None = None

    async def listen(self, port: int) -> int:
        """Listen on loopback; returns the port."""
        self._server = await asyncio.start_server(self._serve, LOOPBACK, port)
        return int(self._server.sockets[0].getsockname()[1])

    def admit_produces(self) -> None:
        """Let produce requests pass: the topics are there."""
        self._is_drained = False
        self._admits.set()

    async def hold_produces(self, *, timeout_s: float) -> None:
        """Hold new produce requests back, but for those of ``SETTLING_CLIENT``. Of the others nothing is acknowledged any more when it
        returns: those under way are answered, or, after ``timeout_s``, the connections that wait for an answer are closed."""
        self._admits.clear()
        self._is_drained = True
        try:
            async with asyncio.timeout(timeout_s), self._answered:
                await self._answered.wait_for(lambda: not any(each.produces for each in self._connections))
        except TimeoutError:
            await _cut([each for each in self._connections if each.produces])

    async def turn_to(self, *, broker_port: int) -> None:
        """Send everybody away from the old broker, and those who come back to the new one; what they produce is held."""
        self._admits.clear()
        self._is_drained = False
        self._broker_port = broker_port
        await self.disconnect()

    async def disconnect(self) -> None:
        """Close every connection; clients come back by themselves."""
        await _cut(self._connections)

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
        # Tasks of its own, so that they can be cut off without the callback of the server.
        connection = _Connection()
        connection.forwards = {
            asyncio.create_task(self._requests(reader, upstream_writer, connection), name="front-requests"),
            asyncio.create_task(self._responses(upstream_reader, writer, connection), name="front-responses"),
        }
        self._connections.append(connection)
        await asyncio.wait(connection.forwards, return_when=asyncio.FIRST_COMPLETED)
        await _cut([connection])
        self._connections.remove(connection)
        await self._tell_answered()
        writer.close()
        upstream_writer.close()

    async def _requests(
        self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter, connection: _Connection
    ) -> None:
        while True:
            length = await _length(reader)
            head = await reader.readexactly(8)
            api_key, _version, correlation_id = struct.unpack(">hhi", head)
            if api_key == PRODUCE:
                head += await _client_id(reader, length - len(head))
                if not (self._is_drained and head.endswith(_SETTLING)):
                    await self._admits.wait()
                    connection.expect(correlation_id)
            writer.write(struct.pack(">i", length) + head)
            await _pipe(reader, writer, length - len(head))

    async def _responses(
        self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter, connection: _Connection
    ) -> None:
        while True:
            length = await _length(reader)
            head = await reader.readexactly(4)
            writer.write(struct.pack(">i", length) + head)
            await _pipe(reader, writer, length - 4)
            (correlation_id,) = struct.unpack(">i", head)
            if correlation_id in connection.produces:
                connection.produces.discard(correlation_id)
                await self._tell_answered()

    async def _tell_answered(self) -> None:
        async with self._answered:
            self._answered.notify_all()


class _Connection:
    """A client's connection: its two directions, and the produce requests that are under way on it, by correlation id."""

    def __init__(self) -> None:
        self.forwards: set[asyncio.Task[None]] = set()
        self.produces: set[int] = set()

    def expect(self, correlation_id: int) -> None:
        """A produce request is under way."""
        if len(self.produces) >= UNANSWERED_MAX:
            self.produces.clear()
        self.produces.add(correlation_id)


async def _cut(connections: Iterable[_Connection]) -> None:
    """Nothing passes on these connections any more when it returns."""
    forwards = [forward for each in connections for forward in each.forwards]
    for forward in forwards:
        forward.cancel()
    await asyncio.gather(*forwards, return_exceptions=True)


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


async def _client_id(reader: asyncio.StreamReader, left: int) -> bytes:
    """The client id of a request, of which so many bytes are left, as it lies on the wire: two bytes of length before it."""
    if left < 2:
        raise _Closed
    length = await reader.readexactly(2)
    (size,) = struct.unpack(">h", length)
    if size > left - 2:
        raise _Closed
    return length + await reader.readexactly(max(size, 0))


_SETTLING: Final = struct.pack(">h", len(SETTLING_CLIENT)) + SETTLING_CLIENT.encode()


async def _pipe(reader: asyncio.StreamReader, writer: asyncio.StreamWriter, count: int) -> None:
    while count > 0:
        piece = await reader.read(min(count, 256 * 1024))
        if not piece:
            raise _Closed
        writer.write(piece)
        await writer.drain()
        count -= len(piece)
    await writer.drain()
