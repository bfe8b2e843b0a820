"""The filter bar: text that people type or paste, which the API reads."""

from __future__ import annotations

import asyncio
import json
from typing import Any
from urllib.parse import parse_qs, urlsplit

import pytest
from playwright.async_api import Route, expect

from query_api.filter.language import FIELDS
from tests.support.explorer import Explorer

pytestmark = [pytest.mark.long, pytest.mark.asyncio(loop_scope="module")]
IN_FILTER_JS = "async (texts) => { const filter = await import('/ui/files/app/filter.js'); return %s; }"
WORDS = (
    "span_type is chat",
    "status = error AND duration > 1.5s and service = shop",
    "span_name is 'salt and pepper' and cost > 0.01",
    'service in shop,"pay or not" and tokens btwn 10,20',
    "http.status >= 500 and model exists",
    "attributes.retry is true and temperature.x lt -1 and resource.service.name = shop",
    "session_id is 1e5 and span_id is 1234567890123456 and parent_id is null",
    "span_name contains 5.0 and user_id not_exists",
    "not \"card declined\" and 'x'",
    'session = "s-1 cost≥3" and text contains "\\"0123456789abcdef\\""',
    "content contains 'card declined' and end_time eq 1777636802500",
    'service in ["a,b"] and name = "fetch (url)"',
    "name = \"5” and 'x\" and user in ['“a”', '≥5', b’c]",
    'http.status is "500" and user is "null" and (cost > $1 or not (model exists and tokens < 2k))',
)
TRACE_ID, SPAN_ID = "ab12" * 8, "cd34" * 4
SPELLINGS = {
    TRACE_ID: (TRACE_ID, f"  {TRACE_ID.upper()} ", "ab12ab12-ab12-ab12-ab12-ab12ab12ab12"),
    SPAN_ID: (SPAN_ID, f"\t{SPAN_ID.upper()}", "cd34cd34-cd34cd34"),
}


async def _type(explorer: Explorer, text: str) -> None:
    await explorer.page.get_by_role("combobox", name="Add a condition").fill(text)
    await explorer.page.keyboard.press("Enter")


def _store(explorer: Explorer) -> None:
    """Store the span that has the ids."""
    span = {"trace_id": TRACE_ID, "span_id": SPAN_ID, "span_name": "pasted", "start_time": "2026-01-01T00:00:00Z"}
    explorer.stack.ask("/tracing/spans/ingest", {"spans": [span]})
    explorer.stack.ask_until(f"/spans/{TRACE_ID}/{SPAN_ID}", None, lambda answer: answer["count"] == 1)


def _filter(explorer: Explorer) -> dict[str, Any]:
    [filtering] = parse_qs(urlsplit(explorer.page.url).query)["filter"]
    return dict(json.loads(filtering))


def _read(explorer: Explorer, text: str) -> list[Any]:
    """What the API makes of a text."""
    return [part["filtering"] for part in explorer.stack.ask("/filters/parse", {"text": text})["parts"]]


async def test_what_is_written_back_is_read_as_the_same(explorer: Explorer):
    await explorer.open("spans")
    read = [_read(explorer, text) for text in WORDS]
    written = await explorer.page.evaluate(IN_FILTER_JS % "texts.map((read) => read.map(filter.conditionText))", read)
    assert not [text for texts in written for text in texts if text.startswith("{")]
    assert [[condition for text in texts for condition in _read(explorer, text)] for texts in written] == read
    only_json = [
        {"field": "user", "operator": "in", "value": ["a"], "options": {"all": True}},
        {"operator": "nor", "conditions": [{"field": "model", "operator": "exists"}]},
        {"field": "cost", "operator": "is", "value": "5"},
    ]
    assert await explorer.page.evaluate(IN_FILTER_JS % "texts.map(filter.conditionText)", only_json) == [
        json.dumps(each, separators=(",", ":")) for each in only_json
    ]
    assert set(await explorer.page.evaluate(IN_FILTER_JS % "filter.FIELDS")) == FIELDS.keys()


async def test_brackets_and_or_become_one_chip(explorer: Explorer):
    await explorer.open("spans")
    await _type(explorer, "service = library-desk and (status = error or not type in chat, tool)")
    chips = explorer.page.locator(".chip-text")
    await expect(chips).to_have_text(
        ["service = library-desk", "status_code = STATUS_CODE_ERROR or not span_type in chat, tool"]
    )
    expected = explorer.stack.ask("/spans/query", {"filtering": _filter(explorer), "windowing": {"limit": 1000}})
    await expect(explorer.page.locator(".table")).to_have_attribute("aria-rowcount", str(expected["count"]))
    await chips.last.click()
    await expect(explorer.page.get_by_role("combobox", name="Add a condition").first).to_be_focused()
    await explorer.page.keyboard.press("End")
    await explorer.page.keyboard.type(" or cost > $1")
    await explorer.page.keyboard.press("Enter")
    await expect(chips.last).to_have_text("status_code = STATUS_CODE_ERROR or not span_type in chat, tool or cost > 1")


async def test_and_separates_conditions(explorer: Explorer):
    await explorer.open("spans")
    await _type(explorer, "status = error and service = library-desk")
    await expect(explorer.page.locator(".chip-text")).to_have_text(
        ["status_code = STATUS_CODE_ERROR", "service = library-desk"]
    )
    await expect(explorer.page.get_by_role("status").and_(explorer.page.locator(".filter-note"))).to_be_empty()
    expected = explorer.stack.ask("/spans/query", {"filtering": _filter(explorer), "windowing": {"limit": 1000}})
    await expect(explorer.page.locator(".table")).to_have_attribute("aria-rowcount", str(expected["count"]))
    await explorer.page.get_by_role("button", name="service = library-desk", exact=True).click()
    await explorer.page.keyboard.type(" and span_type = tool")
    await explorer.page.keyboard.press("Enter")
    await expect(explorer.page.locator(".chip-text").last).to_have_text("span_type = tool")
    await expect(explorer.page.locator(".chip-text")).to_have_count(3)


@pytest.mark.parametrize(
    ("typed", "place", "message"),
    [
        ("span_name = salt and pepper", "pepper", "A value that contains “and” needs quotes."),
        ("status = error and", "", "A condition must follow the last “and”"),
        ("model exists today", "today", "“model exists” takes no value: “and” or “or” may follow."),
        ("service in [a", "[a", "This list is not closed."),
        ("service = library-desk and refund", "refund", 'In quotes, "refund", it is searched for.'),
        ("status = eror", "eror", "error, failed, ok, unset. Did you mean “error”?"),
        ("session = s-1 cost > 3", "cost", "“and” or “or” must stand before “cost”."),
        ("statuscode = error", "statuscode", "“statuscode” is not a field. Did you mean “status_code”?"),
    ],
)
async def test_text_that_is_half_a_condition_is_explained_at_its_place(
    typed: str, place: str, message: str, explorer: Explorer
):
    await explorer.open("spans")
    await _type(explorer, typed)
    await expect(explorer.page.locator(".filter-input").get_by_role("alert")).to_contain_text(message)
    selected = "(input) => input.value.slice(input.selectionStart, input.selectionEnd)"
    assert await explorer.page.get_by_role("combobox", name="Add a condition").evaluate(selected) == place
    assert "filter" not in explorer.page.url


async def test_text_that_becomes_a_search_says_so_and_what_may_be_meant(explorer: Explorer):
    await explorer.open("spans")
    await _type(explorer, "service library-desk")
    note = explorer.page.locator(".filter-note[aria-live=polite]")
    await expect(note).to_contain_text(
        "“service library-desk” is not a condition: this lists the spans whose texts contain these words."
        " Did you mean service = library-desk?"
    )
    assert _filter(explorer) == {
        "conditions": [{"field": "content", "operator": "contains", "value": "service library-desk"}]
    }
    await note.get_by_role("button", name="Use service = library-desk").click()
    await expect(explorer.page.locator(".chip-text")).to_have_text("service = library-desk")
    await expect(note).to_be_empty()
    await _type(explorer, "refund policy")
    await explorer.page.get_by_role("button", name="Remove text contains").click()
    await expect(note).to_be_empty()


async def test_word_for_a_failure_hints_at_the_condition(explorer: Explorer):
    await explorer.open("spans")
    await _type(explorer, "failed")
    await explorer.page.get_by_role("button", name="Use status = error").click()
    await expect(explorer.page.locator(".chip-text")).to_have_text("status_code = STATUS_CODE_ERROR")


async def test_address_of_a_span_is_followed(explorer: Explorer):
    _store(explorer)
    await explorer.open("spans")
    await _type(explorer, f"{explorer.stack.api}/ui/traces/{TRACE_ID}?span={SPAN_ID}&tab=raw")
    await expect(explorer.page.locator(".span-panel h2")).to_be_visible()
    assert f"{TRACE_ID}?span={SPAN_ID}" in explorer.page.url


async def test_fields_are_suggested_before_the_api_answers(explorer: Explorer):
    await explorer.open("spans")
    answered = asyncio.Event()

    async def hold(route: Route) -> None:
        await answered.wait()
        await route.continue_()

    await explorer.page.route("**/facets/query", hold)
    field = explorer.page.get_by_role("combobox", name="Add a condition")
    options = explorer.page.locator(".suggestions").get_by_role("option")
    await field.fill("mode")
    await expect(options).to_have_text(["model"])
    await field.fill("fail")
    await expect(options).to_have_text(["status = error"])
    await field.fill("service = ")
    await expect(options).to_have_count(0)
    answered.set()
    await expect(options.filter(has_text="library-desk")).to_have_count(1)


async def test_conditions_that_no_span_fulfils_together_can_be_left_out(explorer: Explorer):
    await explorer.open("traces")
    await _type(explorer, "service = library-desk and tokens < 0")
    await expect(explorer.page.get_by_text("One span must fulfil all conditions.")).to_be_visible()
    await explorer.page.get_by_role("button", name="Without tokens < 0").click()
    await expect(explorer.page.locator(".chip-text")).to_have_text("service = library-desk")
    await expect(explorer.page.locator(".rows .row").first).to_be_visible()


async def test_id_that_is_found_late_does_not_take_the_page_away(explorer: Explorer):
    _store(explorer)
    await explorer.open("spans")
    answered, held = asyncio.Event(), asyncio.Event()

    async def hold(route: Route) -> None:
        held.set()
        await answered.wait()
        await route.continue_()

    await explorer.page.route("**/spans/query", hold)
    await _type(explorer, TRACE_ID)
    await held.wait()
    await explorer.page.keyboard.type("status")
    async with explorer.page.expect_response("**/spans/query"):
        answered.set()
    await explorer.page.unroute("**/spans/query")

    await _type(explorer, "status = error")
    await expect(explorer.page.locator(".chip-text")).to_have_text("status_code = STATUS_CODE_ERROR")


async def test_pasted_id_opens_its_trace_or_span(explorer: Explorer):
    _store(explorer)
    await explorer.open("spans", oldest="-1h")
    for found, spellings in SPELLINGS.items():
        for spelling in spellings:
            await _type(explorer, spelling)
            address = f"**/ui/traces/{TRACE_ID}" + (f"?span={SPAN_ID}" if found == SPAN_ID else "")
            await explorer.page.wait_for_url(address)
            await expect(explorer.page.locator(".wf-text")).to_have_text("pasted")
            await explorer.page.go_back()
    await _type(explorer, "99" * 16)
    note = explorer.page.locator(".filter-note")
    await expect(note).to_contain_text(f"No trace with the id {'99' * 16} is stored")
    await note.get_by_role("button", name="Search for it in all texts").click()
    await expect(explorer.page.locator(".chip-text")).to_have_text(f'text contains "{"99" * 16}"')
