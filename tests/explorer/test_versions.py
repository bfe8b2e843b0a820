"""The versions of a variant in a list, and the page of a revision, with the figures of their spans."""

from __future__ import annotations

import time
from collections.abc import Mapping
from typing import Any

import pytest
from playwright.async_api import Route, expect

from tests.support.explorer import Explorer
from tests.support.stack import RunningStack

pytestmark = [pytest.mark.long, pytest.mark.asyncio(loop_scope="module")]


def _span_of(revision_id: str, number: int, *, ms: int, cost: float, score: float, failed: bool) -> dict[str, Any]:
    start_us = (int(time.time()) - 3_600) * 1_000_000
    return {
        "trace_id": f"e{number}" * 16,
        "span_id": f"e{number}" * 8,
        "span_name": "ask",
        "start_time": start_us / 1e6,
        "end_time": (start_us + ms * 1_000) / 1e6,
        "status_code": "STATUS_CODE_ERROR" if failed else "STATUS_CODE_OK",
        "scores": [{"name": "Version quality", "value": score, "at": start_us / 1e6}],
        "attributes": {
            "ag": {
                "references": {"application_revision": {"id": revision_id}},
                "type": {"span": "chat"},
                "metrics": {"costs": {"incremental": {"total": cost}}, "tokens": {"incremental": {"total": 100}}},
            }
        },
    }


@pytest.fixture(scope="module")
def revisions(explored_stack: RunningStack) -> Mapping[str, str]:
    """Two versions of one variant with spans, the second deployed, and a fork of the first. Returns ids of revisions."""
    ask = explored_stack.ask
    body = {"application": {"slug": "versions", "name": "Versions", "data": {"parameters": {"prompt": "one"}}}}
    created = ask("/simple/applications/", body)["application"]
    revision = {"application_variant_id": created["variant_id"], "message": "two", "data": {"parameters": {"n": 2}}}
    second = ask("/applications/revisions/commit", {"application_revision": revision})["application_revision"]["id"]
    ask(
        "/applications/variants/fork",
        {
            "application_variant": {"slug": "versions.fork", "name": "The fork"},
            "application_variant_ref": {"id": created["variant_id"]},
            "application_revision_ref": {"version": "1"},
        },
    )
    deployed = {"application_ref": {"slug": "versions"}, "environment_ref": {"slug": "staging"}}
    ask("/applications/revisions/deploy", deployed)
    spans = [
        _span_of(second, 1, ms=1_000, cost=0.25, score=0.5, failed=True),
        _span_of(second, 2, ms=3_000, cost=0.75, score=0.9, failed=False),
    ]
    ask("/tracing/spans/ingest", {"spans": spans})
    path = f"/applications/revisions/{second}?include_counts=true"
    explored_stack.ask_until(path, None, lambda answer: answer["counts"]["spans"] == 2)
    return {"first": created["revision_id"], "second": second}


@pytest.mark.usefixtures("revisions")
async def test_versions_show_what_their_spans_took(explorer: Explorer):
    await explorer.open("applications/versions")
    row = explorer.page.locator(".versions tbody tr").first
    await expect(row).to_contain_text("v2")
    await expect(row).to_contain_text("in staging")
    await expect(row.locator("td.numeric")).to_have_text(["2", "1", "$0.500", "2 s", "0.7"])
    await expect(explorer.page.get_by_role("columnheader", name="Version quality").first).to_be_visible()
    await row.get_by_role("link", name="1", exact=True).click()
    await expect(explorer.page.locator(".table")).to_have_attribute("aria-rowcount", "1")
    await explorer.page.go_back()
    await row.get_by_role("link", name="0.7").click()
    await expect(explorer.page.locator(".table")).to_have_attribute("aria-rowcount", "2")
    await expect(explorer.page.get_by_role("columnheader", name="Version quality")).to_be_visible()


async def test_author_of_a_version_is_named(revisions: Mapping[str, str], explorer: Explorer):
    found = explorer.stack.ask(f"/applications/revisions/{revisions['second']}")["application_revision"]

    async def users(route: Route) -> None:
        await route.fulfill(json={"count": 1, "users": [{"id": found["author"], "email": "ada@example.org"}]})

    await explorer.page.route("**/projects/users", users)
    await explorer.open("applications/versions")
    await expect(explorer.page.locator(".versions tbody tr").first).to_contain_text("ada")
    await explorer.open(f"applications/versions/revisions/{revisions['second']}")
    await expect(explorer.page.get_by_text("two · ada")).to_be_visible()


async def test_fork_names_its_source(revisions: Mapping[str, str], explorer: Explorer):
    await explorer.open("applications/versions")
    fork = explorer.page.locator(".card", has=explorer.page.get_by_role("heading", name="The fork"))
    await expect(fork).to_contain_text("forked from Versions, v1")
    await expect(fork.locator("tbody tr")).to_have_count(2)
    await fork.locator(".card-head").get_by_role("link", name="v1").click()
    await expect(explorer.page).to_have_url(
        f"{explorer.stack.api}/ui/applications/versions/revisions/{revisions['first']}"
    )


async def test_revision_page_begins_with_its_figures(revisions: Mapping[str, str], explorer: Explorer):
    await explorer.open(f"applications/versions/revisions/{revisions['second']}")
    figures = explorer.page.locator(".figure-tiles")
    await expect(figures.locator("dd")).to_have_text(["2", "1", "$0.500", "2 s", "2.9 s", "100", "0.7"])
    await explorer.page.get_by_label("Time range").select_option("1d")
    await expect(figures.locator("dd").first).to_have_text("2")
    await explorer.survives(lambda: explorer.texts(".figure-tiles dd"))
    await explorer.page.go_back()
    await figures.get_by_role("link", name="2.9 s").click()
    await expect(explorer.page.locator(".rows .row").first).to_contain_text("3 s")


async def test_scores_of_two_revisions_are_compared(revisions: Mapping[str, str], explorer: Explorer):
    parameters = {"from": revisions["first"], "to": revisions["second"]}
    await explorer.open("applications/versions/compare", **parameters)
    row = explorer.page.get_by_role("row", name="Version quality, average")
    await expect(row.locator("td")).to_have_text(["", "0.7", ""])
    cost = explorer.page.locator("tr", has=explorer.page.get_by_role("rowheader", name="Cost per trace"))
    await expect(cost.locator("td").nth(2)).to_be_empty()  # there is nothing to compare it with
    errors = explorer.page.locator("tr", has=explorer.page.get_by_role("rowheader", name="Errors", exact=True))
    await errors.get_by_role("link", name="1").click()
    await expect(explorer.page.locator(".table")).to_have_attribute("aria-rowcount", "1")


async def test_revision_without_spans_says_so(revisions: Mapping[str, str], explorer: Explorer):
    await explorer.open(f"applications/versions/revisions/{revisions['first']}")
    await expect(explorer.page.get_by_text("No span of this time names this revision.")).to_be_visible()
