"""The overview in a browser: a day compared with the day before; every figure leads to its spans."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
import pytest_asyncio
from playwright.async_api import Browser, Locator, Page, Route, expect

from tests.support.explorer import open_page
from tests.support.stack import RunningStack

pytestmark = [pytest.mark.long, pytest.mark.asyncio(loop_scope="module")]
DAY = datetime(2026, 3, 10, 12, tzinfo=UTC)
QUIET_DAY = "2026-02-01"
HOSTILE = "<img src=x onerror=\"document.title='owned'\">"


def _request(number: int, start: datetime, user: str, *, failed: bool, cost: float) -> list[dict[str, Any]]:
    """A request that names its user, and its model call, which alone has a cost."""
    trace_id, root_id = f"{0x0F00 + number:032x}", f"{1:016x}"
    status = "STATUS_CODE_ERROR" if failed else "STATUS_CODE_OK"
    common = {
        "trace_id": trace_id,
        "start_time": start.isoformat(),
        "resource": {"attributes": {"service.name": "desk"}},
    }
    named = {"session": {"id": f"talk-{user}"}, "user": {"id": user}, "references": {"application": {"slug": "faq"}}}
    used = {"tokens": {"incremental": {"total": 100}}, "costs": {"incremental": {"total": cost}}}
    model = {"request": {"model": "gpt-4o"}}
    return [
        {**common, "span_id": root_id, "span_name": "answer", "status_code": status, "attributes": {"ag": named},
         "end_time": (start + timedelta(seconds=2)).isoformat()},
        {**common, "span_id": f"{2:016x}", "parent_id": root_id, "span_name": "chat", "span_type": "chat",
         "attributes": {"ag": {"meta": model, "metrics": used}}, "end_time": (start + timedelta(seconds=1)).isoformat()},
    ]  # fmt: skip


REQUESTS = [
    *_request(1, DAY, "adele", failed=False, cost=0.5),
    *_request(2, DAY + timedelta(hours=1), "adele", failed=True, cost=0.25),
    *_request(3, DAY + timedelta(hours=2), "adele", failed=False, cost=0.25),
    *_request(4, DAY + timedelta(hours=2), HOSTILE, failed=False, cost=2),
    *_request(5, DAY - timedelta(days=1), "adele", failed=False, cost=0.5),
    *_request(6, DAY - timedelta(days=1), "bob", failed=False, cost=0.5),
    {"trace_id": f"{0x0F07:032x}", "span_id": f"{1:016x}", "span_name": "feedback", "start_time": DAY.isoformat(),
     "links": [{"trace_id": f"{0x0F01:032x}", "span_id": f"{1:016x}", "attributes": {"key": "invocation"}}],
     "references": [{"slug": "thumb", "attributes": {"key": "evaluator"}}]},
]  # fmt: skip
"""The last one is feedback, which is no request."""


@pytest.fixture(scope="module")
def stack(explored_stack: RunningStack) -> RunningStack:
    """The stack with requests of two days."""
    explored_stack.ask("/tracing/spans/ingest", {"spans": REQUESTS})
    window = {"newest": "2026-03-11T00:00:00Z", "oldest": "2026-03-09T00:00:00Z", "limit": 100}
    explored_stack.ask_until("/spans/query", {"windowing": window}, lambda answer: answer["count"] == len(REQUESTS))
    return explored_stack


@pytest_asyncio.fixture(loop_scope="module")
async def page(browser: Browser, stack: RunningStack) -> AsyncIterator[Page]:
    """A page in the zone of the requests."""
    async with open_page(browser, stack.api, timezone_id="UTC") as opened:
        yield opened.page
        assert opened.problems == []


def _tile(page: Page, title: str) -> Locator:
    return page.locator(".tile").filter(has=page.get_by_role("heading", name=title, exact=True))


def _row(page: Page, part: str, name: str) -> Locator:
    return page.get_by_role("region", name=part).get_by_role("row").filter(has=page.get_by_text(name, exact=True))


async def test_tiles_compare_a_day_with_the_day_before(page: Page, stack: RunningStack) -> None:
    await page.goto(f"{stack.api}/ui/?day=2026-03-10")
    await expect(page.get_by_role("heading", name="10 Mar", exact=True)).to_be_visible()
    for title, value, before in [
        ("Requests", "4", "was 2 +100 %"), ("Median", "2 s", "was 2 s ±0 %"), ("p95", "2 s", "was 2 s ±0 %"),
        ("Failed spans", "1", "was 0"), ("Cost", "$3.00", "was $1.00 +200 %"), ("Tokens", "400", "was 200 +100 %"),
    ]:  # fmt: skip
        await expect(_tile(page, title).locator(".value")).to_have_text(value)
        await expect(_tile(page, title).locator(".before")).to_have_text(before)
    await _tile(page, "Requests").get_by_role("link").click()
    await expect(page.locator(".rows .row")).to_have_count(4)
    assert "oldest=2026-03-10T00%3A00%3A00.000Z" in page.url
    await page.go_back()
    await _tile(page, "Failed spans").get_by_role("link").click()
    await expect(page.locator(".rows .row")).to_have_count(1)


async def test_tile_without_a_value_has_no_percentage(page: Page, stack: RunningStack) -> None:
    await page.goto(f"{stack.api}/ui/?day=2026-03-11")
    for title, value, before in [
        ("Requests", "0", "was 4 −100 %"),
        ("Median", "–", "was 2 s"),
        ("p95", "–", "was 2 s"),
    ]:
        await expect(_tile(page, title).locator(".value")).to_have_text(value)
        await expect(_tile(page, title).locator(".before")).to_have_text(before)


async def test_field_finds_what_is_typed_on_the_overview(page: Page, stack: RunningStack) -> None:
    await page.goto(f"{stack.api}/ui/?day=2026-03-10")
    field = page.get_by_role("combobox", name="Add a condition")
    await expect(field).to_be_visible()
    await page.keyboard.press("/")
    await page.keyboard.type("user = adele")
    await page.keyboard.press("Enter")
    await expect(page.locator(".rows .row")).to_have_count(3)
    await expect(page.locator(".chip-text")).to_have_text("user = adele")
    await page.go_back()
    await field.fill("failed")
    await field.press("Enter")
    await page.get_by_role("button", name="Use status = error").click()
    await expect(page.locator(".rows .row")).to_have_count(1)
    await page.go_back()
    await page.go_back()
    await field.fill("statuscode = error")
    await field.press("Enter")
    await expect(page.get_by_role("alert")).to_contain_text("Did you mean “status_code”?")
    await field.fill("f" * 32)
    await field.press("Enter")
    await expect(page.get_by_text(f"No trace with the id {'f' * 32} is stored.")).to_be_visible()


async def test_length_that_does_not_exist_shows_today(page: Page, stack: RunningStack) -> None:
    await page.goto(f"{stack.api}/ui/?last=toString")
    await expect(page.get_by_role("heading", name="Today", exact=True)).to_be_visible()
    await expect(page.get_by_label("Time", exact=True)).to_have_value("day")


async def test_users_have_the_cost_of_their_whole_requests(page: Page, stack: RunningStack) -> None:
    await page.goto(f"{stack.api}/ui/?day=2026-03-10")
    cells = _row(page, "Users", "adele").get_by_role("cell")
    await expect(cells).to_have_text(["", "3 1", "1 0", "$1.00 $0.500", "300 100", "2 s 2 s", "2 s 2 s"])
    await expect(_row(page, "Models", "gpt-4o").get_by_role("cell").nth(1)).to_have_text("4 2")
    await expect(_row(page, "Services", "desk").get_by_role("cell").nth(3)).to_have_text("$3.00 $1.00")
    await expect(_row(page, "Applications", "faq").get_by_role("cell").nth(1)).to_have_text("4 2")
    await cells.nth(2).get_by_role("link").click()
    await expect(page.locator(".rows .row")).to_have_count(1)
    await expect(page.locator(".chip-text").filter(has_text="user = adele")).to_be_visible()


async def test_user_leads_to_sessions_and_requests_and_back(page: Page, stack: RunningStack) -> None:
    await page.goto(f"{stack.api}/ui/?day=2026-03-10")
    await _row(page, "Users", "adele").get_by_role("link", name="adele").click()
    await expect(page.get_by_role("heading", name="adele", exact=True)).to_be_visible()
    facts = page.locator(".session-totals div")
    await expect(facts.filter(has_text="Requests").locator("dd")).to_have_text("4")
    await expect(facts.filter(has_text="Cost").locator("dd")).to_have_text("$1.50")
    await page.get_by_role("link", name="talk-adele").first.click()
    await expect(page.get_by_role("heading", name="talk-adele")).to_be_visible()
    await page.get_by_role("link", name="adele", exact=True).click()
    await page.get_by_role("link", name="answer").first.click()
    await page.locator(".span-panel, .wf-row").first.wait_for()
    await page.locator(".wf-row").first.click()
    await page.locator(".span-panel").get_by_role("link", name="adele", exact=True).click()
    await expect(page.get_by_role("heading", name="adele", exact=True)).to_be_visible()


async def test_users_are_listed_with_what_they_took(page: Page, stack: RunningStack) -> None:
    await page.goto(f"{stack.api}/ui/users?oldest=2026-03-10T00:00:00Z&newest=2026-03-11T00:00:00Z")
    row = page.locator(".rows .row").filter(has_text="adele")
    for name, text in [("sessions", "1"), ("traces", "3"), ("failed", "1"), ("tokens", "300"), ("cost", "$1.00")]:
        await expect(row.locator(f".c-{name}")).to_have_text(text)
    await expect(page.locator(".rows .row")).to_have_count(2)
    await page.keyboard.press("j")
    await page.keyboard.press("Enter")
    await expect(page.locator("h1")).to_have_text(HOSTILE)
    assert await page.title() == f"{HOSTILE} · User · Clearspan"


async def test_part_that_fails_leaves_the_others(page: Page, stack: RunningStack) -> None:
    async def fail_models(route: Route) -> None:
        body = route.request.post_data_json or {}
        if body.get("group_by") == [{"field": "model"}]:
            await route.fulfill(status=504, json={"detail": "The query did not end."})
        else:
            await route.continue_()

    await page.route("**/spans/groups/query", fail_models)
    await page.goto(f"{stack.api}/ui/?day=2026-03-10")
    await expect(page.get_by_role("region", name="Models").get_by_role("alert")).to_contain_text("did not end")
    await expect(_row(page, "Users", "adele")).to_be_visible()
    await expect(_tile(page, "Requests").locator(".value")).to_have_text("4")
    await page.unroute("**/spans/groups/query")
    await page.get_by_role("button", name="Try again").click()
    await expect(_row(page, "Models", "gpt-4o")).to_be_visible()


async def test_figures_of_a_part_say_of_which_and_are_not_compared(page: Page, stack: RunningStack) -> None:
    async def end_early(route: Route) -> None:
        response = await route.fetch()
        examined = {"oldest": "2026-03-10T11:30:00Z", "newest": "2026-03-11T00:00:00Z"}
        is_of_the_day = (route.request.post_data_json or {})["windowing"]["oldest"].startswith("2026-03-10")
        answer = await response.json()
        await route.fulfill(json={**answer, "complete": False, "examined": examined} if is_of_the_day else answer)

    await page.route("**/spans/groups/query", end_early)
    await page.goto(f"{stack.api}/ui/?day=2026-03-10")
    said = "10 Mar from 10 Mar 11:30:00 to 11 Mar 00:00:00."
    await expect(_tile(page, "Requests")).to_contain_text(f"Counted: {said}")
    await expect(_tile(page, "Requests").locator(".before")).to_have_text("was 2")
    await expect(page.get_by_role("region", name="Users")).to_contain_text(f"ran out of its budget. Counted: {said}")
    await page.unroute_all(behavior="wait")


async def test_figure_that_is_many_times_the_one_before_says_how_many(page: Page, stack: RunningStack) -> None:
    async def make_many(route: Route) -> None:
        response = await route.fetch()
        answer = await response.json()
        for group in answer.get("totals", []):
            group["values"] = {**group["values"], "count": 2_500}
        await route.fulfill(json=answer)

    await page.route("**/spans/groups/query", make_many)
    await page.goto(f"{stack.api}/ui/?day=2026-03-10")
    await expect(_tile(page, "Requests").locator(".before")).to_have_text("was 2 1,250 ×")
    await page.unroute_all(behavior="wait")


async def test_figure_before_is_found_among_more_groups_than_an_answer_has(page: Page, stack: RunningStack) -> None:
    async def leave_adele_out(route: Route) -> None:
        answer = await (await route.fetch()).json()
        if (route.request.post_data_json or {})["limit"] == 1_000:
            groups = [group for group in answer["groups"] if "adele" not in group["by"].values()]
            answer |= {"groups": groups, "others": {"groups_count": 1}}
        await route.fulfill(json=answer)

    await page.route("**/spans/groups/query", leave_adele_out)
    await page.goto(f"{stack.api}/ui/?day=2026-03-10")
    shown = _row(page, "Users", "adele").get_by_role("cell").nth(1)
    await expect(shown).to_have_text("3 1")
    await page.unroute_all(behavior="wait")


async def test_part_shows_more_values(page: Page, stack: RunningStack) -> None:
    async def ask_for_one(route: Route) -> None:
        body = route.request.post_data_json or {}
        await route.continue_(post_data={**body, "limit": 1} if body["limit"] == 8 else body)

    await page.route("**/spans/groups/query", ask_for_one)
    await page.goto(f"{stack.api}/ui/?day=2026-03-10")
    await expect(_row(page, "Users", HOSTILE)).to_have_count(0)
    await page.get_by_role("region", name="Users").get_by_role("button", name="Show more (1)").click()
    await expect(_row(page, "Users", HOSTILE)).to_be_visible()


async def test_few_requests_are_sent_at_once(page: Page, stack: RunningStack) -> None:
    running, most, count = 0, 0, 0

    async def counted(route: Route) -> None:
        nonlocal running, most, count
        running, count = running + 1, count + 1
        most = max(most, running)
        await asyncio.sleep(0)
        await route.continue_()

    def ended(_: Any) -> None:
        nonlocal running
        running -= 1

    await page.route("**/spans/groups/query", counted)
    page.on("requestfinished", lambda request: ended(request) if "groups" in request.url else None)
    await page.goto(f"{stack.api}/ui/?day=2026-03-10")
    await expect(_row(page, "Users", "adele")).to_be_visible()
    assert (most, count) == (2, 12)


async def test_day_without_spans_says_where_the_latest_are(page: Page, stack: RunningStack) -> None:
    await page.goto(f"{stack.api}/ui/?day=2090-01-01")
    await page.get_by_role("link", name="Show that day").click()
    await expect(_tile(page, "Requests").locator(".value")).not_to_have_text("0")
    await page.goto(f"{stack.api}/ui/?day={QUIET_DAY}")
    await expect(page.get_by_role("region", name="Users")).to_contain_text("No request of this time names a user.")
    await page.get_by_role("button", name="The day before").click()
    await expect(page.get_by_role("heading", name="31 Jan", exact=True)).to_be_visible()
    await page.get_by_label("Time", exact=True).select_option("7d")
    await expect(page.get_by_role("heading", name="Last 7 days")).to_be_visible()
    assert page.url.endswith("?last=7d")
