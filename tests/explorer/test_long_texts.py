"""Texts of very many lines in the comparison of two revisions."""

from __future__ import annotations

import pytest
from playwright.async_api import expect

from tests.support.explorer import Explorer

pytestmark = [pytest.mark.long, pytest.mark.asyncio(loop_scope="module")]

LINES_COUNT = 150_000
"""More than a call may have arguments in the browser."""


async def test_lines_are_shown_by_the_thousand(explorer: Explorer):
    ask, page = explorer.stack.ask, explorer.page
    before = {"parameters": {"prompt": "a\n" * LINES_COUNT + "one"}}
    created = ask("/simple/applications/", {"application": {"slug": "long-texts", "data": before}})["application"]
    after = {"parameters": {"prompt": "a\n" * LINES_COUNT + "two", "tone": "b\n" * 4_999 + "b"}}
    body = {"application_revision": {"application_variant_id": created["variant_id"], "data": after}}
    second = ask("/applications/revisions/commit", body)["application_revision"]["id"]

    await explorer.open("applications/long-texts/compare", **{"from": created["revision_id"], "to": second})
    changed, added = page.locator(".change.changed"), page.locator(".change.added")
    await expect(changed.locator("ins")).to_have_text("two")
    await changed.get_by_role("button", name=f"{LINES_COUNT - 3} lines are the same").click()
    await expect(changed.locator("td.line").first).to_have_text("a")
    await expect(changed.locator("tr")).to_have_count(1_001)
    await changed.get_by_role("button", name="Show 1000 of").click()
    await expect(changed.locator("tr")).to_have_count(2_001)
    await expect(added.locator("tr")).to_have_count(1_001)
    await added.get_by_role("button", name="Show 1000 of 4000 more lines").click()
    await expect(added.locator("tr")).to_have_count(2_001)
