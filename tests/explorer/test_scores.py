"""Scores in a browser: columns of a list, sorted, their distribution, and what gave them on the page of a trace."""

from __future__ import annotations

import time
from typing import Any, Final

import pytest
from playwright.async_api import expect

from tests.support.explorer import PATIENCE_MS, Explorer

pytestmark = [pytest.mark.long, pytest.mark.asyncio(loop_scope="module")]

JUDGED: Final = {"conditions": [{"field": "span_name", "operator": "is", "value": "judged answer"}]}
SPANS_COUNT: Final = 12
AT: Final = "2026-01-07T03:00:09Z"
NAMES: Final = ("Relevance", "tone of voice")


def span_of(number: int) -> dict[str, Any]:
    """A span with a number between 0 and 1.1, and every other one with a label."""
    label = {"name": NAMES[1], "label": "kind" if number % 3 else "curt", "at": AT}
    value = {"name": NAMES[0], "value": number / 10, "explanation": f"It answers {number} of 11.", "at": AT}
    return {
        "trace_id": f"5c0e{number:028x}", "span_id": f"5c0e{number:012x}", "span_name": "judged answer",
        "start_time": f"2026-01-07T03:00:{number:02}Z", "end_time": f"2026-01-07T03:00:{number:02}.5Z",
        "scores": [value, label] if number % 2 else [value],
    }  # fmt: skip


@pytest.fixture
def judged(explorer: Explorer) -> Explorer:
    """The page over spans with scores, one of them given by an annotation."""
    ask = explorer.stack.ask
    first = {"trace_id": span_of(0)["trace_id"], "span_id": span_of(0)["span_id"]}
    if ask("/spans/query", {"filtering": JUDGED})["count"] == 0:
        ask("/tracing/spans/ingest", {"spans": [span_of(number) for number in range(SPANS_COUNT)]})
        annotation = {"data": {"outputs": {"thumb": "down"}}, "references": {"evaluator": {"slug": "thumbs"}}}
        ask("/annotations", {"annotation": {**annotation, "links": {"answer": first}}})
    thumbed = {"conditions": [*JUDGED["conditions"], {"field": "scores", "key": "thumb", "operator": "exists"}]}
    _wait_for(explorer, {"conditions": [*JUDGED["conditions"], {"field": "scores", "operator": "exists"}]}, SPANS_COUNT)
    _wait_for(explorer, thumbed, 1)
    return explorer


def _wait_for(explorer: Explorer, filtering: Any, count: int) -> None:
    deadline_s = time.monotonic() + PATIENCE_MS / 1_000
    while explorer.stack.ask("/spans/query", {"filtering": filtering})["count"] != count:
        assert time.monotonic() < deadline_s, filtering
        time.sleep(0.2)


async def test_scores_in_a_list_sorted(judged: Explorer):
    page = judged.page
    await judged.open("spans", filter=JUDGED)
    await expect(page.locator(".rows .row")).to_have_count(SPANS_COUNT)
    await page.get_by_role("button", name="Columns").click()
    await page.get_by_role("checkbox", name="Relevance").check()
    await page.keyboard.press("Escape")
    cells = page.locator(".rows .row .c-scores_Relevance > span")
    await expect(cells.first).to_have_text("1.1")

    title = page.get_by_role("columnheader").get_by_role("button", name="Relevance")
    await title.click()
    await expect(page.locator(".ranking")).to_contain_text("by scores.Relevance")
    highest_first = [str(number / 10).removesuffix(".0") for number in range(SPANS_COUNT)][::-1]
    await expect(cells).to_have_text(highest_first)
    await title.click()
    await expect(cells).to_have_text(highest_first[::-1])
    assert await title.locator("xpath=..").get_attribute("aria-sort") == "ascending"
    await judged.survives(lambda: judged.texts(".rows .row .c-scores_Relevance > span"))


async def test_order_offers_only_scores_that_are_numbers(judged: Explorer):
    await judged.open("spans", filter=JUDGED)
    await expect(judged.page.locator(".rows .row")).to_have_count(SPANS_COUNT)
    offered = await judged.texts("select[aria-label=Order] option, .select option")
    assert ("By Relevance" in offered, f"By {NAMES[1]}" in offered) == (True, False)


async def test_distribution_of_a_score_filters(judged: Explorer):
    page = judged.page
    await judged.open("spans", filter=JUDGED, sort="scores.Relevance")
    numbers = page.locator(".score-overview", has_text="Relevance")
    await expect(numbers.locator("figcaption")).to_contain_text("of 12 spans")
    await expect(numbers.locator("li")).to_have_count(10)
    counts = [int(text) for text in await numbers.locator("li > span:last-child").all_inner_texts()]
    assert sum(counts) == SPANS_COUNT
    await numbers.get_by_role("button").last.click()
    await expect(page.locator(".table")).to_have_attribute("aria-rowcount", str(counts[-1]))

    await judged.open("spans", filter=JUDGED, sort=f"scores.{NAMES[1]}")
    labels = page.locator(".score-overview", has_text=NAMES[1])
    await expect(labels.get_by_role("button")).to_have_text(["kind", "curt"])
    await labels.get_by_role("button", name="curt").click()
    await expect(page.locator(".chip-text").last).to_contain_text("curt")


async def test_scores_of_a_span_say_what_gave_them(judged: Explorer):
    page = judged.page
    span = span_of(0)
    await judged.open(f"traces/{span['trace_id']}", span=span["span_id"], tab="scores")
    await expect(page.get_by_role("tab", name="Feedback 2")).to_have_attribute("aria-selected", "true")
    shown = page.locator(".score")
    await expect(shown.first).to_contain_text("thumb down")
    await expect(shown.last).to_contain_text("It answers 0 of 11.")
    await expect(shown.last).to_contain_text("from an event")
    await shown.first.get_by_role("link", name="from an annotation").click()
    await expect(page.locator(".span-panel h2")).to_contain_text("thumbs")
