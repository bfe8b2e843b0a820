"""A proxy between clients and the embedded broker, on the level of the Kafka protocol. It does three things:

- It holds produce requests back while the broker is replaced (``broker.py``), and lets nobody produce before the topics
  exist: the broker acknowledges records of unknown topics and loses them. While the old broker is drained, the worker
  may still produce, because it cannot commit before its dead letters are published.
- It moves clients from the old broker to the new one, by closing their connections: clients reconnect by themselves.
- It corrects the broker's answers to ListOffsets (``list_offsets.py``), so that clients need not know them.

Of all other messages it reads only the frame: four bytes of length, then the API key and the correlation id.
Source: Kafka protocol guide, "Request and Response Headers".
"""

from __future__ import annotations

import asyncio
import struct
from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Final

from clearspan.embedded.list_offsets import LIST_OFFSETS, LatestOffsets, fetch_high_watermarks
from clearspan.embedded.ports import LOOPBACK

PRODUCE: Final = 0
DRAINING_CLIENT: Final = "clearspan-worker"
"""The client id that may produce while the broker is drained."""

FRAME_BYTES_MAX: Final = 128 * 1024 * 1024
UNANSWERED_MAX: Final = 1_000
"""Maximum of unanswered requests that are remembered per connection. Only a client that wants no acknowledgements
reaches it.
"""


@dataclass(eq=False, slots=True)
class _Connection:
    """A client's connection: the tasks of its two directions, and its unanswered requests by correlation id."""

    forwards: set[asyncio.Task[None]] = field(default_factory=set)
    produces: set[int] = field(default_factory=set)
    list_offsets: dict[int, LatestOffsets] = field(default_factory=dict)


class BrokerProxy:
    """Listens for clients and forwards frames to the broker of the last ``turn_to``."""

    def __init__(self) -> None:
        self._broker_port = 0
        self._admits = asyncio.Event()
        self._is_drained = False
        self._answered = asyncio.Condition()
        self._connections: list[_Connection] = []
        self._server: asyncio.Server | None = None

    async def listen(self, port: int) -> int:
        """Listen on loopback (0: any free port); return the port."""
        self._server = await asyncio.start_server(self._serve, LOOPBACK, port)
        return int(self._server.sockets[0].getsockname()[1])

    def admit_produces(self) -> None:
        """Forward produce requests. To be called once the topics exist."""
        self._is_drained = False
        self._admits.set()

    async def hold_produces(self, *, timeout_s: float) -> None:
        """Hold new produce requests back, except those of ``DRAINING_CLIENT``.

        Returns when every earlier produce request is answered. After ``timeout_s``, connections that still wait for an
        answer are closed, so no other record is acknowledged after the return.
        """
        self._admits.clear()
        self._is_drained = True
        try:
            async with asyncio.timeout(timeout_s), self._answered:
                await self._answered.wait_for(lambda: not any(open_.produces for open_ in self._connections))
        except TimeoutError:
            await _cut([connection for connection in self._connections if connection.produces])

    async def turn_to(self, *, broker_port: int) -> None:
        """Close all connections and forward new ones to another broker; hold what they produce."""
        self._admits.clear()
        self._is_drained = False
        self._broker_port = broker_port
        await _cut(self._connections)

    async def close(self) -> None:
        """Stop listening and close every connection. Safe to call twice."""
        if self._server is not None:
            self._server.close()
        await _cut(self._connections)

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            upstream_reader, upstream_writer = await asyncio.open_connection(LOOPBACK, self._broker_port)
        except OSError:
            writer.close()
            return
        connection = _Connection()
        # Separate tasks, so that they can be cancelled without this callback of the server.
        connection.forwards = {
            asyncio.create_task(self._forward_requests(reader, upstream_writer, connection), name="proxy-requests"),
            asyncio.create_task(self._forward_responses(upstream_reader, writer, connection), name="proxy-responses"),
        }
        self._connections.append(connection)
        await asyncio.wait(connection.forwards, return_when=asyncio.FIRST_COMPLETED)
        await _cut([connection])
        self._connections.remove(connection)
        await self._notify_answered()
        writer.close()
        upstream_writer.close()

    async def _forward_requests(
        self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter, connection: _Connection
    ) -> None:
        while True:
            length = await _length(reader)
            head = await reader.readexactly(8)
            api_key, _version, correlation_id = struct.unpack(">hhi", head)
            if api_key == PRODUCE:
                head += await _client_id(reader, length - len(head))
                if not (self._is_drained and head.endswith(_DRAINING_CLIENT_ID)):
                    await self._admits.wait()
                    if len(connection.produces) >= UNANSWERED_MAX:
                        connection.produces.clear()
                    connection.produces.add(correlation_id)
            elif api_key == LIST_OFFSETS:
                head += await reader.readexactly(length - len(head))
                if (offsets := LatestOffsets.of(head)).partitions:
                    connection.list_offsets[correlation_id] = offsets
            writer.write(struct.pack(">i", length) + head)
            await _pipe(reader, writer, length - len(head))

    async def _forward_responses(
        self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter, connection: _Connection
    ) -> None:
        while True:
            length = await _length(reader)
            head = bytearray(await reader.readexactly(4))
            (correlation_id,) = struct.unpack(">i", head)
            if (offsets := connection.list_offsets.pop(correlation_id, None)) is not None:
                head += await reader.readexactly(length - len(head))
                offsets.correct(head, await fetch_high_watermarks(self._broker_port, offsets.partitions))
            writer.write(struct.pack(">i", length) + head)
            await _pipe(reader, writer, length - len(head))
            if correlation_id in connection.produces:
                connection.produces.discard(correlation_id)
                await self._notify_answered()

    async def _notify_answered(self) -> None:
        async with self._answered:
            self._answered.notify_all()


async def _cut(connections: Iterable[_Connection]) -> None:
    """Stop forwarding on these connections; nothing passes after the return."""
    forwards = [forward for connection in connections for forward in connection.forwards]
    for forward in forwards:
        forward.cancel()
    await asyncio.gather(*forwards, return_exceptions=True)


class _Closed(Exception):
    """The peer closed the connection, or sent something that is not a frame."""


async def _length(reader: asyncio.StreamReader) -> int:
    try:
        (length,) = struct.unpack(">i", await reader.readexactly(4))
    except asyncio.IncompleteReadError:
        raise _Closed from None
    if not 4 <= length <= FRAME_BYTES_MAX:
        raise _Closed
    return int(length)


async def _client_id(reader: asyncio.StreamReader, bytes_left: int) -> bytes:
    """Read the client id of a request as it is on the wire: two bytes of length, then the text."""
    if bytes_left < 2:
        raise _Closed
    length = await reader.readexactly(2)
    (size,) = struct.unpack(">h", length)
    if size > bytes_left - 2:
        raise _Closed
    return length + await reader.readexactly(max(size, 0))


_DRAINING_CLIENT_ID: Final = struct.pack(">h", len(DRAINING_CLIENT)) + DRAINING_CLIENT.encode()


async def _pipe(reader: asyncio.StreamReader, writer: asyncio.StreamWriter, count: int) -> None:
    while count > 0:
        piece = await reader.read(min(count, 256 * 1024))
        if not piece:
            raise _Closed
        writer.write(piece)
        await writer.drain()
        count -= len(piece)
    await writer.drain()
