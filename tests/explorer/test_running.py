"""An agent run while it runs, in a browser: open bars, then the end without a reload, and quick filters in lists."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Any
from uuid import uuid4

import pytest
from playwright.async_api import Route, expect

from tests.support.explorer import Explorer

pytestmark = pytest.mark.asyncio(loop_scope="module")


class Run:
    """An agent run that began two hours ago: its root, and a call below it."""

    def __init__(self, explorer: Explorer) -> None:
        self.explorer = explorer
        self.trace_id = uuid4().hex
        self.began = datetime.now(UTC) - timedelta(hours=2, seconds=30)

    def span(self, number: int, **members: Any) -> dict[str, Any]:
        parent = {} if number == 1 else {"parent_id": f"{1:016x}"}
        names = {
            "trace_id": self.trace_id,
            "span_id": f"{number:016x}",
            "span_name": f"run {self.trace_id[:6]} {number}",
        }
        start = {"start_time": (self.began + timedelta(seconds=number)).isoformat()}
        kind = {"attributes": {"ag": {"type": {"span": "agent" if number == 1 else "chat"}}}}
        return names | parent | start | kind | members

    def send(self, *spans: dict[str, Any], running: int) -> None:
        """Send spans, and wait until ``running`` spans of the run have not ended."""
        self.explorer.stack.ask("/tracing/spans/ingest", {"spans": list(spans)})
        conditions = [{"field": "trace_id", "value": self.trace_id}]
        self.explorer.stack.ask_until(
            "/spans/query",
            {"filtering": {"conditions": conditions}},
            lambda answer: answer["count"] == 2 and sum("state" in span for span in answer["spans"]) == running,
        )

    def end_of(self, number: int) -> dict[str, Any]:
        return self.span(number, end_time=(self.began + timedelta(minutes=number)).isoformat())


async def test_run_is_seen_while_it_runs_and_its_end_replaces_it(explorer: Explorer) -> None:
    run = Run(explorer)
    run.send(run.span(1, running=True), run.span(2, running=True), running=2)
    await explorer.open(f"traces/{run.trace_id}")
    bars, labels = explorer.page.locator(".wf-bar.running"), explorer.page.locator(".wf-label")
    await expect(bars).to_have_count(2)
    await expect(explorer.page.locator(".wf-row").first.locator(".running-mark")).to_have_text("running")
    before = await labels.first.inner_text()
    assert before.startswith("running for 2 h")
    await expect(explorer.page.locator(".trace-head")).to_contain_text("Running for")

    run.send(run.end_of(2), running=1)
    await expect(bars).to_have_count(1)
    run.send(run.end_of(1), running=0)
    await expect(bars).to_have_count(0)

    await expect(explorer.page.locator(".trace-head")).to_contain_text("Duration")
    await expect(labels.nth(1)).to_contain_text("1 min 58 s")
    assert explorer.problems == []


async def test_closed_branch_stays_closed_while_the_page_follows(explorer: Explorer) -> None:
    run = Run(explorer)
    run.send(run.span(1, running=True), run.span(2, running=True), running=2)
    await explorer.open(f"traces/{run.trace_id}")
    await explorer.page.get_by_role("button", name="Close all").click()
    await expect(explorer.page.locator(".wf-row")).to_have_count(1)

    run.send(run.end_of(1), running=1)
    await expect(explorer.page.locator(".wf-bar.running")).to_have_count(0)
    await expect(explorer.page.locator(".wf-row")).to_have_count(1)


async def test_form_in_the_panel_stays_when_its_span_ends(explorer: Explorer) -> None:
    run = Run(explorer)
    run.send(run.span(1, running=True), run.span(2, running=True), running=2)
    await explorer.open(f"traces/{run.trace_id}", span=f"{1:016x}", tab="scores")
    panel = explorer.page.locator(".span-panel")
    await expect(panel.locator(".running-mark")).to_have_text("running")
    await panel.get_by_role("button", name="Give feedback").click()
    await panel.get_by_label("comment").fill("It waits for a person.")

    run.send(run.end_of(1), running=1)
    await expect(panel.locator(".facts")).to_contain_text("Duration59 s", use_inner_text=False)
    await expect(panel.get_by_label("comment")).to_have_value("It waits for a person.")


async def test_trace_stays_and_is_followed_while_it_cannot_be_loaded(explorer: Explorer) -> None:
    async def fail(route: Route) -> None:
        await route.fulfill(status=503, json={"detail": {"message": "The store is not available."}})

    run = Run(explorer)
    run.send(run.span(1, running=True), run.span(2, running=True), running=2)
    await explorer.open(f"traces/{run.trace_id}", span=f"{2:016x}")
    rows, problem = explorer.page.locator(".wf-row"), explorer.page.get_by_role("alert")
    await expect(rows).to_have_count(2)
    await explorer.page.route("**/outline", fail)
    await expect(problem).to_contain_text("The store is not available.")
    await expect(rows).to_have_count(2)
    await expect(explorer.page.locator(".span-panel h2")).to_contain_text(" 2")

    run.send(run.end_of(1), run.end_of(2), running=0)
    await explorer.page.unroute("**/outline")
    await expect(explorer.page.locator(".wf-bar.running")).to_have_count(0)
    await expect(rows).to_have_count(2)
    await expect(problem).to_have_count(0)


@pytest.mark.parametrize("view", ["spans", "traces"])
async def test_quick_filter_finds_what_runs_for_long(explorer: Explorer, view: str) -> None:
    run, ended = Run(explorer), Run(explorer)
    run.send(run.span(1, running=True), run.end_of(2), running=1)
    ended.send(ended.end_of(1), ended.end_of(2), running=0)
    await explorer.open(view)
    quick = explorer.page.get_by_label("Running")
    await quick.select_option(label="Running for more than 1 h")

    rows = explorer.page.locator(".rows .row")
    await expect(rows.filter(has_text=f"run {run.trace_id[:6]} 1")).to_contain_text("running since")
    await expect(rows.filter(has_text=f"run {ended.trace_id[:6]}")).to_have_count(0)
    filtered = explorer.page.url
    assert "state" in filtered
    assert "-1h" in filtered
    assert await explorer.page.get_by_role("combobox", name="Running").input_value() == ""
