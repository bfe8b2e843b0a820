"""The lists of traces and spans, in a browser over the samples: what they show is what the API returns."""

from __future__ import annotations

import asyncio
import json
import re
import time
import uuid
from contextlib import suppress
from typing import Any
from urllib.parse import parse_qs, quote, urlsplit

import pytest
from playwright.async_api import Request, Route, expect

from tests.support.explorer import Explorer

pytestmark = [pytest.mark.long, pytest.mark.asyncio(loop_scope="module")]
SCROLL_AND_RENDER = """async (element) => {
  element.scrollBy(0, element.clientHeight - 60);
  await new Promise((rendered) => requestAnimationFrame(() => requestAnimationFrame(rendered)));
}"""
TRIES = 10
FAILED = {"conditions": [{"field": "status_code", "operator": "is", "value": "STATUS_CODE_ERROR"}]}


async def test_spans_are_listed_as_the_api_returns_them(explorer: Explorer):
    await explorer.open("spans", aside="1")
    await expect(explorer.page.locator(".rows .row").first).to_be_visible()
    page = explorer.stack.ask("/spans/query", {"windowing": {"limit": 10}})
    names = await explorer.texts(".rows .row .name")
    assert names[:10] == [span["span_name"] for span in page["spans"]]


async def test_scrolling_loads_every_span_once(explorer: Explorer):
    counted = explorer.stack.ask("/spans/groups/query", {"measures": [{"of": "count"}]})
    spans_count = counted["groups"][0]["values"]["count"]
    await explorer.open("spans", aside="1")
    await expect(explorer.page.locator(".rows .row").first).to_be_visible()
    table = explorer.page.locator(".scroller")
    seen: set[str] = set()
    deadline_s = time.monotonic() + 240
    while len(seen) < spans_count:
        assert time.monotonic() < deadline_s, f"{len(seen)} of {spans_count} rows"
        seen.update(await explorer.page.eval_on_selector_all(".rows .row a", "links => links.map(a => a.href)"))
        await table.evaluate(SCROLL_AND_RENDER)
    await expect(explorer.page.locator(".table-foot")).to_have_text(f"All {spans_count:,} are shown.")
    await expect(explorer.page.locator(".table")).to_have_attribute("aria-rowcount", str(spans_count))


async def test_a_single_span_is_said_to_be_the_only_one(explorer: Explorer):
    (span,) = explorer.stack.ask("/spans/query", {"windowing": {"limit": 1}})["spans"]
    conditions = [{"field": field, "value": span[field]} for field in ("trace_id", "span_id")]
    await explorer.open("spans", filter={"conditions": conditions})
    await expect(explorer.page.locator(".table-foot")).to_have_text("This is the only one.")


async def test_typed_condition_filters_and_stays_in_the_address(explorer: Explorer):
    await explorer.open("spans", aside="1")
    await expect(explorer.page.get_by_role("combobox", name="Add a condition")).to_be_visible()
    await explorer.page.keyboard.press("/")
    await explorer.page.keyboard.type("status_code = STATUS_CODE_ERROR")
    await explorer.page.keyboard.press("Enter")
    await expect(explorer.page.locator(".chip-text")).to_have_text("status_code = STATUS_CODE_ERROR")
    expected = explorer.stack.ask("/spans/query", {"filtering": FAILED, "windowing": {"limit": 1000}})["count"]
    await expect(explorer.page.locator(".table")).to_have_attribute("aria-rowcount", str(expected))
    await explorer.page.reload()
    await expect(explorer.page.locator(".table")).to_have_attribute("aria-rowcount", str(expected))
    await explorer.page.go_back()
    await expect(explorer.page.locator(".chip-text")).to_have_count(0)
    await explorer.page.go_forward()
    await expect(explorer.page.locator(".chip-text")).to_have_count(1)


async def test_wrong_condition_is_explained_at_its_place(explorer: Explorer):
    conditions = [{"field": "span_type", "value": "chat"}, {"field": "nonsense", "value": 1}]
    await explorer.open("spans", filter={"conditions": conditions})
    wrong = explorer.page.locator(".chip.wrong")
    await expect(wrong).to_contain_text("'nonsense' is not a field")
    assert await explorer.page.locator(".notice.error").count() == 0


async def test_filter_can_be_edited_as_json(explorer: Explorer):
    await explorer.open("spans")
    await explorer.page.get_by_role("button", name="JSON").click()
    await explorer.page.get_by_label("The filter as JSON").fill(json.dumps(FAILED))
    await explorer.page.get_by_role("button", name="Apply").click()
    await expect(explorer.page.locator(".chip-text")).to_have_text("status_code = STATUS_CODE_ERROR")


async def test_ranking_by_cost_is_labeled_and_in_order(explorer: Explorer):
    await explorer.open("spans", sort="cost", aside="1")
    await expect(explorer.page.locator(".ranking")).to_contain_text("first 100 spans by cost")
    page = explorer.stack.ask("/spans/query", {"windowing": {"limit": 5, "sort": {"by": "cost"}}})
    names = await explorer.texts(".rows .row .name")
    assert names[:5] == [span["span_name"] for span in page["spans"]]
    await explorer.page.get_by_role("button", name="Tokens").click()
    await expect(explorer.page.locator(".ranking")).to_contain_text("first 100 spans by tokens")
    await explorer.page.get_by_role("button", name="Started").click()
    await expect(explorer.page.locator(".ranking")).to_have_count(0)


async def test_traces_show_the_totals_of_the_api(explorer: Explorer):
    await explorer.open("traces", columns="spans", aside="1")
    await expect(explorer.page.locator(".rows .row").first).to_be_visible()
    summaries = explorer.stack.ask("/traces/summaries/query", {"windowing": {"limit": 5}})["summaries"]
    assert (await explorer.texts(".rows .row .name"))[:5] == [summary["span_name"] for summary in summaries]
    assert (await explorer.texts(".rows .row .c-spans"))[:5] == [str(summary["spans_count"]) for summary in summaries]


async def test_live_shows_a_new_span_within_two_seconds(explorer: Explorer):
    await explorer.open("spans", live="1")
    await expect(explorer.page.locator(".live.on")).to_be_visible()
    newest = explorer.page.locator(".rows .row .name").first
    names = [f"arrived just now {number}" for number in range(1, TRIES + 1)]
    for name in names:  # the page may not listen yet, and a busy machine may take longer once
        span = {"trace_id": uuid.uuid4().hex, "span_id": "cd" * 8, "span_name": name}
        explorer.stack.ask("/tracing/spans/ingest", {"spans": [span]})
        with suppress(AssertionError):
            await expect(newest).to_have_text(name, timeout=2_000)
            return
    pytest.fail(f"none of {TRIES} spans was shown within two seconds")


async def test_live_says_what_stopped_it_and_begins_again(explorer: Explorer):
    page, feed_statuses = explorer.page, [503, 400, 200]

    async def refuse(route: Route) -> None:
        is_feed = (route.request.post_data_json or {}).get("windowing", {}).get("by") == "created_at"
        status = feed_statuses.pop(0) if is_feed and feed_statuses else 200
        if status == 200:
            await route.continue_()
        else:
            await route.fulfill(status=status, json={"detail": "windowing.next: it is no cursor of this feed."})

    await page.clock.install()
    await page.route("**/spans/query", refuse)
    await explorer.open("spans", live="1")
    alert = page.get_by_role("alert")
    await page.clock.run_for(3_000)  # the first answer is repeated
    await expect(alert).to_contain_text("Live has stopped. windowing.next: it is no cursor of this feed.")
    await page.clock.run_for(10_000)
    assert feed_statuses == [200]
    await expect(page.locator(".rows .row").first).to_be_visible()
    async with page.expect_response("**/spans/query"):  # the feed begins
        await alert.get_by_role("button", name="Try again").press("Enter")  # a pointer over the list would hold rows
    await expect(alert).to_have_count(0)
    name = f"after the stop {uuid.uuid4().hex}"
    span = {"trace_id": uuid.uuid4().hex, "span_id": "ce" * 8, "span_name": name}
    explorer.stack.ask("/tracing/spans/ingest", {"spans": [span]})
    await expect(page.locator(".rows .row .name").first).to_have_text(name)


async def test_live_asks_again_for_traces_whose_summaries_failed(explorer: Explorer):
    page = explorer.page
    refused: list[Request] = []

    async def refuse_once(route: Route) -> None:
        if "trace_id" in (route.request.post_data or "") and not refused:
            refused.append(route.request)
            await route.fulfill(status=503, json={"detail": "The engine is not available."})
        else:
            await route.continue_()

    await page.route("**/traces/summaries/query", refuse_once)
    async with page.expect_response("**/spans/query"):  # the feed begins
        await explorer.open("traces", live="1")
    name = f"asked twice {uuid.uuid4().hex}"
    span = {"trace_id": uuid.uuid4().hex, "span_id": "cf" * 8, "span_name": name}
    explorer.stack.ask("/tracing/spans/ingest", {"spans": [span]})
    await expect(page.locator(".rows .row .name").first).to_have_text(name)
    assert len(refused) == 1


async def test_histogram_zooms_by_dragging(explorer: Explorer):
    await explorer.open("spans", oldest="2026-01-01T00:00:00Z", newest="2027-01-01T00:00:00Z")
    over = explorer.page.locator(".histogram .u-over")
    box = await over.bounding_box()
    assert box is not None
    await explorer.page.mouse.move(box["x"] + box["width"] * 0.4, box["y"] + 20)
    await explorer.page.mouse.down()
    await explorer.page.mouse.move(box["x"] + box["width"] * 0.6, box["y"] + 20, steps=5)
    await explorer.page.mouse.up()
    await expect(explorer.page).not_to_have_url("**oldest=2026-01-01T00%3A00%3A00Z**")
    assert "oldest=2026" in explorer.page.url


@pytest.mark.parametrize(
    ("typed", "condition"),
    [
        ("status = error", {"field": "status_code", "operator": "is", "value": "STATUS_CODE_ERROR"}),
        ("type is agent", {"field": "span_type", "operator": "is", "value": "agent"}),
        ("duration > 0.1s", {"field": "duration", "operator": "gt", "value": 100}),
        ("cost > $0.01", {"field": "cost", "operator": "gt", "value": 0.01}),
        (
            "attributes.http.status >= 500",
            {"field": "attributes", "key": "http.status", "operator": "gte", "value": 500},
        ),
        ("span_type in chat, tool", {"field": "span_type", "operator": "in", "value": ["chat", "tool"]}),
        ("card declined", {"field": "content", "operator": "contains", "value": "card declined"}),
    ],
)
async def test_typed_text_becomes_this_condition(typed: str, condition: dict[str, Any], explorer: Explorer):
    await explorer.open("spans")
    await explorer.page.get_by_role("combobox", name="Add a condition").fill(typed)
    await explorer.page.keyboard.press("Enter")
    await expect(explorer.page.locator(".chip-text")).to_have_count(1)
    [filtering] = parse_qs(urlsplit(explorer.page.url).query)["filter"]
    assert json.loads(filtering) == {"conditions": [condition]}


async def test_keys_select_and_open_a_row_of_a_fresh_page(explorer: Explorer):
    await explorer.open("spans")
    await expect(explorer.page.locator(".rows .row").first).to_be_visible()
    await explorer.page.keyboard.press("j")
    await expect(explorer.page.locator(".rows .row.selected")).to_have_count(1)
    await explorer.page.keyboard.press("Enter")
    await expect(explorer.page.locator(".wf-row.selected")).to_be_visible()


async def test_list_without_a_range_shows_the_last_day_if_it_has_spans_and_else_all_time(explorer: Explorer):
    span = {"trace_id": "ac" * 16, "span_id": "ac" * 8, "span_name": "of today"}
    explorer.stack.ask("/tracing/spans/ingest", {"spans": [span]})
    explorer.stack.ask_until(f"/spans/{span['trace_id']}/{span['span_id']}", None, lambda answer: answer["count"] == 1)
    for value, button in (("of today", "Last 24 hours"), ("desk_agent", "All time")):
        named = json.dumps({"conditions": [{"field": "span_name", "value": value}]})
        await explorer.page.goto(f"{explorer.stack.api}/ui/spans?filter={quote(named)}")
        await expect(explorer.page.get_by_role("button", name=button)).to_be_visible()
        assert await explorer.text(".rows .row .name") == value
    await explorer.survives(lambda: explorer.text(".rows .row .name"))


async def test_values_of_a_row_become_conditions_by_keyboard(explorer: Explorer):
    await explorer.open("spans")
    await expect(explorer.page.locator(".rows .row").first).to_be_visible()
    [first] = explorer.stack.ask("/spans/query", {"windowing": {"limit": 1}})["spans"]
    for key in ("j", "Tab", "Enter"):
        await explorer.page.keyboard.press(key)
    await expect(explorer.page.get_by_role("button", name="Only this")).to_be_focused()
    await explorer.page.keyboard.press("ArrowDown")
    await explorer.page.keyboard.press("Enter")
    await expect(explorer.page.locator(".chip-text")).to_have_text(f"span_name != {first['span_name']}")
    others = {"conditions": [{"field": "span_name", "operator": "is_not", "value": first["span_name"]}]}
    [second] = explorer.stack.ask("/spans/query", {"filtering": others, "windowing": {"limit": 1}})["spans"]
    await expect(explorer.page.locator(".rows .row .name").first).to_have_text(second["span_name"])


async def test_other_root_is_left_out_of_the_traces(explorer: Explorer):
    await explorer.open("traces")
    name = await explorer.text(".rows .row .name")
    await explorer.page.locator(".rows .row .c-name").first.hover()
    await explorer.page.get_by_role("button", name=f"Filter by {name}").first.click()
    await explorer.page.get_by_role("button", name="Not this").click()
    await expect(explorer.page.locator(".chip-text")).to_have_count(2)
    await expect(explorer.page.locator(".rows .row .name").first).not_to_have_text(name)
    assert name not in await explorer.texts(".rows .row .name")


async def test_completion_asks_only_what_the_api_can_answer(explorer: Explorer):
    refused: list[str] = []
    explorer.page.on("response", lambda response: refused.append(response.url) if response.status >= 400 else None)
    await explorer.open("spans")
    field = explorer.page.get_by_role("combobox", name="Add a condition")
    for name in ("links", "events", "content", "references", "attributes", "nonsense", "trace_id"):
        await field.fill(f"{name} = x")
        await explorer.page.wait_for_timeout(200)
    await field.fill("service = library")
    await expect(explorer.page.get_by_role("option", name="library-desk")).to_be_visible()
    assert refused == []


async def test_width_of_the_names_is_kept(explorer: Explorer):
    await explorer.open("spans")
    resizer = explorer.page.get_by_role("separator", name="Width of the names")
    await resizer.focus()
    cell = explorer.page.locator(".row.head .c-name")
    before = await cell.evaluate("element => element.clientWidth")
    for _ in range(3):
        await explorer.page.keyboard.press("ArrowRight")
    await explorer.page.reload()
    await expect(cell).to_be_visible()
    assert await cell.evaluate("element => element.clientWidth") == before + 60


async def test_way_back_from_a_trace_keeps_the_filter(explorer: Explorer):
    await explorer.open("spans", filter=FAILED)
    rows = explorer.page.locator(".rows .row")
    for is_browser in (True, False):
        address = explorer.page.url
        await rows.locator("a").first.click()
        await explorer.page.locator(".wf-row").first.click()
        if is_browser:
            await expect(explorer.page).to_have_url(re.compile("span="))
            await explorer.page.go_back()
        else:
            await explorer.page.reload()
            await explorer.page.get_by_role("link", name="Back to the spans").click()
        await expect(explorer.page.locator(".chip-text")).to_have_text("status_code = STATUS_CODE_ERROR")
        assert explorer.page.url == address


async def test_old_rows_are_marked_under_a_new_filter_and_gone_under_a_failed_one(explorer: Explorer):
    await explorer.open("spans")
    holder, rows = explorer.page.locator(".table-holder"), explorer.page.locator(".rows .row")
    await expect(rows.first).to_be_visible()
    answered = asyncio.Event()

    async def hold(route: Route) -> None:
        await answered.wait()
        await route.continue_()

    async def refuse(route: Route) -> None:
        await route.fulfill(status=503, json={"detail": "The store is away."})

    await explorer.page.route("**/spans/query", hold)
    await _filter_by(explorer, "status = error")
    await expect(holder).to_have_attribute("aria-busy", "true")
    await expect(rows.first).to_be_visible()
    await expect(holder).not_to_have_css("opacity", "1")
    answered.set()
    await expect(holder).to_have_attribute("aria-busy", "false")
    await expect(holder).to_have_css("opacity", "1")
    await explorer.page.route("**/spans/query", refuse)
    await _filter_by(explorer, "status = ok")
    await expect(explorer.page.get_by_text("The store is away.").first).to_be_visible()
    await expect(rows).to_have_count(0)


async def _filter_by(explorer: Explorer, text: str) -> None:
    await explorer.page.get_by_role("combobox", name="Add a condition").fill(text)
    await explorer.page.keyboard.press("Enter")
