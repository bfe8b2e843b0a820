"""Nobody loses their place: filters and ranges that are kept, ways back, titles, and searching in a trace."""

from __future__ import annotations

import re
from typing import Any, Final
from urllib.parse import parse_qs, urlsplit

import pytest
from playwright.async_api import expect

from tests.support.explorer import Explorer

pytestmark = [pytest.mark.long, pytest.mark.asyncio(loop_scope="module")]

TRACE_ID: Final = "91ace" + "0" * 27
ROOT_ID: Final = "91ace" + "0" * 11
FILTER: Final = {"conditions": [{"field": "service", "operator": "is", "value": "way-finder"}]}
NAMES: Final = ("plan the trip", "book a room", "charge the card", "send mail", "charge the card")
FAILED: Final = (0, 1, 2, 4)
WORDS: Final = "The harbour hotel has a quiet room."


def _spans() -> list[dict[str, Any]]:
    """A root, below it a booking with a failed charge, mail, and another failed charge."""
    parents = [None, 0, 1, 0, 0]
    spans: list[dict[str, Any]] = []
    for number, (name, parent) in enumerate(zip(NAMES, parents, strict=True)):
        ids = {"trace_id": TRACE_ID, "span_id": f"{ROOT_ID[:-1]}{number}"}
        above = {} if parent is None else {"parent_id": f"{ROOT_ID[:-1]}{parent}"}
        times = {"start_time": f"2026-02-05T10:00:0{number}Z", "end_time": f"2026-02-05T10:00:0{number}.5Z"}
        status = {"status_code": "STATUS_CODE_ERROR"} if number in FAILED else {}
        ag = {"session": {"id": "way-1"}, "user": {"id": "walker"}} if parent is None else {}
        texts = {"note": WORDS} if number == 3 else {}
        resource = {"resource": {"attributes": {"service": {"name": "way-finder"}}}}
        spans.append(
            {**ids, **above, **times, **status, **resource, "span_name": name, "attributes": {"ag": ag, **texts}}
        )
    return spans


@pytest.fixture
def placed(explorer: Explorer) -> Explorer:
    """The page over a trace with several failures."""
    if explorer.stack.ask("/spans/query", {"filtering": FILTER})["count"] == 0:
        explorer.stack.ask("/tracing/spans/ingest", {"spans": _spans()})
    explorer.stack.ask_until("/spans/query", {"filtering": FILTER}, lambda answer: answer["count"] == len(NAMES))
    return explorer


def parameters(explorer: Explorer) -> dict[str, list[str]]:
    return parse_qs(urlsplit(explorer.page.url).query)


async def test_lists_take_over_filter_and_range(placed: Explorer):
    page = placed.page
    views = page.get_by_role("navigation", name="Views")
    await placed.open("traces", filter=FILTER, oldest="2026-01-01T00:00:00Z", sort="duration")
    await expect(page.locator(".rows .row")).to_have_count(1)
    expected = {name: values for name, values in parameters(placed).items() if name != "sort"}
    for name, path in (("Spans", "spans"), ("Sessions", "sessions"), ("Traces", "traces")):
        await views.get_by_role("link", name=name).click()
        await expect(page).to_have_url(re.compile(rf"/ui/{path}\?"))
        assert parameters(placed) == expected
        await views.get_by_role("link", name="Applications").click()
        await expect(page).to_have_url(re.compile("/ui/applications$"))
        await page.reload()
    await views.get_by_role("link", name="Spans").click()
    assert parameters(placed) == expected
    await page.get_by_role("button", name="Clear").click()
    await expect(page.locator(".chip")).to_have_count(0)


async def test_way_back_leads_to_the_page_before(placed: Explorer):
    page = placed.page
    await placed.open("traces", filter=FILTER)
    await expect(page.locator(".rows .row")).to_have_count(1)
    of_list = page.url
    await page.locator(".rows .row a").first.click()
    await page.locator(".trace-head").get_by_role("link", name="way-1").click()
    await expect(page.locator("h1")).to_have_text("way-1")
    await page.get_by_role("link", name="Back to the trace").click()
    await page.get_by_role("link", name="Back to the traces").click()
    await expect(page).to_have_url(of_list)

    await page.locator(".rows .row a").first.click()
    await page.locator(".trace-head").get_by_role("link", name="walker").click()
    await expect(page.locator("h1")).to_have_text("walker")
    counted = page.get_by_role("columnheader", name="Failed spans")
    await expect(counted).to_have_attribute("title", "Failed spans that name both the user and the session")
    await page.get_by_role("link", name="way-1").first.click()  # from the user to the session, and to its trace
    await page.locator(".turn a").first.click()
    await expect(page.locator(".trace-head h1")).to_have_text(NAMES[0])


async def test_tab_says_what_is_open(placed: Explorer):
    page = placed.page
    await placed.open("traces", filter=FILTER)
    await expect(page).to_have_title("service = way-finder · Traces · Clearspan")
    await page.locator(".rows .row a").first.click()
    await expect(page).to_have_title(f"{NAMES[0]} · Trace · Clearspan")
    await page.go_back()
    await expect(page).to_have_title("service = way-finder · Traces · Clearspan")
    await placed.open("sessions/way-1")
    await expect(page).to_have_title("way-1 · Session · Clearspan")
    await placed.open("dead-letters")
    await expect(page).to_have_title("Dead letters · Clearspan")


async def test_failed_spans_one_after_the_other(placed: Explorer):
    page = placed.page
    await placed.open(f"traces/{TRACE_ID}")
    failures, selected = page.locator(".failures"), page.locator(".wf-row.selected .wf-text")
    await page.get_by_role("link", name="Show the cause").click()
    await expect(selected).to_have_text("charge the card")
    await expect(failures).to_contain_text("1 of 4")
    await page.get_by_role("button", name="Next failed span").click()
    await expect(failures).to_contain_text("2 of 4")
    assert f"span={ROOT_ID[:-1]}4" in page.url
    await page.keyboard.press("e")
    await expect(selected).to_have_text("book a room")
    await page.keyboard.press("Shift+E")
    await expect(failures).to_contain_text("2 of 4")


async def test_search_inside_a_trace(placed: Explorer):
    page = placed.page
    await placed.open(f"traces/{TRACE_ID}")
    await expect(page.locator(".wf-row")).to_have_count(len(NAMES))
    await page.keyboard.press("/")
    await page.keyboard.type("charge")
    count, selected = page.locator(".find-count"), page.locator(".wf-row.selected .wf-text")
    await expect(page.locator(".wf-row.match")).to_have_count(2)
    await expect(count).to_have_text("2")
    await page.keyboard.press("Enter")
    await expect(count).to_have_text("1 of 2")
    await page.keyboard.press("Enter")
    await expect(count).to_have_text("2 of 2")
    await page.get_by_role("button", name="Next match").click()
    await expect(count).to_have_text("1 of 2")
    await page.reload()
    await expect(page.get_by_role("searchbox", name="Search in this trace")).to_have_value("charge")
    await expect(page.locator(".wf-row.match")).to_have_count(2)

    await page.get_by_role("searchbox", name="Search in this trace").fill("quiet harbour")  # words of a text
    await expect(page.locator(".wf-row.match .wf-text")).to_have_text(["send mail"])
    await page.keyboard.press("Enter")
    await expect(selected).to_have_text("send mail")
    await page.get_by_role("searchbox", name="Search in this trace").fill("nobody wrote this")
    await expect(count).to_have_text("No span")
    await page.keyboard.press("Escape")
    await expect(page).not_to_have_url(re.compile("find="))


async def test_filter_suggests_names_of_scores(placed: Explorer):
    ask, page = placed.stack.ask, placed.page
    score = {"name": "Helpfulness", "value": 0.5}
    span = {"trace_id": "91acf" + "0" * 27, "span_id": ROOT_ID, "span_name": "rated", "scores": [score]}
    ask("/tracing/spans/ingest", {"spans": [span]})
    rated = {"conditions": [{"field": "scores", "key": "Helpfulness", "operator": "exists"}]}
    placed.stack.ask_until("/spans/query", {"filtering": rated}, lambda answer: answer["count"] == 1)
    await placed.open("spans")
    field = page.get_by_role("combobox", name="Add a condition")
    for typed in ("helpf", "scores."):
        await field.fill(typed)
        await expect(page.get_by_role("option", name="scores.Helpfulness")).to_be_visible()
    await page.get_by_role("option", name="scores.Helpfulness").click()
    await field.press_sequentially("> 0.4")
    await field.press("Enter")
    await expect(page.locator(".chip-text")).to_have_text("scores.Helpfulness > 0.4")
    await expect(page.locator(".rows .row .name")).to_have_text(["rated"])


TOP_ROW: Final = """table => {
  const [box, head] = [table.getBoundingClientRect(), table.querySelector('.row.head').clientHeight];
  const row = document.elementFromPoint(box.x + 40, box.y + head + 2).closest('[role=row]');
  return `${row.ariaRowIndex} ${row.querySelector('a').href} ${Math.round(row.getBoundingClientRect().y)}`;
}"""
"""Its number, what it opens and where it stands on the page."""


async def _top_row_stays(explorer: Explorer, beyond: int, head: str) -> None:
    """Scroll beyond a row, open the row there, and come back both ways."""
    page = explorer.page
    rows, table = page.locator(".rows .row"), page.locator(".scroller")
    await expect(rows.first).to_be_visible()
    await table.hover()
    while int((await table.evaluate(TOP_ROW)).split()[0]) <= beyond:
        await page.mouse.wheel(0, 210)
        await page.evaluate("() => new Promise((shown) => requestAnimationFrame(() => requestAnimationFrame(shown)))")
    before, of_list = await table.evaluate(TOP_ROW), page.url
    box = await table.bounding_box()
    assert box is not None
    for go_back in (page.go_back, page.get_by_role("link", name=re.compile("Back to the")).click):
        await page.mouse.click(box["x"] + 100, box["y"] + 100)
        await expect(page.locator(head)).to_be_visible()
        await go_back()
        await expect(page).to_have_url(of_list)
        await expect(page.locator(".rows .row.selected")).to_have_count(1)
        assert await table.evaluate(TOP_ROW) == before


@pytest.mark.parametrize(
    ("view", "beyond", "head"),
    [("spans", 230, ".trace-head"), ("traces", 40, ".trace-head"), ("sessions", 2, "h1"), ("users", 2, "h1")],
)
async def test_list_stands_where_it_was_left(view: str, beyond: int, head: str, placed: Explorer):
    page = placed.page
    await page.set_viewport_size({"width": 1280, "height": 800 if view in {"spans", "traces"} else 320})
    await placed.open(view, **({"aside": "1"} if view == "spans" else {}))
    await _top_row_stays(placed, beyond, head)
    if view != "spans":
        return
    before = await page.locator(".scroller").evaluate(TOP_ROW)
    await page.reload()
    await expect(page.locator(".rows .row.selected")).to_have_count(1)
    assert await page.locator(".scroller").evaluate(TOP_ROW) == before
    await page.get_by_role("button", name="Tokens").click()  # another list, which begins at its top
    await expect(page.locator(".ranking")).to_be_visible()
    await expect(page.locator(".table-holder")).to_have_attribute("aria-busy", "false")
    assert (await page.locator(".scroller").evaluate(TOP_ROW)).startswith("1 ")
    await page.go_back()
    await expect(page.locator(".rows .row.selected")).to_have_count(1)
    assert await page.locator(".scroller").evaluate(TOP_ROW) == before
