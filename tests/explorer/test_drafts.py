"""What is typed into an editor of a revision stays until it is committed or given up."""

from __future__ import annotations

from itertools import count

import pytest
from playwright.async_api import Locator, Page, Route, expect

from tests.support.explorer import Explorer
from tests.support.stack import RunningStack

pytestmark = [pytest.mark.long, pytest.mark.asyncio(loop_scope="module")]

MESSAGES = [{"role": "system", "content": "Be kind."}, {"role": "user", "content": [{"text": "hi"}]}]
_numbers = count(1)


def _created(stack: RunningStack) -> str:
    """Create an application with one version of the variant `SLUG.main`, and a variant `SLUG.other` without a version."""
    slug = f"drafted-{next(_numbers)}"
    application = stack.ask("/applications/", {"application": {"slug": slug, "name": slug, "flags": {}}})["application"]
    variants = [
        stack.ask("/applications/variants/", {"application_variant": {"application_id": application["id"], **names}})
        for names in ({"slug": f"{slug}.main", "name": "Main"}, {"slug": f"{slug}.other", "name": "Other"})
    ]
    data = {"parameters": {"messages": MESSAGES, "temperature": 1}}
    revision = {"application_variant_id": variants[0]["application_variant"]["id"], "data": data}
    stack.ask("/applications/revisions/commit", {"application_revision": revision})
    return slug


def _first_message(page: Page) -> Locator:
    return page.get_by_label("Text of message 1")


async def test_going_back_to_another_variant_asks_and_shows_it(explorer: Explorer):
    slug, page = _created(explorer.stack), explorer.page
    await explorer.open(f"applications/{slug}/edit", variant=f"{slug}.main")
    await expect(_first_message(page)).to_have_value("Be kind.")
    await page.get_by_role("link", name=f"Back to {slug}").click()
    card = page.locator(".card", has=page.get_by_role("heading", name="Other"))
    await card.get_by_role("link", name="Edit").click()
    await expect(page.get_by_text("This variant has no version yet.")).to_be_visible()
    await _first_message(page).fill("Be rude.")
    page.once("dialog", lambda dialog: dialog.dismiss())
    async with page.expect_event("dialog"):
        await page.evaluate("history.go(-2)")
    await expect(_first_message(page)).to_have_value("Be rude.")
    page.once("dialog", lambda dialog: dialog.accept())
    async with page.expect_event("dialog"):
        await page.evaluate("history.go(-1)")
    await expect(_first_message(page)).to_have_value("Be kind.")
    await expect(page.get_by_text("From version 0, the newest.")).to_be_visible()
    await expect(page.get_by_role("button", name="Commit version 1")).to_be_disabled()


async def test_draft_stays_while_another_key_is_entered(explorer: Explorer):
    slug, page = _created(explorer.stack), explorer.page
    is_right = False

    async def answer(route: Route) -> None:
        if is_right:
            await route.fallback()
        else:
            await route.fulfill(status=401, json={"detail": "The key is wrong."})

    await explorer.open(f"applications/{slug}/edit", variant=f"{slug}.main")
    await _first_message(page).fill("Be rude.")
    await expect(page.get_by_role("heading", name="What will change: 1 change")).to_be_visible()
    await page.route("**/applications/**", answer)
    await page.get_by_role("button", name="Commit version 1").click()
    prompt = page.get_by_role("dialog")
    await prompt.get_by_role("textbox", name="Key").fill("wrong")
    await prompt.get_by_role("button", name="Use this key").click()
    await expect(prompt.get_by_role("alert")).to_contain_text("The API refused the key")
    is_right = True
    await prompt.get_by_role("textbox", name="Key").fill("right")
    await prompt.get_by_role("button", name="Use this key").click()
    await expect(prompt).to_have_count(0)
    await expect(_first_message(page)).to_have_value("Be rude.")
    await page.get_by_role("button", name="Commit version 1").click()
    await expect(page.get_by_role("heading", name=f"{slug}, version 1")).to_be_visible()


async def test_draft_stays_when_the_variant_is_gone(explorer: Explorer):
    slug, page = _created(explorer.stack), explorer.page

    async def answer(route: Route) -> None:
        await route.fulfill(json={"count": 0, "application_variants": []})

    await explorer.open(f"applications/{slug}/edit", variant=f"{slug}.main")
    await _first_message(page).fill("Be rude.")
    await page.route("**/applications/variants/query", answer)
    await page.route("**/commit", lambda route: route.fulfill(status=401, json={"detail": "The key is wrong."}))
    await page.get_by_role("button", name="Commit version 1").click()
    await page.get_by_role("dialog").get_by_role("textbox", name="Key").fill("of another project")
    await page.get_by_role("dialog").get_by_role("button", name="Use this key").click()
    notice = page.get_by_role("alert").filter(has_text="There is no such variant in the project of this key.")
    await expect(notice).to_be_visible()
    await expect(_first_message(page)).to_have_value("Be rude.")


async def test_text_that_cannot_be_read_keeps_its_field(explorer: Explorer):
    slug, page = _created(explorer.stack), explorer.page
    await explorer.open(f"applications/{slug}/edit", variant=f"{slug}.main")
    second = page.get_by_label("Text of message 2")
    readable = await second.input_value()
    await second.fill("[1,")
    await expect(page.get_by_text("Correct what is marked above first.")).to_be_visible()
    others = [
        page.get_by_role("tab", name="JSON"),
        page.get_by_role("button", name="Add a message"),
        page.get_by_role("button", name="Move message 2 up"),
        page.get_by_role("button", name="Move message 1 down"),
        page.get_by_role("button", name="Remove message 1"),
    ]
    for button in others:
        await expect(button).to_be_disabled()
    await expect(second).to_have_value("[1,")
    await second.fill(readable)
    for button in others:
        await expect(button).to_be_enabled()
