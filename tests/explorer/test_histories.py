"""Applications, saved queries and the prompt for a key, in a browser."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator
from typing import Any

import pytest
import pytest_asyncio
from playwright.async_api import Browser, Page, expect

from tests.support.explorer import Explorer, open_page
from tests.support.stack import RunningStack

pytestmark = [pytest.mark.asyncio(loop_scope="module"), pytest.mark.timeout(120)]


@pytest.fixture(scope="module")
def application(explored_stack: RunningStack) -> dict[str, Any]:
    """An application with two revisions of one variant, the second of them deployed."""
    data = {"parameters": {"prompt": "Be kind.", "temperature": 0.7}}
    body = {"application": {"slug": "faq-bot", "name": "FAQ bot", "data": data}}
    created: dict[str, Any] = explored_stack.ask("/simple/applications/", body)["application"]
    revision = {
        "application_variant_id": created["variant_id"],
        "message": "tighter tone",
        "data": {"parameters": {"prompt": "Be kind and brief."}},
    }
    explored_stack.ask("/applications/revisions/commit", {"application_revision": revision})
    deployed = {"application_ref": {"slug": "faq-bot"}, "environment_ref": {"slug": "production"}, "message": "go live"}
    explored_stack.ask("/applications/revisions/deploy", deployed)
    return created


@pytest.mark.usefixtures("application")
async def test_what_a_revision_changed_is_two_clicks_away(explorer: Explorer):
    await explorer.open("applications")
    await explorer.page.get_by_role("link", name="FAQ bot").click()
    await explorer.page.get_by_role("link", name="What changed").first.click()
    await expect(explorer.page.locator(".change")).to_have_count(2)
    assert await explorer.texts(".change h3 code") == ["/parameters/prompt", "/parameters/temperature"]
    changed = explorer.page.locator(".change.changed")
    await expect(changed.locator(".from")).to_have_text("Be kind.")
    await expect(changed.locator(".to")).to_have_text("Be kind and brief.")


@pytest.mark.usefixtures("application")
async def test_deployments_name_environment_and_version(explorer: Explorer):
    await explorer.open("applications")
    row = explorer.page.locator("table", has_text="Environment").locator("tbody tr")
    await expect(row).to_contain_text("Production")
    await expect(row).to_contain_text("v2")


async def test_view_is_saved_as_a_query_and_opened_again(explorer: Explorer):
    failed = {"conditions": [{"field": "status_code", "operator": "is", "value": "STATUS_CODE_ERROR"}]}
    await explorer.open("spans", filter=failed)
    await explorer.page.get_by_role("button", name="Save").click()
    await explorer.page.get_by_label("Name").fill("Failed calls")
    await explorer.page.get_by_role("dialog").get_by_role("button", name="Save").click()
    await expect(explorer.page.locator("h1")).to_have_text("failed-calls")
    found = explorer.stack.ask("/spans/query", {"query_ref": {"slug": "failed-calls"}})["count"]
    await explorer.page.get_by_role("link", name="Run").click()
    await expect(explorer.page.locator(".table")).to_have_attribute("aria-rowcount", str(found))


class TestWithKeys:
    """A page over an API that wants a key, played by answering 401 as the API does until a key is sent."""

    @pytest_asyncio.fixture(loop_scope="module")
    async def page(self, browser: Browser, explored_stack: RunningStack) -> AsyncIterator[Page]:
        async with open_page(browser, explored_stack.api) as opened:

            async def demand_key(route: Any) -> None:
                if route.request.headers.get("authorization") == "ApiKey right":
                    await route.continue_()
                else:
                    unauthorized = json.dumps({"detail": {"message": "Unauthorized"}})
                    await route.fulfill(status=401, body=unauthorized, content_type="application/json")

            await opened.page.route("**/spans/**", demand_key)
            yield opened.page

    async def test_page_asks_for_a_key_and_keeps_it_for_the_session(self, page: Page, explored_stack: RunningStack):
        await page.goto(f"{explored_stack.api}/ui/spans")
        await page.get_by_role("textbox", name="Key").fill("right")
        await page.get_by_role("button", name="Use this key").click()
        await expect(page.locator(".rows .row").first).to_be_visible()
        await page.reload()
        await expect(page.locator(".rows .row").first).to_be_visible()
        assert await page.evaluate("Object.keys(localStorage).filter(key => key.includes('key')).length") == 0
