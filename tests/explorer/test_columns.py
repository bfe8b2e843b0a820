"""Columns of the lists, and what tells runs apart: questions, answers, users, scores, attributes; what is left out."""

from __future__ import annotations

import json
import uuid
from collections.abc import Mapping
from typing import Any, Final

import pytest
from playwright.async_api import expect

from tests.support.explorer import Explorer

pytestmark = [pytest.mark.long, pytest.mark.asyncio(loop_scope="module")]

SERVICE: Final = "concierge"
OF_SERVICE: Final = {"conditions": [{"field": "service", "operator": "is", "value": SERVICE}]}
RUNS: Final[tuple[dict[str, Any], ...]] = (
    {"question": "Is the <b>museum</b> open?", "answer": "Yes, until five.", "user": "ada", "session": "trip-1",
     "tenant": "acme", "retries": 2, "relevance": 0.4},
    {"question": "Where is the ferry?", "answer": "At pier 4.", "user": "bob", "session": "trip-2",
     "tenant": "globex", "retries": 11, "relevance": 0.9},
    {"question": "Can I bring a dog?", "answer": "Only on deck.", "user": "ada", "session": "trip-1",
     "tenant": "acme", "retries": 0, "relevance": 0.7},
)  # fmt: skip
"""Oldest first."""

ELSEWHERE: Final = {"trace_id": "e1" * 16, "span_id": "e1" * 8}


def spans_of(number: int, run: Mapping[str, Any]) -> list[dict[str, Any]]:
    """A root without inputs, and below it the model call that has them."""
    trace_id, start = f"c01{number:029x}", f"2026-02-03T10:0{number}"
    messages = {
        "inputs": {"messages": [{"role": "user", "content": run["question"]}]},
        "outputs": {"messages": [{"role": "assistant", "content": run["answer"]}]},
    }
    common = {"trace_id": trace_id, "resource": {"attributes": {"service": {"name": SERVICE}}}}
    attributes = {"tenant": run["tenant"], "retries": run["retries"],
                  "ag": {"session": {"id": run["session"]}, "user": {"id": run["user"]}}}  # fmt: skip
    score = {"name": "Relevance", "value": run["relevance"], "at": f"{start}:09Z"}
    return [
        {**common, "span_id": f"c01{number:012x}0", "span_name": "handle", "attributes": attributes,
         "start_time": f"{start}:00Z", "end_time": f"{start}:05Z"},
        {**common, "span_id": f"c01{number:012x}1", "parent_id": f"c01{number:012x}0", "span_name": "chat",
         "span_type": "chat", "attributes": {"ag": {"data": messages, "type": {"span": "chat"}}}, "scores": [score],
         "start_time": f"{start}:01Z", "end_time": f"{start}:04Z"},
    ]  # fmt: skip


@pytest.fixture
def runs(explorer: Explorer) -> Explorer:
    """The page over three runs of one agent."""
    ask = explorer.stack.ask
    if ask("/spans/query", {"filtering": OF_SERVICE})["count"] == 0:
        ask("/tracing/spans/ingest", {"spans": [each for n, run in enumerate(RUNS) for each in spans_of(n, run)]})
    explorer.stack.ask_until("/spans/query", {"filtering": OF_SERVICE}, lambda answer: answer["count"] == 2 * len(RUNS))
    return explorer


async def cells(explorer: Explorer, column: str) -> list[str]:
    await expect(explorer.page.locator(".table-holder")).to_have_attribute("aria-busy", "false")
    return await explorer.texts(f".rows .row .c-{column} > :not(button)")


async def test_runs_are_told_apart(runs: Explorer):
    await runs.open("traces", filter=OF_SERVICE)
    newest_first = list(reversed(RUNS))
    for column in ("question", "answer", "user", "session"):
        await expect(runs.page.locator(f".rows .row .c-{column} > :not(button)")).to_have_text(
            [run[column] for run in newest_first]
        )
    await expect(runs.page.locator(".rows b")).to_have_count(0)
    await runs.page.locator(".rows .c-session a").first.click()
    await expect(runs.page).to_have_url(f"{runs.stack.api}/ui/sessions/trip-1")


async def test_run_that_went_on_after_an_error_is_not_one_that_failed(runs: Explorer):
    service = f"helper-{uuid.uuid4().hex[:8]}"
    failed = {"status_code": "STATUS_CODE_ERROR"}
    spans = [
        {"trace_id": f"c02{number:029x}", "span_id": f"c02{number:012x}{part}", "span_name": name,
         "parent_id": f"c02{number:012x}0" if part else None, "resource": {"attributes": {"service": {"name": service}}},
         **(failed if name in bad else {})}
        for number, bad in enumerate([("fetch",), ("answer", "fetch"), ()])
        for part, name in enumerate(["answer", "fetch"])
    ]  # fmt: skip
    runs.stack.ask("/tracing/spans/ingest", {"spans": spans})
    of_service = {"conditions": [{"field": "service", "operator": "is", "value": service}]}
    runs.stack.ask_until("/spans/query", {"filtering": of_service}, lambda answer: answer["count"] == len(spans))
    await runs.open("traces", filter=of_service, columns="time,id")
    row = runs.page.locator(".rows .row")
    for number, mark in enumerate(["1 error", "failed", None]):
        of_run = row.filter(has_text=f"c02{number:029x}")
        await expect(of_run.locator(".error-mark")).to_have_text([mark] if mark else [])
        await expect(of_run).to_have_count(1)
        assert ("failed" in (await of_run.get_attribute("class") or "").split()) == (mark == "failed")


async def test_list_is_in_the_order_of_the_column_that_says_so(runs: Explorer):
    """The run that began first is the first of the list, because its last span began last."""
    service, trace_ids = f"late-{uuid.uuid4().hex[:8]}", ["c03" + "0" * 29, "c03" + "1" * 29]
    spans = [
        {"trace_id": trace_ids[run], "span_id": f"c03{run}{minute:012x}", "span_name": "step",
         "start_time": f"2026-02-03T10:{minute:02}:00Z", "end_time": f"2026-02-03T10:{minute:02}:01Z",
         "resource": {"attributes": {"service": {"name": service}}}}
        for run, minute in [(0, 1), (1, 2), (0, 3)]
    ]  # fmt: skip
    runs.stack.ask("/tracing/spans/ingest", {"spans": spans})
    of_service = {"conditions": [{"field": "service", "operator": "is", "value": service}]}
    runs.stack.ask_until("/spans/query", {"filtering": of_service}, lambda answer: answer["count"] == len(spans))
    await runs.open("traces", filter=of_service, columns="time,started,id")
    await expect(runs.page.locator(".rows .c-id code")).to_have_text(trace_ids)
    shown = runs.page.locator(".rows .c-time time")
    assert [await shown.nth(place).get_attribute("datetime") for place in (0, 1)] == [
        "2026-02-03T10:03:00Z", "2026-02-03T10:02:00Z",
    ]  # fmt: skip


async def test_any_attribute_is_a_column_that_orders(runs: Explorer):
    page = runs.page
    await runs.open("traces", filter=OF_SERVICE)
    await page.get_by_role("button", name="Columns").click()
    field = page.get_by_role("combobox", name="An attribute as a column")
    for path in ("tenant", "retries"):
        await field.fill(path)
        await page.keyboard.press("Enter")
    await page.keyboard.press("Escape")
    assert await cells(runs, "attributes_tenant") == ["acme", "globex", "acme"]

    title = page.get_by_role("columnheader").get_by_role("button", name="retries")
    await title.click()
    await expect(page.locator(".rows .c-attributes_retries > bdi")).to_have_text(["11", "2", "0"])
    await title.click()
    await expect(page.locator(".rows .c-attributes_retries > bdi")).to_have_text(["0", "2", "11"])
    await runs.survives(lambda: cells(runs, "attributes_tenant"))

    await runs.open("spans", filter=OF_SERVICE, columns="time,attributes.tenant,resource.service.name")
    assert (await cells(runs, "resource_service_name"))[0] == SERVICE
    assert sorted(await cells(runs, "attributes_tenant")) == ["", "", "", "acme", "acme", "globex"]


async def test_scores_are_columns_of_traces(runs: Explorer):
    page = runs.page
    await runs.open("traces", filter=OF_SERVICE)
    await page.get_by_role("button", name="Columns").click()
    await page.get_by_role("checkbox", name="Relevance").check()
    await page.keyboard.press("Escape")
    assert await cells(runs, "scores_Relevance") == ["0.7", "0.9", "0.4"]
    await page.get_by_role("columnheader").get_by_role("button", name="Relevance").click()
    await expect(page.locator(".rows .c-scores_Relevance > span")).to_have_text(["0.9", "0.7", "0.4"])


async def test_last_activity_orders_both_ways(runs: Explorer):
    await runs.open("traces", filter=OF_SERVICE)
    title = runs.page.get_by_role("columnheader").get_by_role("button", name="Last activity")
    await title.click()
    await expect(runs.page.locator(".rows .c-question > bdi")).to_have_text([run["question"] for run in RUNS])
    await expect(runs.page.get_by_label("Order")).to_have_value("oldest")
    await title.click()
    await expect(runs.page.locator(".rows .c-question > bdi").first).to_have_text(RUNS[-1]["question"])


async def test_columns_their_order_and_widths_are_remembered(runs: Explorer):
    page = runs.page
    titles = page.locator(".row.head > span bdi, .row.head > span button")
    await runs.open("traces", filter=OF_SERVICE)
    await page.get_by_role("button", name="Columns").click()
    await page.get_by_role("checkbox", name="Models").uncheck()
    await page.get_by_role("button", name="Move Answer up").click()
    await page.keyboard.press("Escape")
    expected = ["Trace", "Last activity ↓", "Answer", "Question", "User", "Session", "Tokens", "Cost", "Duration"]
    await expect(titles).to_have_text(expected)
    width = page.locator(".row.head .c-answer")
    before = await width.evaluate("element => element.clientWidth")
    await page.get_by_role("separator", name="Width of Answer").press("ArrowRight")
    after = await width.evaluate("element => element.clientWidth")
    assert after == before + 20

    await runs.open("traces", filter=OF_SERVICE)  # without columns in the address
    await expect(titles).to_have_text(expected)
    assert await width.evaluate("element => element.clientWidth") == after
    await runs.open("traces", filter=OF_SERVICE, columns="cost")  # a shared list changes nothing
    await expect(titles).to_have_text(["Trace", "Cost"])

    await runs.open("traces", filter=OF_SERVICE)
    await page.get_by_role("button", name="Columns").click()
    await page.get_by_role("button", name="Usual columns").click()
    await expect(titles.nth(2)).to_have_text("Question")
    for broken in ("{", '{"a": 1}', "[1, null]", json.dumps(["x" * 30_000]), '["nothing"]'):
        await page.evaluate("text => localStorage.setItem('clearspan-columns-traces', text)", broken)
        await page.evaluate("text => localStorage.setItem('clearspan-widths-traces', text)", broken)
        await runs.open("traces", filter=OF_SERVICE)
        await expect(page.locator(".rows .row")).to_have_count(len(RUNS))


async def test_texts_are_asked_for_only_where_a_column_shows_them(runs: Explorer):
    page = runs.page
    for columns, has_texts in (("cost", False), ("cost,answer", True), ("question", True)):
        async with page.expect_request("**/traces/summaries/query") as waiting:
            await runs.open("traces", filter=OF_SERVICE, columns=columns)
        assert json.loads((await waiting.value).post_data or "")["include_texts"] is has_texts
    await runs.open("traces", filter=OF_SERVICE, columns="cost")
    await page.get_by_role("button", name="Columns").click()
    await page.get_by_role("checkbox", name="Question").check()
    await expect(page.locator(".rows .c-question > bdi").first).to_have_text(RUNS[-1]["question"])


async def test_menu_of_columns_says_how_to_sort(runs: Explorer):
    await runs.open("traces", filter=OF_SERVICE)
    await runs.page.get_by_role("button", name="Columns").click()
    note = runs.page.locator(".column-menu .menu-note")
    await expect(note).to_contain_text("Click a title to sort; click again to reverse.")


async def test_annotations_and_audits_are_left_out(runs: Explorer):
    ask, page = runs.stack.ask, runs.page
    session = f"left-out-{uuid.uuid4().hex[:8]}"
    of_session = {"conditions": [{"field": "session", "operator": "is", "value": session}]}
    kinds: dict[str, dict[str, Any]] = {
        "run": {},
        "with a link": {"links": [ELSEWHERE]},  # an annotation for the API, and yet a run
        "judged": {"links": [ELSEWHERE], "references": [{"slug": "judge", "attributes": {"key": "evaluator"}}]},
        "clearspan audit": {"resource": {"attributes": {"service": {"name": "clearspan-audit"}}}},
    }
    for place, (name, members) in enumerate(kinds.items()):
        attributes = {"ag": {"session": {"id": session}}}
        span = {"trace_id": uuid.uuid4().hex, "span_id": "ab" * 8, "span_name": name, **members,
                "attributes": attributes, "start_time": f"2026-02-03T11:00:0{place}Z"}  # fmt: skip
        ask("/tracing/spans/ingest", {"spans": [span]})
    runs.stack.ask_until("/spans/query", {"filtering": of_session}, lambda answer: answer["count"] == len(kinds))

    names = page.locator(".rows .row .name")
    switch = page.get_by_role("switch", name="Annotations, audits")
    for view in ("traces", "spans"):
        await runs.open(view, filter=of_session)
        await expect(names).to_have_text(["with a link", "run"])
        await switch.click()
        await expect(names).to_have_text(["clearspan audit", "judged", "with a link", "run"])
        assert "aside=1" in page.url
        await page.reload()
        await expect(names).to_have_count(len(kinds))
    audits = {"conditions": [*of_session["conditions"], {"field": "service", "value": "clearspan-audit"}]}
    await runs.open("traces", filter=audits)  # a filter about them is taken at its word
    await expect(names).to_have_text(["clearspan audit"])


async def test_wrong_condition_is_marked_where_the_list_adds_others(runs: Explorer):
    conditions = [{"field": "span_type", "value": "chat"}, {"field": "nonsense", "value": 1}]
    await runs.open("spans", filter={"operator": "or", "conditions": conditions})
    await expect(runs.page.locator(".chip.wrong")).to_contain_text("'nonsense' is not a field")
    await expect(runs.page.locator(".chip.wrong .chip-text")).to_contain_text("nonsense")


async def test_menu_of_columns_fits_a_phone(runs: Explorer):
    await runs.page.set_viewport_size({"width": 390, "height": 844})
    await runs.open("traces", filter=OF_SERVICE)
    await expect(runs.page.locator(".rows .row .c-question").first).to_be_visible()
    await runs.page.get_by_role("button", name="Columns").click()
    box = await runs.page.locator(".column-menu .panel").bounding_box()
    assert box is not None
    assert box["x"] >= 0
    assert box["x"] + box["width"] <= 390
