"""Connections: frames in, responses out, one request of a connection after the other, with bounded memory."""

from __future__ import annotations

import asyncio
import json
import signal
import struct
import sys
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from clearspan.embedded.broker_server.broker import Broker
from clearspan.embedded.broker_server.messages import API_VERSIONS, APIS, PRODUCE, Error
from clearspan.embedded.broker_server.store import Store, StoreSettings, sync_all
from clearspan.embedded.broker_server.wire import Api, InvalidMessage, Message, Reader, layout_of, write_message

HOST: Final = "127.0.0.1"
TICK_S: Final = 0.2
"""How often files are synced, old records deleted and lost members removed."""

_HEAD: Final = struct.Struct(">hhi")


@dataclass(frozen=True, slots=True)
class ConnectionLimits:
    """What clients may take."""

    frame_bytes: int = 1024 * 1024
    """The largest request, except for produce requests."""
    produce_bytes: int = 100 * 1024 * 1024
    small_bytes: int = 64 * 1024
    """Requests and responses up to this size do not count against ``memory_bytes``."""
    memory_bytes: int = 128 * 1024 * 1024
    """All large requests together that are in memory, and as much for the responses."""
    connections: int = 1_000
    transfer_s: float = 60.0
    """How long a client may take to send a request that it has begun, or to receive a response."""


class MemoryBudget:
    """Bytes that several connections share; the first that asks is served first."""

    def __init__(self, limits: ConnectionLimits) -> None:
        self._limits = limits
        self._used = 0
        self._changed = asyncio.Condition()

    @asynccontextmanager
    async def use(self, size: int) -> AsyncIterator[None]:
        """Wait until ``size`` bytes are free, or nothing is used, and use them."""
        if size <= self._limits.small_bytes:
            yield
            return
        async with self._changed:
            await self._changed.wait_for(lambda: not self._used or self._used + size <= self._limits.memory_bytes)
            self._used += size
        try:
            yield
        finally:
            self._used -= size
            async with self._changed:
                self._changed.notify_all()


class BrokerServer:
    """Listens on loopback and lets a broker answer."""

    def __init__(self, store: Store, limits: ConnectionLimits | None = None) -> None:
        self._store = store
        self._limits = limits or ConnectionLimits()
        self._requests, self._responses = MemoryBudget(self._limits), MemoryBudget(self._limits)
        self._connections: set[asyncio.Task[None]] = set()
        self._server: asyncio.Server | None = None

    async def start(self, port: int) -> int:
        """Listen (0: on any free port); return the port."""
        self._server = await asyncio.start_server(self._accept, HOST, port)
        port = int(self._server.sockets[0].getsockname()[1])
        self._broker = Broker(self._store, HOST, port)
        self._ticking = asyncio.create_task(self._tick(), name="tick")
        return port

    async def close(self) -> None:
        """Close all connections, and the files."""
        if self._server is not None:
            self._server.close()
        self._ticking.cancel()
        for connection in self._connections:
            connection.cancel()
        await asyncio.wait([self._ticking, *self._connections])
        self._store.close()

    async def _tick(self) -> None:
        while True:
            await asyncio.sleep(TICK_S)
            try:
                await asyncio.to_thread(sync_all, self._store.unsynced())
                self._store.delete_old()
            except OSError as exc:
                say("Could not sync or delete records", exc)
            self._broker.expire_members(time.monotonic())

    async def _accept(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        if len(self._connections) >= self._limits.connections:
            writer.transport.abort()
            return
        serving = asyncio.create_task(self._serve(reader, writer), name="connection")
        self._connections.add(serving)
        serving.add_done_callback(self._connections.discard)

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            while True:
                (length,) = struct.unpack(">i", await reader.readexactly(4))
                async with asyncio.timeout(self._limits.transfer_s):
                    head = await reader.readexactly(8)
                api = self._api_of(length, head)
                async with self._requests.use(length):
                    async with asyncio.timeout(self._limits.transfer_s):
                        body = await reader.readexactly(length - len(head))
                    response = await self._answer(api, head, body)
                    del body
                if response:
                    await self._send(writer, response)
        except (OSError, asyncio.IncompleteReadError):
            pass  # the client is gone, or too slow (TimeoutError)
        except (InvalidMessage, struct.error) as exc:
            say("Closed a connection", exc)
        except Exception as exc:  # noqa: BLE001 - a request that nobody foresaw ends its connection alone
            say("Closed a connection: a request could not be answered", exc)
        finally:
            writer.transport.abort() if writer.transport.get_write_buffer_size() else writer.close()

    def _api_of(self, length: int, head: bytes) -> Api:
        key, version, _ = _HEAD.unpack(head)
        api = APIS.get(key)
        if api is None or (version not in api.versions and api is not API_VERSIONS):
            raise InvalidMessage(f"request {key} in version {version} is not supported")
        if not _HEAD.size <= length <= (self._limits.produce_bytes if api is PRODUCE else self._limits.frame_bytes):
            raise InvalidMessage(f"a request of {length} bytes")
        return api

    async def _answer(self, api: Api, head: bytes, body: bytes) -> list[Any]:
        """Return the parts of the response; none if the client wants none."""
        _, version, correlation_id = _HEAD.unpack(head)
        message: Message | None
        if version not in api.versions:  # KIP-511: the reply in version 0 says which versions there are
            version, message = 0, {"error": Error.UNSUPPORTED_VERSION, **self._broker.versions()}
        else:
            reader = Reader(body)
            client_id = reader.value("str") or ""
            reader.is_flexible = api.is_flexible(version)
            reader.skip_tags()
            request = reader.message(layout_of(api.request, version))
            message = await self._broker.answer(api, request, client_id)
        if message is None:
            return []
        is_flexible = api.is_flexible(version)
        parts: list[Any] = [struct.pack(">i", correlation_id)]
        if is_flexible and api is not API_VERSIONS:
            parts.append(b"\x00")
        write_message(layout_of(api.response, version), message, parts, is_flexible=is_flexible)
        return parts

    async def _send(self, writer: asyncio.StreamWriter, parts: list[Any]) -> None:
        size = sum(map(len, parts))
        async with self._responses.use(size), asyncio.timeout(self._limits.transfer_s):
            writer.write(struct.pack(">i", size) + b"".join(parts))
            parts.clear()
            await writer.drain()


def say(message: str, exc: Exception) -> None:
    """Write a line to the log of the broker."""
    print(f"{message}: {exc!r}.", file=sys.stderr, flush=True)


async def run(port: int, settings: StoreSettings) -> None:
    """Serve until SIGTERM."""
    stopping = asyncio.Event()
    for number in (signal.SIGTERM, signal.SIGINT):
        asyncio.get_running_loop().add_signal_handler(number, stopping.set)
    server = BrokerServer(Store(settings))
    await server.start(port)
    await stopping.wait()
    with suppress(OSError):
        await server.close()


def main() -> None:
    """Serve as the arguments say, which are one JSON object."""
    given = json.loads(sys.argv[1])
    settings = StoreSettings(
        Path(given["directory"]), int(given["bytes_max"]), given["group"], frozenset(given["topics"])
    )
    asyncio.run(run(int(given["port"]), settings))


if __name__ == "__main__":
    main()
