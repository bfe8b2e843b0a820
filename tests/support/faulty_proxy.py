"""A proxy in front of an HTTP server: it ends TLS, and lets the next statements hang, fail or lose their response."""

from __future__ import annotations

import asyncio
import contextlib
import ssl
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Final, NamedTuple

import aiohttp
from aiohttp import web

from tests.support.ports import free_port

BODY_BYTES_MAX: Final = 1 << 30
OF_ONE_CONNECTION: Final = frozenset({"Connection", "Content-Length", "Host", "Keep-Alive", "Transfer-Encoding"})
"""Headers that describe one connection, not the message."""


class HttpFault(NamedTuple):
    """What goes wrong with the next ``times`` statements, or inserts. ``after`` lets them take effect first.

    ``kind`` is "hang" (no response), "refuse" (a response of somebody else), "reset" (the connection is lost) or
    "error" (the server's own response to an error, with its ``code``).
    """

    kind: str
    after: bool = False
    code: int = 0
    times: int = 1
    inserts: bool = False


class FaultyProxy:
    """A running proxy. Its loop is a thread's own, so that it goes on while a test waits."""

    def __init__(self, target: str, port: int, tls: ssl.SSLContext | None) -> None:
        self.port = port
        self._target = target
        self._tls = tls
        self._fault: HttpFault | None = None
        self._loop = asyncio.new_event_loop()
        self._ended = asyncio.Event()

    def arm(self, fault: HttpFault) -> None:
        """Let the next statements fail."""
        self._fault = fault

    def heal(self) -> None:
        """Let every statement succeed again."""
        self._fault = None

    def serve(self, listening: threading.Event) -> None:
        """Serve until ``end``; set ``listening`` when it does."""
        self._loop.run_until_complete(self._serve(listening))
        self._loop.close()

    def end(self) -> None:
        """End ``serve``."""
        self._loop.call_soon_threadsafe(self._ended.set)

    async def _serve(self, listening: threading.Event) -> None:
        app = web.Application(client_max_size=BODY_BYTES_MAX)
        app.router.add_route("*", "/{path:.*}", self._statement)
        runner = web.AppRunner(app, shutdown_timeout=0.1, auto_decompress=False)
        await runner.setup()
        connector = aiohttp.TCPConnector(limit=0, force_close=True)
        no_limit = aiohttp.ClientTimeout(total=None)
        async with aiohttp.ClientSession(connector=connector, timeout=no_limit, auto_decompress=False) as self._session:
            await web.TCPSite(runner, "127.0.0.1", self.port, ssl_context=self._tls).start()
            listening.set()
            await self._ended.wait()
            await runner.cleanup()

    async def _statement(self, request: web.Request) -> web.StreamResponse:
        body = await request.read()
        fault = self._next_fault(body, request.query.get("query", ""))
        if fault is not None and not fault.after:
            return await _act_out(fault, request)
        headers = {name: value for name, value in request.headers.items() if name not in OF_ONE_CONNECTION}
        url = f"{self._target}{request.path_qs}"
        try:
            async with self._session.request(request.method, url, data=body, headers=headers) as answer:
                content = await answer.read()
        except aiohttp.ClientError:  # the server is gone, and so is the connection
            return await _act_out(HttpFault("reset"), request)
        if fault is not None:
            return await _act_out(fault, request)
        kept = {name: value for name, value in answer.headers.items() if name not in OF_ONE_CONNECTION}
        return web.Response(status=answer.status, body=content, headers=kept)

    def _next_fault(self, body: bytes, query: str) -> HttpFault | None:
        """Return what goes wrong with this statement, and count it."""
        fault = self._fault
        is_insert = (query.encode() + body[:100]).lstrip().upper().startswith(b"INSERT")
        if fault is None or (fault.inserts and not is_insert):
            return None
        self._fault = fault._replace(times=fault.times - 1) if fault.times > 1 else None
        return fault


async def _act_out(fault: HttpFault, request: web.Request) -> web.StreamResponse:
    if fault.kind == "hang":
        await asyncio.sleep(3600)
    if fault.kind == "refuse":
        return web.Response(status=503, text="upstream is unavailable")
    if fault.kind == "reset" and request.transport is not None:
        request.transport.abort()
    text = f"Code: {fault.code}. DB::Exception: armed. (ARMED)"
    return web.Response(status=500, text=text, headers={"X-ClickHouse-Exception-Code": str(fault.code)})


@contextlib.contextmanager
def faulty_proxy(target: str, *, certificates: tuple[Path, Path] | None = None) -> Iterator[FaultyProxy]:
    """A proxy on the loopback interface before ``target`` (``http://host:port``).

    ``certificates`` are its own, with its key, and the authority of its clients; with them it speaks TLS.
    """
    proxy = FaultyProxy(target, free_port(), None if certificates is None else _tls_context(*certificates))
    listening = threading.Event()
    thread = threading.Thread(target=proxy.serve, args=(listening,), daemon=True)
    thread.start()
    assert listening.wait(60), "the proxy does not listen"
    try:
        yield proxy
    finally:
        proxy.end()
        thread.join(60)


def _tls_context(certificate: Path, client_authority: Path) -> ssl.SSLContext:
    """Return a context that asks clients for a certificate of this authority."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(certificate)
    context.verify_mode = ssl.CERT_REQUIRED
    context.load_verify_locations(client_authority)
    return context
