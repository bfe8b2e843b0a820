"""The page over an API that wants a key, played by answering 401 as the API does until the right key is sent."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator
from dataclasses import dataclass

import pytest
import pytest_asyncio
from playwright.async_api import Browser, Page, Route, expect

from tests.support.explorer import open_page
from tests.support.stack import RunningStack

pytestmark = [pytest.mark.long, pytest.mark.asyncio(loop_scope="module")]
KEY = "right-4f1c"
PRINT_ARGUMENTS = 'curl() { printf "%s\\n" "$@"; }'


@dataclass(frozen=True, slots=True)
class _Guarded:
    page: Page
    api: str

    async def enter(self, key: str) -> None:
        await self.page.get_by_role("textbox", name="Key").fill(key)
        await self.page.get_by_role("button", name="Use this key").click()


@pytest_asyncio.fixture(loop_scope="module")
async def guarded(browser: Browser, explored_stack: RunningStack) -> AsyncIterator[_Guarded]:
    async with open_page(browser, explored_stack.api) as opened:

        async def demand_key(route: Route) -> None:
            if route.request.headers.get("authorization") == f"ApiKey {KEY}":
                await route.fallback()
            else:
                unauthorized = json.dumps({"detail": {"message": "Unauthorized"}})
                await route.fulfill(status=401, body=unauthorized, content_type="application/json")

        await opened.page.route("**/spans/**", demand_key)
        yield _Guarded(opened.page, explored_stack.api)


async def test_page_asks_for_a_key_and_keeps_it_for_the_session(guarded: _Guarded):
    page = guarded.page
    await page.goto(f"{guarded.api}/ui/spans")
    dialog = page.get_by_role("dialog")
    await expect(dialog).to_contain_text(
        "The command clearspan keys create NAME makes a key and shows it once."
        " This page keeps the key until you close the browser tab."
    )
    await expect(dialog.get_by_role("alert")).to_have_count(0)
    await guarded.enter("wrong")
    await expect(dialog.get_by_role("alert")).to_contain_text("The API refused the key")
    await guarded.enter(KEY)
    await expect(page.locator(".rows .row").first).to_be_visible()
    await page.reload()
    await expect(page.locator(".rows .row").first).to_be_visible()
    assert await page.evaluate("Object.keys(localStorage).filter(key => key.includes('key')).length") == 0


async def test_commands_of_the_empty_page_send_the_key_and_do_not_show_it(guarded: _Guarded):
    page = guarded.page
    nothing = json.dumps({"count": 0, "spans": [], "groups": []})
    await page.route("**/spans/**", lambda route: route.fulfill(body=nothing, content_type="application/json"))
    await page.goto(f"{guarded.api}/ui/spans?oldest=all")
    curl = page.locator("pre", has_text="curl")
    await expect(curl).not_to_contain_text("Authorization")

    async def demand_key(route: Route) -> None:
        if route.request.headers.get("authorization") == f"ApiKey {KEY}":
            await route.fulfill(body=nothing, content_type="application/json")
        else:
            await route.fulfill(status=401, body="{}")

    await page.unroute("**/spans/**")
    await page.route("**/spans/**", demand_key)
    await page.reload()
    await guarded.enter(KEY)
    await expect(curl).to_be_visible()
    assert KEY not in await page.content()
    printed = "\n".join(await page.locator(".notice.empty pre").all_inner_texts())
    shell = await asyncio.create_subprocess_exec(
        "sh", "-eu", "-c", f"{PRINT_ARGUMENTS}\n{printed}", stdout=asyncio.subprocess.PIPE
    )
    arguments = (await shell.communicate())[0].decode().splitlines()
    assert f"{guarded.api}/tracing/spans/ingest" in arguments
    assert "Authorization: ApiKey your-key" in arguments
    assert 'OTEL_EXPORTER_OTLP_HEADERS="Authorization=ApiKey%20$CLEARSPAN_KEY"' in printed
