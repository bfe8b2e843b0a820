"""A webhook whose receiver responds slowly, at great length, without end, or with another address."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from typing import Final

import pytest
from aiohttp import web

from query_api.delivery.addresses import AddressRules
from query_api.delivery.targets import http
from query_api.delivery.targets.target import TargetRefused, TargetUnavailable
from query_api.delivery.targets.webhook import WebhookTarget
from tests.support.delivered import batch_of
from tests.support.delivery import SECRET

TIMEOUT_S: Final = 60.0
Respond = Callable[[web.BaseRequest], Awaitable[web.StreamResponse]]


@asynccontextmanager
async def responding(respond: Respond, *, timeout_s: float = TIMEOUT_S) -> AsyncIterator[WebhookTarget]:
    """A target whose receiver responds as ``respond`` does."""
    runner = web.ServerRunner(web.Server(respond), shutdown_timeout=0.1)
    await runner.setup()
    await web.TCPSite(runner, "127.0.0.1", 0).start()
    url = f"http://127.0.0.1:{runner.addresses[0][1]}/"
    target = WebhookTarget(url, SECRET, timeout_s=timeout_s, rules=AddressRules(private_addresses=True))
    try:
        yield target
    finally:
        await target.close()
        await runner.cleanup()


async def never_ending(request: web.BaseRequest, *, status: int, chunk: bytes, pause_s: float) -> web.StreamResponse:
    """Send the status at once, and then a body that does not end."""
    response = web.StreamResponse(status=status)
    await response.prepare(request)
    while True:
        await response.write(chunk)
        await asyncio.sleep(pause_s)


@pytest.mark.parametrize(("chunk", "pause_s"), [(b"x", 0.05), (bytes(1024 * 1024), 0.0)], ids=["slow", "huge"])
async def test_success_is_acknowledged_although_its_body_never_ends(chunk: bytes, pause_s: float) -> None:
    began_s = time.monotonic()
    async with responding(lambda request: never_ending(request, status=200, chunk=chunk, pause_s=pause_s)) as target:
        await target.deliver(batch_of(1))
        await target.deliver(batch_of(2))

    assert time.monotonic() - began_s < TIMEOUT_S


@pytest.mark.parametrize(
    ("status", "error"), [(410, TargetRefused), (302, TargetRefused), (503, TargetUnavailable)], ids=str
)
async def test_failure_counts_although_its_body_never_ends(status: int, error: type[Exception]) -> None:
    async with responding(lambda request: never_ending(request, status=status, chunk=b"x", pause_s=0.05)) as target:
        with pytest.raises(error, match=f"answered {status}"):
            await target.deliver(batch_of(1))


async def test_connection_is_used_again_after_a_short_response(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(http, "DRAIN_S", TIMEOUT_S)
    ports: list[int] = []

    async def respond(request: web.BaseRequest) -> web.Response:
        assert request.transport is not None
        ports.append(request.transport.get_extra_info("peername")[1])
        return web.Response(text="thanks")

    async with responding(respond) as target:
        await target.deliver(batch_of(1))
        await target.deliver(batch_of(1))

    assert len(set(ports)) == 1


async def test_slow_success_is_acknowledged_and_a_later_one_is_not() -> None:
    async def slowly(_: web.BaseRequest) -> web.Response:
        await asyncio.sleep(0.3)
        return web.Response()

    async with responding(slowly) as target:
        await target.deliver(batch_of(1))
    async with responding(slowly, timeout_s=0.1) as target:
        with pytest.raises(TargetUnavailable, match=r"did not answer within 0\.1 s"):
            await target.deliver(batch_of(1))


async def test_redirect_is_refused_and_not_followed() -> None:
    paths: list[str] = []

    async def redirect(request: web.BaseRequest) -> web.Response:
        paths.append(request.path)
        return web.Response(status=307, headers={"Location": "/elsewhere"})

    async with responding(redirect) as target:
        with pytest.raises(TargetRefused, match="a redirect, which is not followed"):
            await target.deliver(batch_of(1))

    assert paths == ["/"]


async def test_retry_after_is_passed_on() -> None:
    async def later(_: web.BaseRequest) -> web.Response:
        return web.Response(status=429, headers={"Retry-After": "17"})

    async with responding(later) as target:
        with pytest.raises(TargetUnavailable) as caught:
            await target.deliver(batch_of(1))

    assert caught.value.retry_after_s == 17
