"""A TCP proxy in front of a server, which passes bytes on, delays them, stops, or cuts connections."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Awaitable, Callable, Coroutine
from contextlib import suppress
from typing import Any, TypeAlias

from tests.support.ports import free_port

Streams: TypeAlias = tuple[asyncio.StreamReader, asyncio.StreamWriter]
CHUNK_BYTES = 65_536


class Link:
    """Listens on ``port`` of the loopback interface and forwards to what ``connect`` opens. Runs in a thread of its own.

    ``refuse``, ``hang``, ``delay`` and ``restore`` change what happens to every connection, open ones included;
    ``cut_at`` the next connection that sends certain bytes.
    """

    def __init__(self, connect: Callable[[], Awaitable[Streams]], *, port: int | None = None) -> None:
        self.port = port or free_port()
        self._connect = connect
        self._delay_s = 0.0
        self._cut_at = b""
        self._open: set[asyncio.StreamWriter] = set()
        self._server: asyncio.Server | None = None
        self._loop = asyncio.new_event_loop()
        self._passes = asyncio.Event()
        self._passes.set()
        self._thread = threading.Thread(target=self._loop.run_forever, daemon=True)
        self._thread.start()
        self._call(self._listen())

    def refuse(self) -> None:
        """Cut every connection, and refuse new ones."""
        self._call(self._stop_listening())
        self.cut()

    def hang(self) -> None:
        """Accept connections, and pass nothing on in either direction."""
        self._loop.call_soon_threadsafe(self._passes.clear)

    def delay(self, seconds: float) -> None:
        """Let each part of a response arrive this much later."""
        self._delay_s = seconds

    def cut(self) -> None:
        """Reset every open connection."""
        self._call(self._abort_all())

    def cut_at(self, text: bytes) -> None:
        """Reset the next connection on which a client sends ``text``, and do not pass it on."""
        self._cut_at = text

    def restore(self) -> None:
        """Pass everything on at once again, but for what hung: its connections are reset."""
        self._delay_s = 0.0
        self._cut_at = b""
        self._call(self._pass_again())
        self._call(self._listen())

    def close(self) -> None:
        """End the proxy. Safe to call once."""
        self.refuse()
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join()
        self._loop.close()

    def _call(self, act: Coroutine[Any, Any, None]) -> None:
        asyncio.run_coroutine_threadsafe(act, self._loop).result(timeout=30)

    async def _listen(self) -> None:
        if self._server is None:
            self._server = await asyncio.start_server(self._forward, "127.0.0.1", self.port)

    async def _stop_listening(self) -> None:
        server, self._server = self._server, None
        if server is not None:
            server.close()

    async def _pass_again(self) -> None:
        if not self._passes.is_set():
            await self._abort_all()
        self._passes.set()

    async def _abort_all(self) -> None:
        for writer in tuple(self._open):
            writer.transport.abort()

    async def _forward(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            there, back = await self._connect()
        except OSError:
            writer.transport.abort()
            return
        self._open |= {writer, back}
        try:
            await asyncio.gather(self._pass_on(reader, back, delays=False), self._pass_on(there, writer, delays=True))
        finally:
            self._open -= {writer, back}

    async def _pass_on(self, source: asyncio.StreamReader, target: asyncio.StreamWriter, *, delays: bool) -> None:
        """Pass bytes on until an end is closed; a delay is a latency: it does not make a long response slower."""
        waiting: asyncio.Queue[tuple[float, bytes]] = asyncio.Queue(64)
        writing = asyncio.create_task(self._write(waiting, target))
        with suppress(OSError):
            while data := await source.read(CHUNK_BYTES):
                if not delays and self._cut_at and self._cut_at in data:
                    self._cut_at = b""
                    target.transport.abort()
                    break
                await waiting.put((self._loop.time() + (self._delay_s if delays else 0.0), data))
        await waiting.put((0.0, b""))
        await writing

    async def _write(self, waiting: asyncio.Queue[tuple[float, bytes]], target: asyncio.StreamWriter) -> None:
        with suppress(OSError):
            while (item := await waiting.get())[1]:
                due_s, data = item
                await asyncio.sleep(max(0.0, due_s - self._loop.time()))
                await self._passes.wait()
                target.write(data)
                await target.drain()
        target.close()
        while not waiting.empty():  # the reader may wait for room
            waiting.get_nowait()


def to_port(port: int) -> Callable[[], Awaitable[Streams]]:
    """Connect to a port of the loopback interface."""
    return lambda: asyncio.open_connection("127.0.0.1", port)


def to_socket(path: str) -> Callable[[], Awaitable[Streams]]:
    """Connect to a Unix socket."""
    return lambda: asyncio.open_unix_connection(path)
