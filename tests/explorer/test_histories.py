"""Applications, saved queries and the prompt for a key, in a browser."""

from __future__ import annotations

from typing import Any

import pytest
from playwright.async_api import expect

from tests.support.explorer import Explorer
from tests.support.stack import RunningStack

pytestmark = [pytest.mark.long, pytest.mark.asyncio(loop_scope="module")]


@pytest.fixture(scope="module")
def application(explored_stack: RunningStack) -> dict[str, Any]:
    """An application with two revisions of one variant, the second of them deployed."""
    data = {"parameters": {"prompt": "Be kind.", "temperature": 0.7}}
    body = {"application": {"slug": "faq-bot", "name": "FAQ bot", "data": data}}
    created: dict[str, Any] = explored_stack.ask("/simple/applications/", body)["application"]
    revision = {
        "application_variant_id": created["variant_id"],
        "message": "tighter tone",
        "data": {"parameters": {"prompt": "Be kind and brief."}},
    }
    explored_stack.ask("/applications/revisions/commit", {"application_revision": revision})
    deployed = {"application_ref": {"slug": "faq-bot"}, "environment_ref": {"slug": "production"}, "message": "go live"}
    explored_stack.ask("/applications/revisions/deploy", deployed)
    return created


async def test_page_without_applications_says_how_to_create_one(explorer: Explorer):
    await explorer.page.route("**/applications/query", lambda route: route.fulfill(json={"applications": []}))
    await explorer.open("applications")
    created = explorer.page.locator(".notice.empty pre")
    await expect(created).to_contain_text(f"{explorer.stack.api}/simple/applications/")


@pytest.mark.usefixtures("application")
async def test_what_a_revision_changed_is_two_clicks_away(explorer: Explorer):
    await explorer.open("applications")
    await explorer.page.get_by_role("link", name="FAQ bot").click()
    await explorer.page.get_by_role("link", name="What changed").first.click()
    await expect(explorer.page.locator(".change")).to_have_count(2)
    assert await explorer.texts(".change h3 code") == ["/parameters/prompt", "/parameters/temperature"]
    changed = explorer.page.locator(".change.changed")
    await expect(changed.locator("del")).to_have_text("Be kind.")
    await expect(changed.locator("ins")).to_have_text("Be kind and brief.")
    await expect(changed.locator("mark")).to_have_text(" and brief")


@pytest.mark.usefixtures("application")
async def test_deployments_name_environment_and_version(explorer: Explorer):
    await explorer.open("applications")
    row = explorer.page.locator("table", has_text="Environment").locator("tbody tr", has_text="faq-bot")
    await expect(row).to_contain_text("Production")
    await expect(row).to_contain_text("faq-bot")
    deployed = explorer.stack.ask("/environments/revisions/query", {"environment_refs": [{"slug": "production"}]})
    [since] = [one["created_at"] for one in deployed["environment_revisions"] if one.get("message") == "go live"]
    assert await row.locator("time").get_attribute("datetime") == since
    await explorer.survives(row.inner_text)
    await explorer.page.go_back()
    await row.get_by_role("link", name="v2").click()
    await expect(explorer.page.locator("h1")).to_have_text("faq-bot, version 2")
    await expect(explorer.page.locator(".json-node").first).to_contain_text("Be kind and brief.")


async def test_spans_of_two_revisions_are_counted_as_by_the_api(application: dict[str, Any], explorer: Explorer):
    old = application["revision_id"]
    found = explorer.stack.ask("/applications/revisions/query", {"application_refs": [{"slug": "faq-bot"}]})
    new = next(one["id"] for one in found["application_revisions"] if one.get("message") == "tighter tone")
    spans = [_span_of(old, 1, tokens=10), _span_of(new, 2, tokens=20), _span_of(new, 3, tokens=40)]
    explorer.stack.ask("/tracing/spans/ingest", {"spans": spans})
    path = f"/applications/revisions/{new}?include_counts=true"
    counts = explorer.stack.ask_until(path, None, lambda answer: answer["counts"]["spans"] == 2)["counts"]
    await explorer.open("applications/faq-bot/compare", **{"from": old, "to": new})
    rows = explorer.page.locator("tbody tr")
    for title, before, after in (("Traces", 1, 2), ("Spans", 1, 2), ("Tokens", 10, counts["tokens"]["total"])):
        row = rows.filter(has=explorer.page.get_by_role("rowheader", name=title, exact=True))
        await expect(row).to_have_count(1)
        assert (await row.locator("td").all_inner_texts())[:2] == [str(before), str(after)]
    await explorer.survives(lambda: explorer.texts("tbody tr"))
    await explorer.page.go_back()
    counted = rows.filter(has=explorer.page.get_by_role("rowheader", name="Spans", exact=True))
    await counted.get_by_role("link", name="2", exact=True).click()
    await expect(explorer.page.locator(".table")).to_have_attribute("aria-rowcount", "2")
    await explorer.open(f"traces/{spans[1]['trace_id']}", span=spans[1]["span_id"], tab="links")
    await explorer.page.locator(".span-panel").get_by_role("link", name="faq-bot, version 2").click()
    await expect(explorer.page.get_by_role("link", name="What changed since v1")).to_be_visible()
    await expect(explorer.page).to_have_title("faq-bot, version 2 · Application · Clearspan")
    await explorer.page.get_by_role("link", name="All its traces").click()
    await expect(explorer.page.locator(".table")).to_have_attribute("aria-rowcount", "2")
    await explorer.page.locator(".rows .row a").first.click()
    await explorer.page.locator(".trace-head").get_by_role("link", name="faq-bot, version 2").click()
    await expect(explorer.page.locator("h1")).to_have_text("faq-bot, version 2")


def _span_of(revision_id: str, number: int, *, tokens: int) -> dict[str, Any]:
    ag = {
        "references": {"application_revision": {"id": revision_id}},
        "type": {"span": "chat"},
        "metrics": {"tokens": {"incremental": {"total": tokens}}},
    }
    return {"trace_id": f"d{number}" * 16, "span_id": f"d{number}" * 8, "span_name": "ask", "attributes": {"ag": ag}}


async def test_view_is_saved_as_a_query_and_opened_again(explorer: Explorer):
    failed = {"conditions": [{"field": "status_code", "operator": "is", "value": "STATUS_CODE_ERROR"}]}
    await explorer.open("spans", filter=failed)
    await explorer.page.get_by_role("button", name="Save").click()
    await explorer.page.get_by_label("Name", exact=True).fill("Failed calls")
    await explorer.page.get_by_role("dialog").get_by_role("button", name="Save").click()
    title = explorer.page.locator(".saved-query")
    await expect(title).to_contain_text("Saved: Failed calls, version 1")
    found = explorer.stack.ask("/spans/query", {"query_ref": {"slug": "failed-calls"}})["count"]
    await title.get_by_role("link", name="History").click()
    await expect(explorer.page.locator("h1")).to_have_text("Failed calls")
    await explorer.page.get_by_role("link", name="Run").click()
    await expect(title).to_contain_text("Saved query Failed calls, version 1")
    await expect(explorer.page.locator(".table")).to_have_attribute("aria-rowcount", str(found))


async def test_changed_view_becomes_the_next_version_of_its_query(explorer: Explorer):
    tools = {"conditions": [{"field": "span_type", "operator": "is", "value": "tool"}]}
    saved = {"slug": "tools", "name": "Tools", "data": {"filtering": tools, "formatting": {"focus": "span"}}}
    explorer.stack.ask("/simple/queries/", {"query": saved})
    await explorer.open("queries")
    await explorer.page.get_by_role("link", name="Tools").click()
    await expect(explorer.page.locator(".saved-query")).to_contain_text("Tools")
    await explorer.page.get_by_label("Order").select_option("duration")
    await expect(explorer.page.locator(".saved-query")).to_contain_text("changed since")
    await explorer.page.get_by_role("button", name="Save").click()
    await explorer.page.get_by_label("What changed").fill("longest first")
    await explorer.page.get_by_role("dialog").get_by_role("button", name="Save").click()
    await expect(explorer.page.locator(".saved-query")).to_contain_text("Saved: Tools, version 2")
    await explorer.open("queries/tools")
    history = explorer.stack.ask("/queries/revisions/query", {"query_refs": [{"slug": "tools"}]})["query_revisions"]
    versions = [f"v{one['version']}" for one in history if one.get("data")]
    assert await explorer.texts("tbody tr td:first-child") == sorted(versions, reverse=True) == ["v2", "v1"]
    await expect(explorer.page.locator("tbody tr").first).to_contain_text("longest first")
    await explorer.survives(lambda: explorer.texts("tbody tr"))


async def test_history_of_a_query_says_that_there_are_more(explorer: Explorer):
    revisions = [{"id": str(number), "version": str(number), "data": {}} for number in range(101, 0, -1)]
    await explorer.page.route(
        "**/queries/revisions/query", lambda route: route.fulfill(json={"query_revisions": revisions})
    )
    await explorer.open("queries/tools")
    await expect(explorer.page.locator("tbody tr td:first-child").last).to_have_text("v2")
    await expect(explorer.page.get_by_role("status")).to_contain_text(["The newest 100 versions are shown"])


async def test_list_of_queries_says_that_there_are_more(explorer: Explorer):
    queries = [{"id": str(number), "slug": f"query-{number}", "data": {}} for number in range(101)]
    await explorer.page.route("**/simple/queries/query", lambda route: route.fulfill(json={"queries": queries}))
    await explorer.open("queries")
    await expect(explorer.page.locator("table.plain tbody tr")).to_have_count(100)
    await expect(explorer.page.get_by_role("status")).to_contain_text(["The first 100 are shown; there are more."])
