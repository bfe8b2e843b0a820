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
    await explorer.page.set_viewport_size({"width": 1280, "height": 400 + 40 * len(ids)})  # all rows are drawn
    await explorer.open("sessions")

    async def shown() -> dict[str, list[str]]:
        await expect(explorer.page.locator(".rows .row").first).to_be_visible()
        await expect(explorer.page.get_by_title("Being added up")).to_have_count(0)
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
    await expect(explorer.page.get_by_role("combobox", name="Add a condition")).to_be_visible()
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
    await expect(explorer.page.get_by_role("combobox", name="Add a condition")).to_be_visible()
    await explorer.page.keyboard.press("/")
    await explorer.page.keyboard.type("session = 42")
    await explorer.page.keyboard.press("Enter")
    await expect(explorer.page.locator(".chip-text")).to_have_text("session = 42")
    assert json.loads(parse_qs(urlsplit(explorer.page.url).query)["filter"][0])["conditions"][0]["value"] == "42"


ASKED: dict[str, tuple[tuple[str, str], ...]] = {
    "desk-1": (("Is there a lamp?", "Yes."), ("And a chair?", "Two of them.")),
    "desk-2": (("Where is the key?", "Under the mat."),),
}
DESK = {"conditions": [{"field": "service", "operator": "is", "value": "front-desk"}]}


def _desk_spans() -> list[dict[str, Any]]:
    """A trace for each question, of two spans: only the root names the session, and only the other one its words."""
    spans: list[dict[str, Any]] = []
    for place, (session, turns) in enumerate(ASKED.items()):
        for turn, (question, answer) in enumerate(turns):
            ids = {"trace_id": f"de5c{place}{turn:027x}"}
            times = {"start_time": f"2026-02-07T1{place}:0{turn}:00Z", "end_time": f"2026-02-07T1{place}:0{turn}:01Z"}
            data = {"inputs": {"messages": [{"role": "user", "content": question}]},
                    "outputs": {"messages": [{"role": "assistant", "content": answer}]}}  # fmt: skip
            root = {
                "span_id": f"de5c{place}{turn:010x}0",
                "span_name": "answer",
                "attributes": {"ag": {"session": {"id": session}, "user": {"id": f"guest of {session}"}}},
            }
            cost = {"metrics": {"costs": {"incremental": {"total": 0.5 - place / 10}}}}
            call = {"span_id": f"de5c{place}{turn:010x}1", "parent_id": root["span_id"], "span_name": "chat", "span_type": "chat",
                    "attributes": {"ag": {"type": {"span": "chat"}, "data": data, **cost}}}  # fmt: skip
            service = {"resource": {"attributes": {"service": {"name": "front-desk"}}}}
            spans += [{**ids, **times, **service, **span} for span in (root, call)]
    return spans


async def test_sessions_are_filtered_searched_and_ordered(explorer: Explorer):
    page, ask = explorer.page, explorer.stack.ask
    if ask("/spans/query", {"filtering": DESK})["count"] == 0:
        ask("/tracing/spans/ingest", {"spans": _desk_spans()})
    explorer.stack.ask_until("/spans/query", {"filtering": DESK}, lambda answer: answer["count"] == 6)
    cells = lambda column: page.locator(f".rows .row .c-{column} > :not(button)")  # noqa: E731
    await explorer.open("sessions", filter=DESK)
    await expect(cells("name")).to_have_text(["desk-2", "desk-1"])
    await expect(cells("question")).to_have_text(["Where is the key?", "Is there a lamp?"])
    await expect(cells("answer")).to_have_text(["Under the mat.", "Two of them."])
    await expect(cells("user")).to_have_text(["guest of desk-2", "guest of desk-1"])
    await expect(page).to_have_title("service = front-desk · Sessions · Clearspan")

    title = page.get_by_role("columnheader").get_by_role("button", name="Turns")
    await title.click()
    await expect(page.locator(".rows .row .c-turns")).to_have_text(["2", "1"])
    await title.click()
    await expect(page.locator(".rows .row .c-turns")).to_have_text(["1", "2"])
    await page.reload()
    await expect(page.locator(".rows .row .c-turns")).to_have_text(["1", "2"])

    await page.keyboard.press("/")
    await page.keyboard.type("chair")  # in a span that names no session
    await page.keyboard.press("Enter")
    await expect(cells("name")).to_have_text(["desk-1"])
    await expect(page.locator(".rows .row .c-turns")).to_have_text(["2"])  # of the whole session
    await page.locator(".rows .row a").first.click()
    await page.get_by_role("link", name="Back to the sessions").click()
    await expect(page.locator(".chip-text")).to_have_count(2)
    await page.keyboard.press("/")
    await page.keyboard.type("nonsense ~ (")
    await page.keyboard.press("Enter")
    await expect(page.locator(".chip-problem").first).to_be_visible()
