"""Limits on connections: their number, and the time and total size of request headers; and what is not a request.

aiohttp limits each header but none of these. A connection that exceeds a limit gets a response and is closed. Request
bodies are left to the handler (``query_api/http/body.py``).
"""

from __future__ import annotations

import asyncio
import resource
from collections.abc import Awaitable, Callable, Mapping
from http import HTTPStatus
from typing import Final
from weakref import WeakSet

import orjson
from aiohttp import web
from aiohttp.http_exceptions import LineTooLong

from common.limits import KIB
from common.settings import HttpSettings

Handler = Callable[[web.BaseRequest], Awaitable[web.StreamResponse]]

HEADER_BYTES_MAX: Final = 16 * KIB
"""The most bytes of the request line, and of each header."""

REASON_CHARACTERS_MAX: Final = 200
"""Characters of aiohttp's message that are repeated in an error."""

OTHER_FILES_MAX: Final = 2_000
"""Open files and connections to other systems, including those of the embedded engine."""

KEEPALIVE_S: Final = 75.0
"""How long a connection may be idle between two requests."""

RESPONSE_HEADERS: Final[Mapping[str, str]] = {
    "X-Content-Type-Options": "nosniff",
    "Server": "clearspan",  # instead of aiohttp's versions
}
"""Headers of every response."""


class Server(web.Server):
    """Serves one handler; a request whose client has disconnected is cancelled.

    ``unreadable`` makes the response to what is not a request, ``failed`` to an exception that left the handler; both
    are the last of their connection. Bodies are not inflated and requests are not logged.
    """

    def __init__(
        self,
        handler: Handler,
        http: HttpSettings,
        *,
        unreadable: Callable[[str], web.Response],
        failed: Callable[[BaseException | None], web.Response],
    ) -> None:
        super().__init__(self._bounded, handler_cancellation=True)
        _allow_open_files(http.connections_max + OTHER_FILES_MAX)
        self.http = http
        self.unreadable = unreadable
        self.failed = failed
        self.open: WeakSet[Connection] = WeakSet()
        self._handler = handler

    async def _bounded(self, request: web.BaseRequest) -> web.StreamResponse:
        headers_bytes = len(request.raw_path) + sum(len(name) + len(value) + 4 for name, value in request.raw_headers)
        if headers_bytes <= self.http.headers_bytes_max:
            return await self._handler(request)
        response = self.unreadable(_headers_too_large(self.http))
        response.force_close()
        return response

    def __call__(self) -> web.RequestHandler:
        """Return the protocol of a new connection."""
        return Connection(self)


def _allow_open_files(count: int) -> None:
    """Raise the limit of this process, which is 1,024 on many systems, as far as the system allows."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if soft != resource.RLIM_INFINITY and soft < count:
        allowed = count if hard == resource.RLIM_INFINITY else min(count, hard)
        resource.setrlimit(resource.RLIMIT_NOFILE, (allowed, hard))


class Connection(web.RequestHandler):
    """One connection. The time for headers begins with their first byte; for the first request, with the connection."""

    __slots__ = ("__weakref__", "_header_bytes", "_header_timer", "_server")

    def __init__(self, server: Server) -> None:
        super().__init__(
            server,
            loop=asyncio.get_running_loop(),
            access_log=None,  # type: ignore[arg-type] # documented; typed without
            auto_decompress=False,
            keepalive_timeout=KEEPALIVE_S,
            max_line_size=HEADER_BYTES_MAX,
            max_field_size=HEADER_BYTES_MAX,
        )
        self._server = server
        self._header_bytes = 0
        self._header_timer: asyncio.TimerHandle | None = None

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Wait for a request, or refuse the connection if there are too many."""
        if len(self._server.open) >= self._server.http.connections_max:
            assert isinstance(transport, asyncio.Transport)  # noqa: S101 - TCP servers have stream transports
            _refuse(transport, HTTPStatus.SERVICE_UNAVAILABLE, "Too many connections are open.")
            return
        self._server.open.add(self)
        super().connection_made(transport)
        self._start_header_timer()

    def connection_lost(self, exc: BaseException | None) -> None:
        """Forget the connection."""
        self._server.open.discard(self)
        self._stop_header_timer()
        super().connection_lost(exc)

    def data_received(self, data: bytes) -> None:
        """Receive bytes of a request; count them until its headers are complete."""
        super().data_received(data)
        if not self._waits_for_headers():
            self._stop_header_timer()
            self._header_bytes = 0
        elif data:
            self._header_bytes += len(data)
            if self._header_timer is None:
                self._start_header_timer()
            if self._header_bytes > self._server.http.headers_bytes_max:
                self._refuse(HTTPStatus.BAD_REQUEST, _headers_too_large(self._server.http))

    def handle_error(
        self, request: web.BaseRequest, status: int = 500, exc: BaseException | None = None, message: str | None = None
    ) -> web.StreamResponse:
        """Answer what never reached the handler, or an exception that left it, and close the connection."""
        if request.writer.output_size > 0:
            raise ConnectionError("The response has already begun, so the error cannot be reported.")
        is_unreadable = status == HTTPStatus.BAD_REQUEST
        response = self._server.unreadable(_reason(exc, message)) if is_unreadable else self._server.failed(exc)
        response.force_close()
        return response

    def _waits_for_headers(self) -> bool:
        return self._waiter is not None and not self._waiter.done()

    def _start_header_timer(self) -> None:
        self._header_timer = self._loop.call_later(self._server.http.header_timeout_s, self._headers_are_late)

    def _stop_header_timer(self) -> None:
        if self._header_timer is not None:
            self._header_timer.cancel()
            self._header_timer = None

    def _headers_are_late(self) -> None:
        self._header_timer = None
        if self._waits_for_headers():
            timeout_s = self._server.http.header_timeout_s
            self._refuse(HTTPStatus.REQUEST_TIMEOUT, f"The headers did not arrive within {timeout_s:g} s.")

    def _refuse(self, status: HTTPStatus, detail: str) -> None:
        if self.transport is not None:
            _refuse(self.transport, status, detail)
        self.force_close()


def _refuse(transport: asyncio.WriteTransport, status: HTTPStatus, detail: str) -> None:
    """Send a response without a request, and close."""
    body = orjson.dumps({"detail": detail})
    headers = {
        **RESPONSE_HEADERS,
        "Connection": "close",
        "Content-Type": "application/json",
        "Content-Length": str(len(body)),
    }
    lines = [f"HTTP/1.1 {status.value} {status.phrase}", *(f"{name}: {value}" for name, value in headers.items())]
    transport.write("\r\n".join([*lines, "", ""]).encode() + body)
    transport.close()


def _headers_too_large(http: HttpSettings) -> str:
    return f"The request line and the headers are larger than {http.headers_bytes_max} bytes together."


def _reason(exc: BaseException | None, message: str | None) -> str:
    """Return why this is not a request."""
    if isinstance(exc, LineTooLong):
        return f"The request line, or a header, is larger than {HEADER_BYTES_MAX} bytes."
    reason = (message or "").strip().partition("\n")[0].rstrip(":. ")[:REASON_CHARACTERS_MAX]
    return f"This cannot be read as HTTP/1.1: {reason or 'no request'}."
