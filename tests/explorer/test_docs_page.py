"""The page of all routes in a browser: it shows the examples of the OpenAPI document."""

from __future__ import annotations

import json

import pytest
from playwright.async_api import Browser

from query_api.http.openapi import all_examples
from tests.support.api import context_of, serving
from tests.support.explorer import open_page

pytestmark = pytest.mark.asyncio(loop_scope="module")


async def test_route_shows_its_example(browser: Browser) -> None:
    example = all_examples()["POST /spans/query"]
    async with serving(context_of()) as client, open_page(browser, str(client._base_url)) as opened:
        await opened.page.goto(f"{client._base_url}/docs#query_spans")
        route = opened.page.locator("#query_spans")
        if await route.get_attribute("open") is None:
            await route.locator("summary").first.click()

        assert json.loads(await route.get_by_label("Body").input_value()) == example.request
        await route.get_by_text("An answer, for example").click()
        answers = route.locator("pre").filter(has_text=example.response["spans"][0]["span_id"])
        assert json.loads(await answers.inner_text()) == example.response
        assert opened.problems == []
