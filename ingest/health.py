"""The worker's own HTTP face: ``/livez``, ``/readyz`` (names what is not ready), ``/metrics``."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from aiohttp import web
from prometheus_client import CONTENT_TYPE_LATEST, generate_latest

from common.settings import IllegalSettings
from ingest.readiness import Readiness

READINESS: web.AppKey[Readiness] = web.AppKey("readiness", Readiness)


def health_app(readiness: Readiness) -> web.Application:
    """The routes, on their own so that another process can host them."""
    app = web.Application()
    app[READINESS] = readiness
    app.router.add_get("/livez", _livez)
    app.router.add_get("/readyz", _readyz)
    app.router.add_get("/metrics", _metrics)
    return app


@asynccontextmanager
async def open_health(readiness: Readiness, *, host: str, port: int) -> AsyncIterator[int]:
    """Listen while inside; gives the port, which is another one where ``port`` is 0. Raises ``IllegalSettings``."""
    runner = web.AppRunner(health_app(readiness), access_log=None)
    await runner.setup()
    try:
        await _listen(runner, host, port)
        yield int(runner.addresses[0][1])
    finally:
        await runner.cleanup()


async def _listen(runner: web.AppRunner, host: str, port: int) -> None:
    try:
        await web.TCPSite(runner, host, port).start()
    except OSError as exc:
        raise IllegalSettings(
            f"CLEARSPAN_WORKER_HOST and CLEARSPAN_WORKER_PORT are {host}:{port}, which cannot be had: {exc.strerror}."
        ) from exc


async def _livez(_: web.Request) -> web.Response:
    return web.json_response({"status": "alive"})


async def _readyz(request: web.Request) -> web.Response:
    reasons = request.app[READINESS].reasons
    if reasons:
        return web.json_response({"status": "not ready", "waiting_for": reasons}, status=503)
    return web.json_response({"status": "ready"})


async def _metrics(_: web.Request) -> web.Response:
    return web.Response(body=generate_latest(), headers={"Content-Type": CONTENT_TYPE_LATEST})
