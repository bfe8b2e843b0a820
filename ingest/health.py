"""The worker's HTTP server: ``/livez``, ``/readyz`` (names what is not ready), ``/metrics``."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any, Final

import orjson
from aiohttp import web
from prometheus_client import CONTENT_TYPE_LATEST, generate_latest

from common.http.server import RESPONSE_HEADERS, Connection, Server, headers_size, headers_too_large
from common.settings import HttpSettings, InvalidSettings
from common.telemetry import get_logger
from ingest.readiness import Readiness

METHODS: Final = ("GET", "HEAD")
BAD_REQUEST: Final = 400

_log: Final = get_logger(__name__)


class _HealthServer(Server):
    """Serves the worker's readiness and metrics."""

    def __init__(self, readiness: Readiness, http: HttpSettings) -> None:
        super().__init__(self._respond, http)
        self._readiness = readiness

    def __call__(self) -> web.RequestHandler:
        return _Connection(self)

    async def _respond(self, request: web.BaseRequest) -> web.StreamResponse:
        if headers_size(request) > self.http.headers_bytes_max:
            return _last_response(BAD_REQUEST, headers_too_large(self.http))
        if request.path not in ("/livez", "/readyz", "/metrics"):
            return _json({"detail": "Not Found"}, status=404)
        if request.method not in METHODS:
            return _json({"detail": "Method Not Allowed"}, status=405, Allow=", ".join(METHODS))
        if request.path == "/livez":
            return _json({"status": "alive"})
        if request.path == "/metrics":
            return web.Response(
                body=generate_latest(), headers={**RESPONSE_HEADERS, "Content-Type": CONTENT_TYPE_LATEST}
            )
        reasons = self._readiness.reasons
        return (
            _json({"status": "not ready", "waiting_for": reasons}, status=503)
            if reasons
            else _json({"status": "ready"})
        )


class _Connection(Connection):
    __slots__ = ()

    def handle_error(
        self, request: web.BaseRequest, status: int = 500, exc: BaseException | None = None, message: str | None = None
    ) -> web.StreamResponse:
        """Respond to an unreadable request, or to an unexpected failure, whose traceback is logged."""
        if exc is not None and status != BAD_REQUEST:
            _log.error("A request failed unexpectedly.", exc_info=exc)
        del request, message  # its text may quote what was sent
        return _last_response(
            status, "This cannot be read as HTTP/1.1." if status == BAD_REQUEST else "Internal Server Error"
        )


def _json(body: Any, *, status: int = 200, **headers: str) -> web.Response:
    content = {**RESPONSE_HEADERS, "Content-Type": "application/json; charset=utf-8", **headers}
    return web.Response(body=orjson.dumps(body), status=status, headers=content)


def _last_response(status: int, detail: str) -> web.Response:
    response = _json({"detail": detail}, status=status)
    response.force_close()
    return response


@asynccontextmanager
async def open_health(
    readiness: Readiness, *, host: str, port: int, http: HttpSettings | None = None
) -> AsyncIterator[int]:
    """Listen inside the context; yields the port, a free one if ``port`` is 0. Raises ``InvalidSettings``."""
    runner = web.ServerRunner(_HealthServer(readiness, http or HttpSettings()))
    await runner.setup()
    try:
        await _listen(runner, host, port)
        yield int(runner.addresses[0][1])
    finally:
        await runner.cleanup()


async def _listen(runner: web.ServerRunner, host: str, port: int) -> None:
    try:
        await web.TCPSite(runner, host, port).start()
    except OSError as exc:
        raise InvalidSettings(
            f"CLEARSPAN_WORKER_HOST and CLEARSPAN_WORKER_PORT are {host}:{port}, which cannot be used: {exc.strerror}."
        ) from exc
