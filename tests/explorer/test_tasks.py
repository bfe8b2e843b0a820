"""What people come for, with 100,000 spans stored: the tasks one after the other, typed, clicked and read."""

from __future__ import annotations

import csv
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any, Final

import pytest
import pytest_asyncio
from playwright.async_api import Browser, Page, expect

from tests.support.explorer import fill_score, open_page
from tests.support.stack import RunningStack

pytestmark = [pytest.mark.long, pytest.mark.asyncio(loop_scope="module")]
SERVICE: Final = "travel-desk"
SESSION: Final = "trip-31"
RUNS: Final = {"7a" * 16: ("Book a room in Porto", ""), "7b" * 16: ("Book a room in Lagos", "The hotel has no room.")}
"""Two runs of an agent, by their ids: what was asked, and why its tool failed."""


def _spans() -> list[dict[str, Any]]:
    """Each run: an agent, a model call and a tool; the tool of the second run failed, and with it the agent."""
    spans: list[dict[str, Any]] = []
    for trace_id, (question, problem) in RUNS.items():
        messages = {"inputs": {"messages": [{"role": "user", "content": question}]}, "outputs": "Done."}
        names = {"agent": {"session": {"id": SESSION}, "data": messages}, "chat": {"data": messages}, "tool": {}}
        for number, (kind, ag) in enumerate(names.items()):
            failed = (
                {"status_code": "STATUS_CODE_ERROR", "status_message": problem} if problem and kind != "chat" else {}
            )
            spans.append({
                "trace_id": trace_id, "span_id": f"{trace_id[:15]}{number}", "span_name": f"{kind} of {SERVICE}",
                "parent_id": f"{trace_id[:15]}0" if number else None, "span_type": kind, **failed,
                "resource": {"attributes": {"service": {"name": SERVICE}}}, "attributes": {"ag": ag},
            })  # fmt: skip
    return spans


@pytest.fixture(scope="module")
def stack(large_stack: RunningStack) -> RunningStack:
    """The stack with the two runs, and an application with two versions of a prompt."""
    large_stack.ask("/tracing/spans/ingest", {"spans": _spans()})
    for trace_id in RUNS:
        large_stack.ask_until(f"/traces/{trace_id}", None, lambda answer: answer["count"] == 1)
    data = {"parameters": {"messages": [{"role": "system", "content": "Find a room."}]}}
    body = {"application": {"slug": SERVICE, "data": data}}
    application = large_stack.ask("/simple/applications/", body)["application"]
    changed = {"parameters": {"messages": [{"role": "system", "content": "Find a quiet room."}]}}
    revision = {"application_variant_id": application["variant_id"], "data": changed}
    large_stack.ask("/applications/revisions/commit", {"application_revision": revision})
    return large_stack


@pytest_asyncio.fixture(loop_scope="module")
async def page(browser: Browser, stack: RunningStack) -> AsyncIterator[Page]:
    async with open_page(browser, stack.api) as opened:
        await opened.page.goto(f"{stack.api}/ui/traces")
        yield opened.page
        assert opened.problems == []


async def _filter(page: Page, text: str) -> None:
    field = page.get_by_role("combobox", name="Add a condition").first
    await field.click()
    await page.keyboard.type(text)
    await page.keyboard.press("Enter")


async def test_rare_value_is_suggested(page: Page):
    await page.get_by_role("combobox", name="Add a condition").first.click()
    await page.keyboard.type(f"service = {SERVICE[:-2]}")
    await expect(page.locator(".suggestions").get_by_role("option", name=SERVICE)).to_be_visible()


async def test_pasted_id_opens_its_trace(page: Page):
    await _filter(page, "7a" * 16)
    await expect(page.locator(".trace-head h1")).to_have_text(f"agent of {SERVICE}")


async def test_failed_run_is_told_apart_and_leads_to_its_cause_and_its_session(page: Page):
    await _filter(page, f"service = {SERVICE}")
    rows = page.locator(".rows .row")
    await expect(rows).to_have_count(2)
    for question, _problem in RUNS.values():
        await expect(rows.filter(has_text=question)).to_have_count(1)
    await _filter(page, "status = error")
    await expect(rows).to_have_count(1)
    await expect(rows).to_contain_text("Book a room in Lagos")
    await rows.locator("a").first.click()
    await page.get_by_role("link", name="Show the cause").click()
    await expect(page.locator(".span-panel h2 bdi")).to_have_text(f"tool of {SERVICE}")
    await expect(page.locator(".span-panel .notice.error")).to_contain_text("The hotel has no room.")
    await page.locator(".trace-head").get_by_role("link", name=SESSION).click()
    await expect(page.locator("h1")).to_have_text(SESSION)
    for question, _problem in RUNS.values():
        await expect(page.get_by_text(question).first).to_be_visible()


async def test_feedback_is_given_and_found_again(page: Page, stack: RunningStack):
    await page.goto(f"{stack.api}/ui/traces/{'7b' * 16}")
    await page.get_by_role("button", name="Feedback").first.click()
    panel = await page.locator(".trace-feedback .panel").bounding_box()
    assert panel is not None
    assert page.viewport_size is not None
    assert panel["x"] + panel["width"] <= page.viewport_size["width"]
    await page.get_by_role("button", name="Write about the trace").click()
    await fill_score(page, "usefulness", "Number", "0.2")
    await page.get_by_role("link", name="Back to the traces").click()
    await page.get_by_role("combobox", name="Add a condition").first.click()
    await page.keyboard.type("usefu")
    await page.locator(".suggestions").get_by_role("option", name="scores.usefulness").click()
    await page.keyboard.type("< 0.5")
    await page.keyboard.press("Enter")
    await expect(page.locator(".rows .row")).to_have_count(1)
    await expect(page.locator(".rows .row")).to_contain_text("Book a room in Lagos")


async def test_two_prompts_are_compared_and_one_is_deployed(page: Page):
    await page.get_by_role("navigation", name="Views").get_by_role("link", name="Applications").click()
    await page.get_by_role("link", name=SERVICE).first.click()
    await page.get_by_role("link", name="v2", exact=True).first.click()
    await expect(page.get_by_role("heading", name=f"{SERVICE}, version 2")).to_be_visible()
    await page.get_by_role("link", name="What changed since v1").click()
    await expect(page.locator("ins").first).to_contain_text("quiet")
    await page.go_back()
    await page.get_by_role("link", name="Deploy", exact=True).first.click()
    await page.get_by_label("Environment").select_option("production")
    await page.get_by_role("button", name="Deploy version 2 to").click()
    await expect(page.get_by_role("status").filter(has_text="is deployed to")).to_be_visible()


async def test_every_session_that_is_seen_has_its_figures(page: Page, stack: RunningStack):
    await page.goto(f"{stack.api}/ui/sessions?oldest=-12h")
    rows = page.locator(".rows .row")
    await expect(rows.first).to_be_visible()
    await page.locator(".scroller").evaluate("element => element.scrollTo(0, element.scrollHeight)")
    await expect(page.get_by_title("Being added up")).to_have_count(0)
    for row in (await rows.all())[:3]:
        name = await row.locator(".c-name").inner_text()
        of_session = {"conditions": [{"field": "session", "operator": "is", "value": name}]}
        query = {"filtering": of_session, "windowing": {"limit": 5_000, "oldest": "-12h"}}
        traces = stack.ask("/traces/summaries/query", query)["summaries"]
        spans_count = sum(trace["spans_count"] for trace in traces)
        await expect(row.locator(".c-spans")).to_have_text(f"{spans_count:,}")
    await page.get_by_role("columnheader").get_by_role("button", name="Errors").click()
    await expect(page.get_by_text("being added up")).to_have_count(0)
    await page.locator(".scroller").evaluate("element => element.scrollTo(0, 0)")
    errors = [int(text.replace(",", "") or 0) for text in await page.locator(".rows .c-errors").all_inner_texts()]
    assert errors == sorted(errors, reverse=True)
    assert errors[0] > 0


async def test_list_is_exported(page: Page, tmp_path: Path):
    await page.get_by_role("navigation", name="Views").get_by_role("link", name="Spans").click()
    await _filter(page, f"service = {SERVICE}")
    await expect(page.locator(".rows .row")).to_have_count(6)
    await page.get_by_role("button", name="Share", exact=True).click()
    async with page.expect_download() as waiting:
        await page.get_by_role("button", name="All spans as CSV").click()
    await (await waiting.value).save_as(tmp_path / "spans.csv")
    with (tmp_path / "spans.csv").open(newline="") as file:
        assert len(list(csv.DictReader(file))) == 6
