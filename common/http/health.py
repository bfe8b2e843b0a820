"""The HTTP server of a process without an API: ``/livez``, ``/readyz`` (names what is not ready), ``/metrics``."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from functools import partial
from typing import Any, Final

import orjson
from aiohttp import web
from prometheus_client import CONTENT_TYPE_LATEST, generate_latest

from common.http.server import RESPONSE_HEADERS, Server
from common.readiness import Readiness
from common.settings import HttpSettings, InvalidSettings
from common.telemetry import get_logger

METHODS: Final = ("GET", "HEAD")

_log: Final = get_logger(__name__)


async def _respond(request: web.BaseRequest, *, readiness: Readiness) -> web.StreamResponse:
    if request.path not in ("/livez", "/readyz", "/metrics"):
        return _json({"detail": "Not Found"}, status=404)
    if request.method not in METHODS:
        return _json({"detail": "Method Not Allowed"}, status=405, Allow=", ".join(METHODS))
    if request.path == "/livez":
        return _json({"status": "alive"})
    if request.path == "/metrics":
        return web.Response(body=generate_latest(), headers={**RESPONSE_HEADERS, "Content-Type": CONTENT_TYPE_LATEST})
    gaps = {"gaps": readiness.gaps} if readiness.gaps else {}
    if reasons := readiness.reasons:
        return _json({"status": "not ready", "waiting_for": reasons, **gaps}, status=503)
    return _json({"status": "ready", **gaps})


def _json(body: Any, *, status: int = 200, **headers: str) -> web.Response:
    content = {**RESPONSE_HEADERS, "Content-Type": "application/json; charset=utf-8", **headers}
    return web.Response(body=orjson.dumps(body), status=status, headers=content)


def _unreadable(reason: str) -> web.Response:
    return _json({"detail": reason}, status=400)


def _failed(exc: BaseException | None) -> web.Response:
    _log.error("A request failed unexpectedly.", exc_info=exc)
    return _json({"detail": "Internal Server Error"}, status=500)


@asynccontextmanager
async def open_health(
    readiness: Readiness,
    *,
    host: str,
    port: int,
    names: str,
    http: HttpSettings | None = None,
) -> AsyncIterator[int]:
    """Listen inside the context; yields the port, a free one if ``port`` is 0. Raises ``InvalidSettings``.

    ``names`` are the settings of host and port.
    """
    respond = partial(_respond, readiness=readiness)
    server = Server(respond, http or HttpSettings(), unreadable=_unreadable, failed=_failed)
    runner = web.ServerRunner(server)
    await runner.setup()
    try:
        await _listen(runner, host, port, names)
        yield int(runner.addresses[0][1])
    finally:
        await runner.cleanup()


async def _listen(runner: web.ServerRunner, host: str, port: int, names: str) -> None:
    try:
        await web.TCPSite(runner, host, port).start()
    except OSError as exc:
        raise InvalidSettings(f"{names} are {host}:{port}, which cannot be used: {exc.strerror}.") from exc
