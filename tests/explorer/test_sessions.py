"""Sessions in a browser: what they took is what their traces took."""

from __future__ import annotations

import json
from collections import defaultdict
from typing import Any
from urllib.parse import parse_qs, urlsplit

import pytest
from playwright.async_api import expect

from tests.support.explorer import Explorer

pytestmark = [pytest.mark.long, pytest.mark.asyncio(loop_scope="module")]


def _traces_of(explorer: Explorer, session_id: str) -> list[dict[str, Any]]:
    of_session = {"field": "attributes", "key": "ag.session.id", "operator": "is", "value": session_id}
    query = {"filtering": {"conditions": [of_session]}, "windowing": {"limit": 1000, "order": "ascending"}}
    return list(explorer.stack.ask("/traces/summaries/query", query)["summaries"])


def _shown(count: float) -> str:
    if count < 10_000:
        return f"{count:,}" if count else ""
    return f"{count / 1_000:.1f}".removesuffix(".0") + "K"


async def test_sessions_show_the_totals_of_their_traces(explorer: Explorer):
    ids = explorer.stack.ask("/spans/sessions/query", {"windowing": {"limit": 1000}})["session_ids"]
    expected: dict[str, list[str]] = defaultdict(list)
    for session_id in ids:
        traces = _traces_of(explorer, session_id)
        totals = [sum(trace.get(name) or 0 for trace in traces) for name in ("spans_count", "errors_count", "tokens")]
        expected[session_id] = [str(len(traces)), *map(_shown, totals)]
    await explorer.open("sessions")

    async def shown() -> dict[str, list[str]]:
        columns = [await explorer.texts(f".rows .row .c-{name}") for name in ("turns", "spans", "errors", "tokens")]
        names = await explorer.texts(".rows .row .c-name")
        return {name: list(row) for name, row in zip(names, zip(*columns, strict=True), strict=True)}

    assert await shown() == expected
    await explorer.survives(shown)


async def test_session_shows_its_totals_and_its_turns_in_order(explorer: Explorer):
    session_id = "thread-5"
    traces = _traces_of(explorer, session_id)
    await explorer.open("sessions")
    await explorer.page.get_by_role("link", name=session_id).click()

    async def shown() -> tuple[str, str, list[str | None]]:
        facts = explorer.page.locator(".session-totals div")
        turns = facts.filter(has_text="Turns").locator("dd")
        tokens = facts.filter(has_text="Tokens").locator("dd")
        await expect(explorer.page.locator(".turn")).to_have_count(len(traces))
        times = [await time.get_attribute("datetime") for time in await explorer.page.locator(".turn time").all()]
        return await turns.inner_text(), await tokens.inner_text(), times

    tokens = sum(trace.get("tokens") or 0 for trace in traces)
    assert await shown() == (str(len(traces)), f"{tokens:,}", [trace["start_time"] for trace in traces])
    await explorer.survives(shown)


async def test_session_of_a_span_filters_and_leads_to_its_page(explorer: Explorer):
    of_session = {"conditions": [{"field": "session", "value": "thread-5"}]}
    count = explorer.stack.ask("/spans/query", {"filtering": of_session, "windowing": {"limit": 1000}})["count"]
    await explorer.open("spans")
    await explorer.page.keyboard.press("/")
    await explorer.page.keyboard.type("session=thread-5")
    await explorer.page.keyboard.press("Enter")
    await expect(explorer.page.locator(".chip-text")).to_have_text("session = thread-5")
    await expect(explorer.page.locator(".table")).to_have_attribute("aria-rowcount", str(count))
    await explorer.page.locator(".rows .row a").first.click()
    await explorer.page.locator(".span-panel").get_by_role("link", name="thread-5").click()
    await expect(explorer.page.locator("h1")).to_have_text("thread-5")


async def test_session_that_looks_like_a_number_is_a_text(explorer: Explorer):
    await explorer.open("spans")
    await explorer.page.keyboard.press("/")
    await explorer.page.keyboard.type("session = 42")
    await explorer.page.keyboard.press("Enter")
    await expect(explorer.page.locator(".chip-text")).to_have_text("session = 42")
    assert json.loads(parse_qs(urlsplit(explorer.page.url).query)["filter"][0])["conditions"][0]["value"] == "42"
