"""The page over a stack with authentication: its projects, the empty page whose commands work, and signing out."""

from __future__ import annotations

import asyncio
import json
import re
import urllib.request
from collections.abc import AsyncIterator, Iterator
from typing import Any

import pytest
import pytest_asyncio
from playwright.async_api import Browser, Dialog, Page, expect

from tests.support.explorer import open_page
from tests.support.stack import RunningStack, running_stack

pytestmark = [pytest.mark.long, pytest.mark.asyncio(loop_scope="module")]
ADMIN_KEY = "administrator-of-projects"


@pytest.fixture(scope="module")
def stack(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RunningStack]:
    """A stack without spans that demands keys."""
    environment = {"CLEARSPAN_AUTH": "on", "CLEARSPAN_ADMIN_KEY": ADMIN_KEY}
    with running_stack(tmp_path_factory.mktemp("projects") / "data", **environment) as running:
        yield running


def _ask(stack: RunningStack, path: str, body: Any, authorization: str) -> Any:
    headers = {"content-type": "application/json", "authorization": authorization}
    data = None if body is None else json.dumps(body).encode()
    with urllib.request.urlopen(urllib.request.Request(stack.api + path, data, headers), timeout=120) as answer:
        return json.load(answer)


def _key(stack: RunningStack, email: str) -> str:
    options = {"create_api_keys": True, "return_api_keys": True}
    body = {"accounts": {"a": {"user": {"email": email}, "options": options}}}
    made = _ask(stack, "/admin/simple/accounts/", body, f"Access {ADMIN_KEY}")["accounts"]["a"]
    return str(made["api_keys"]["key"])


@pytest_asyncio.fixture(loop_scope="module")
async def page(browser: Browser, stack: RunningStack) -> AsyncIterator[Page]:
    async with open_page(browser, stack.api) as opened:
        yield opened.page
        assert opened.problems == []


async def _enter(page: Page, key: str) -> None:
    await page.get_by_role("textbox", name="Key").fill(key)
    await page.get_by_role("button", name="Use this key").click()


async def test_first_span_is_sent_by_the_command_of_the_empty_page(page: Page, stack: RunningStack) -> None:
    key = _key(stack, "empty@example.org")
    await page.goto(f"{stack.api}/ui/")
    await _enter(page, key)
    notice = page.locator(".notice.empty")
    await expect(notice.get_by_role("heading", name="No spans yet")).to_be_visible()
    assert key not in await page.content()
    command = await notice.locator("pre", has_text="curl").inner_text()
    shell = await asyncio.create_subprocess_exec(
        "sh", "-eu", "-c", f"CLEARSPAN_KEY='{key}'\n{command}", stdout=asyncio.subprocess.PIPE
    )
    output, _ = await shell.communicate()
    assert json.loads(output)["count"] == 1
    await page.goto(f"{stack.api}/ui/spans?oldest=all")
    for _ in range(200):
        if await page.locator(".rows .row").count():
            break
        await page.reload()
        await page.locator(".rows .row, .notice.empty").first.wait_for()
    await expect(page.locator(".rows .row")).to_have_text(re.compile("hello"))


async def test_projects_are_kept_and_switched_until_signing_out(page: Page, stack: RunningStack) -> None:
    first, second = _key(stack, "first@example.org"), _key(stack, "second@example.org")
    ids = {key: _ask(stack, "/projects/current", None, f"ApiKey {key}")["project_id"] for key in (first, second)}
    body = {"spans": [{"trace_id": "7d" * 16, "span_id": "7d" * 8, "span_name": "of the first"}]}
    _ask(stack, "/tracing/spans/ingest", body, f"ApiKey {first}")
    await page.goto(f"{stack.api}/ui/traces?oldest=all")
    await _enter(page, first)
    menu = page.locator(".project-menu")
    name = _ask(stack, "/projects/current", None, f"ApiKey {first}")["project_name"]
    await expect(menu.get_by_role("button").first).to_have_text(name)

    await menu.get_by_role("button").first.click()
    await menu.get_by_role("button", name="Another project…").click()
    await _enter(page, "wrong")
    await expect(page.get_by_role("dialog").get_by_role("alert")).to_contain_text("refused this key")
    await _enter(page, second)
    await expect(page.get_by_role("heading", name="No spans yet")).to_be_visible()
    stored = "JSON.parse(sessionStorage.getItem('clearspan-projects')).map(project => project.id)"
    assert set(await page.evaluate(stored)) == set(ids.values())

    await menu.get_by_role("button").first.click()
    await menu.locator(".item[aria-pressed=false]").click()
    await page.wait_for_function(f"sessionStorage.getItem('clearspan-key-project') === {json.dumps(first)}")
    await page.reload()
    await expect(menu).to_be_visible()
    assert await page.evaluate("sessionStorage.getItem('clearspan-key-project')") == first

    await menu.get_by_role("button").first.click()
    await menu.get_by_role("button", name="Sign out").click()
    await expect(page.get_by_role("dialog", name="This installation needs an API key")).to_be_visible()
    await expect(menu).to_have_count(0)
    kept = await page.evaluate("JSON.stringify({...sessionStorage}) + JSON.stringify({...localStorage})")
    assert not [key for key in (first, second) if key in kept]


async def test_unsaved_changes_keep_the_project(page: Page, stack: RunningStack) -> None:
    first, second = _key(stack, "drafts@example.org"), _key(stack, "other@example.org")
    body = {"application": {"slug": "drafted", "name": "D", "data": {"parameters": {"prompt": "Be kind."}}}}
    _ask(stack, "/simple/applications/", body, f"ApiKey {first}")
    [variant] = _ask(stack, "/applications/variants/query", {}, f"ApiKey {first}")["application_variants"]
    questions: list[str] = []

    async def stay(dialog: Dialog) -> None:
        questions.append(dialog.message)
        await dialog.dismiss()

    await page.goto(f"{stack.api}/ui/applications/drafted/edit?variant={variant['slug']}")
    await _enter(page, first)
    prompt = page.get_by_label("prompt")
    await prompt.fill("Be rude.")
    page.on("dialog", stay)
    menu = page.locator(".project-menu")
    await menu.get_by_role("button").first.click()
    await menu.get_by_role("button", name="Another project…").click()
    async with page.expect_event("dialog"):
        await _enter(page, second)
    await page.keyboard.press("Escape")
    await menu.get_by_role("button").first.click()
    async with page.expect_event("dialog"):
        await menu.get_by_role("button", name="Sign out").click()
    await expect(prompt).to_have_value("Be rude.")
    assert await page.evaluate("sessionStorage.getItem('clearspan-key-project')") == first

    page.remove_listener("dialog", stay)

    async def leave(dialog: Dialog) -> None:
        questions.append(dialog.message)
        await dialog.accept()

    page.on("dialog", leave)
    await page.get_by_role("button", name="Sign out").click()
    await expect(page.get_by_role("dialog", name="This installation needs an API key")).to_be_visible()
    assert questions == ["Leave this page? What you changed is not committed."] * 3
