"""Charts in a browser: any measure by any key over time, and saved for everybody."""

from __future__ import annotations

import json
from typing import Any
from urllib.parse import parse_qs, urlsplit

import pytest
from playwright.async_api import expect

from tests.support.explorer import Explorer
from tests.support.stack import RunningStack

pytestmark = [pytest.mark.long, pytest.mark.asyncio(loop_scope="module")]
WINDOW = {"oldest": "2026-06-01T00:00:00Z", "newest": "2026-06-02T00:00:00Z"}
HOSTILE = "<img src=x onerror=\"document.title='owned'\">"


def _span(number: int, region: str, cost: float, *, failed: bool = False) -> dict[str, Any]:
    used = {"metrics": {"costs": {"incremental": {"total": cost}}}}
    return {
        "trace_id": f"{0xC400 + number:032x}", "span_id": f"{number:016x}", "span_name": "call", "span_type": "chat",
        "start_time": f"2026-06-01T{number:02d}:00:00Z", "end_time": f"2026-06-01T{number:02d}:00:0{number}Z",
        "status_code": "STATUS_CODE_ERROR" if failed else "STATUS_CODE_OK",
        "attributes": {"shop": {"region": region}, "ag": used},
    }  # fmt: skip


SPANS = [_span(1, "north", 1), _span(2, "north", 0.5, failed=True), _span(3, "south", 0.25), _span(4, HOSTILE, 0.125)]


@pytest.fixture(scope="module", autouse=True)
def stored(explored_stack: RunningStack) -> None:
    """Spans of one day."""
    explored_stack.ask("/tracing/spans/ingest", {"spans": SPANS})
    explored_stack.ask_until("/spans/query", {"windowing": WINDOW}, lambda answer: answer["count"] == len(SPANS))


async def _figures(explorer: Explorer) -> dict[str, str]:
    await expect(explorer.page.locator(".charts [aria-busy=false] table")).to_be_visible()
    rows = await explorer.page.locator(".charts tbody tr").all()
    return {await row.locator("bdi").inner_text(): await row.locator("td").inner_text() for row in rows}


async def test_any_measure_is_drawn_by_any_key(explorer: Explorer) -> None:
    await explorer.open("charts", **WINDOW)
    page = explorer.page
    assert await _figures(explorer) == {"(none)": "4"}
    await page.get_by_label("by", exact=True).fill("shop.region")
    await page.get_by_label("by", exact=True).press("Enter")
    await page.get_by_label("Measure").fill("cost")
    await page.get_by_label("Measure").press("Enter")
    await expect(page.locator(".lines canvas")).to_be_visible()
    await expect(page.locator(".charts tbody tr")).to_have_count(3)
    await expect(page.locator(".charts tbody td").first).to_have_text("$1.50")
    assert await _figures(explorer) == {"north": "$1.50", "south": "$0.250", HOSTILE: "$0.125"}
    await explorer.survives(lambda: _figures(explorer))
    await page.go_back()

    await page.get_by_label("Statistic").select_option("max")
    await expect(page.locator(".charts tbody td").first).to_have_text("$1.00")
    await page.get_by_label("Measure").fill("errors")
    await page.get_by_label("Measure").press("Enter")
    await expect(page.locator(".charts tbody td").first).to_have_text("1")
    await page.locator(".charts tbody a").first.click()
    await expect(page.locator(".rows .row")).to_have_count(1)
    assert await page.title() != "owned"


async def test_name_that_means_nothing_is_said(explorer: Explorer) -> None:
    await explorer.open("charts", by="colour", **WINDOW)
    await expect(explorer.page.get_by_role("alert")).to_contain_text("“colour” is no key: give a field such as model")
    await explorer.page.get_by_label("by", exact=True).fill("")
    await explorer.page.get_by_label("by", exact=True).press("Enter")
    assert await _figures(explorer) == {"all spans": "4"}


async def test_chart_is_saved_opened_and_replaced(explorer: Explorer) -> None:
    page = explorer.page
    await explorer.open("charts", measure="duration", by="shop.region", top=3, **{"as": "max"}, **WINDOW)
    assert (await _figures(explorer))["north"] == "2 s"
    await page.get_by_role("button", name="Save").click()
    await page.get_by_role("textbox", name="Name").fill("Slowest regions")
    await page.get_by_role("button", name="Save as a new chart").click()
    link = page.get_by_role("navigation", name="Saved charts").get_by_role("link", name="Slowest regions")
    await expect(link).to_have_attribute("aria-current", "true")

    await page.get_by_label("Statistic").select_option("min")
    await expect(page.locator(".charts tbody tr").filter(has_text="north").locator("td")).to_have_text("1 s")
    await page.get_by_role("button", name="Save").click()
    await page.get_by_role("button", name="Replace “Slowest regions”").click()
    await expect(page.get_by_role("dialog")).to_have_count(0)

    await explorer.open("queries")
    await page.get_by_role("link", name="Slowest regions").click()
    assert (await _figures(explorer))["north"] == "1 s"
    parameters = parse_qs(urlsplit(page.url).query)
    assert (parameters["measure"], parameters["as"], parameters["by"]) == (["duration"], ["min"], ["shop.region"])


async def test_replacing_keeps_what_programs_wrote(explorer: Explorer) -> None:
    ask, page = explorer.stack.ask, explorer.page
    chart = {"measure": "duration", "as": "max", "by": "shop.region", "top": 3}
    data = {"filtering": {"conditions": []}, "windowing": WINDOW, "formatting": {"focus": "span"}}
    query = {"slug": "kept-members", "name": "Kept members", "meta": {"chart": chart, "owner": "desk"}, "data": data}
    ask("/simple/queries/", {"query": query})
    await explorer.open("charts", chart="kept-members", measure="cost", **{"as": "sum"}, **WINDOW)
    await page.get_by_role("button", name="Save").click()
    await page.get_by_role("button", name="Replace “Kept members”").click()
    await expect(page.get_by_role("dialog")).to_have_count(0)
    (saved,) = ask("/simple/queries/query", {"query": {"slug": "kept-members"}})["queries"]
    assert saved["meta"]["owner"] == "desk"
    assert saved["meta"]["chart"]["measure"] == "cost"
    assert saved["data"]["formatting"]["focus"] == "span"


async def test_list_of_saved_charts_says_where_it_ends(explorer: Explorer) -> None:
    meta = {"chart": {"measure": "cost"}}
    charts = [{"id": str(n), "slug": f"chart-{n}", "name": f"Chart {n}", "meta": meta} for n in range(101)]
    await explorer.open("charts", **WINDOW)
    saved = explorer.page.get_by_role("navigation", name="Saved charts")
    await explorer.page.route("**/simple/queries/query", lambda route: route.fulfill(json={"queries": charts}))
    async with explorer.page.expect_request("**/simple/queries/query") as waiting:
        await explorer.page.reload()
    assert json.loads((await waiting.value).post_data or "")["query"] == {"meta": {"chart": {}}}
    await expect(saved.get_by_role("link", name="Chart", exact=False)).to_have_count(100)
    await expect(saved).to_contain_text("The latest 100 charts. Older ones are in the API.")


async def test_chart_may_have_a_name_without_ascii_letters(explorer: Explorer) -> None:
    page = explorer.page
    await explorer.open("charts", **WINDOW)
    for name in ("延迟", "费用"):
        await page.get_by_role("button", name="Save").click()
        await page.get_by_role("textbox", name="Name").fill(name)
        await page.get_by_role("button", name="Save as a new chart").click()
        link = page.get_by_role("navigation", name="Saved charts").get_by_role("link", name=name)
        await expect(link).to_have_attribute("aria-current", "true")


async def test_first_chart_has_a_range_in_its_address(explorer: Explorer) -> None:
    await explorer.open("charts")
    await expect(explorer.page.locator(".time-range")).to_have_text("Last 7 days")
    assert explorer.page.url.endswith("/ui/charts?oldest=-7d")
