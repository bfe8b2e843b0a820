"""A page of another origin sends spans from a real browser, if its origin is allowed."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import pytest
from aiohttp import web
from playwright.async_api import Browser

from common.settings import Settings
from tests.support.api import context_of, serving

SEND = """async address => {
    const body = await new Response(
        new Blob(['{"resourceSpans": []}']).stream().pipeThrough(new CompressionStream('gzip'))
    ).arrayBuffer();
    const headers = {'content-type': 'application/json', 'content-encoding': 'gzip', authorization: 'ApiKey none'};
    try {
        return (await fetch(address + '/v1/traces', {method: 'POST', headers, body})).status;
    } catch (error) {
        return error.name;
    }
}"""


@asynccontextmanager
async def page_server() -> AsyncIterator[str]:
    """Serve an empty page; yield its origin, whose host is not that of the API."""

    async def page(_: web.Request) -> web.Response:
        return web.Response(text="<!doctype html><title>shop</title>", content_type="text/html")

    application = web.Application()
    application.router.add_get("/", page)
    runner = web.AppRunner(application)
    await runner.setup()
    try:
        await web.TCPSite(runner, "127.0.0.1", 0).start()
        yield f"http://localhost:{runner.addresses[0][1]}"
    finally:
        await runner.cleanup()


@pytest.mark.asyncio(loop_scope="module")
@pytest.mark.parametrize(
    ("origins", "outcome"),
    [("{origin}", 200), ("*", 200), ("", "TypeError"), ("http://localhost:1", "TypeError")],
    ids=["allowed", "any", "none", "another"],
)
async def test_page_may_export_if_its_origin_is_allowed(browser: Browser, origins: str, outcome: int | str) -> None:
    async with page_server() as origin:
        allowed = origins.format(origin=origin)
        settings = Settings.model_validate({"auth": "off", "http": {"allowed_origins": allowed}})
        async with serving(context_of(settings=settings)) as client:
            page = await browser.new_page()
            try:
                await page.goto(origin)
                assert await page.evaluate(SEND, str(client._base_url).rstrip("/")) == outcome
            finally:
                await page.close()
