"""One trace in a browser: its waterfall and the panel of a span."""

from __future__ import annotations

import re

import pytest
from playwright.async_api import expect

from tests.support.explorer import AUTOGEN_TRACE, MCP_TRACE, Explorer

pytestmark = pytest.mark.asyncio(loop_scope="module")
AGENT_CALL = {"conditions": [
    {"field": "service", "value": "library-desk"}, {"field": "span_type", "value": "chat"},
    {"field": "attributes", "key": "ag.data.outputs.messages", "operator": "exists"},
    {"field": "tokens", "operator": "exists"},
]}  # fmt: skip
AUTOGEN_SPANS = ["invoke_agent weather", "execute_tool get_weather"]


async def _open_agent_trace(explorer: Explorer) -> tuple[str, str]:
    """Open the trace of a model call in its panel; return the ids."""
    call = explorer.stack.ask("/spans/query", {"filtering": AGENT_CALL, "windowing": {"limit": 1}})["spans"][0]
    await explorer.open(f"traces/{call['trace_id']}", span=call["span_id"])
    await expect(explorer.page.locator(".wf-row.selected")).to_be_visible()
    return call["trace_id"], call["span_id"]


async def test_waterfall_shows_every_span_of_the_trace(explorer: Explorer):
    trace_id, _span_id = await _open_agent_trace(explorer)
    of_trace = {"conditions": [{"field": "trace_id", "value": trace_id}]}
    spans = explorer.stack.ask("/spans/query", {"filtering": of_trace, "windowing": {"limit": 1000}})["spans"]
    assert sorted(await explorer.texts(".wf-text")) == sorted(span["span_name"] for span in spans)
    await explorer.survives(lambda: explorer.texts(".wf-row.selected .wf-label"))


async def test_conversation_shows_messages_and_tool_calls(explorer: Explorer):
    await _open_agent_trace(explorer)
    await expect(explorer.page.locator(".message.output")).to_be_visible()
    repeated = explorer.page.locator(".conversation .folded")  # what an earlier call of its session has too, if any
    if await repeated.count():
        await repeated.click()
    assert {role.lower() for role in await explorer.texts(".message .role")} >= {"system", "user", "assistant"}


async def test_inputs_are_named_without_a_level_of_their_own(explorer: Explorer):
    trace_id = "d1" * 16
    data = {"inputs": {"question": "What is for lunch?"}, "outputs": "Soup."}
    span = {"trace_id": trace_id, "span_id": "1" * 16, "attributes": {"ag": {"data": data}}}
    explorer.stack.ask("/tracing/spans/ingest", {"spans": [span]})
    of_trace = {"conditions": [{"field": "trace_id", "value": trace_id}]}
    explorer.stack.ask_until("/spans/query", {"filtering": of_trace}, lambda answer: answer["count"] == 1)
    await explorer.open(f"traces/{trace_id}", span="1" * 16, tab="data")
    inputs = explorer.page.locator(".data").filter(has=explorer.page.get_by_role("heading", name="inputs"))
    await expect(inputs.locator(".json-line")).to_have_text(re.compile(r"question\s*What is for lunch\?"))
    await expect(inputs.locator(".json-toggle")).to_have_count(0)


async def test_arrow_keys_walk_the_tree_and_the_address_follows(explorer: Explorer):
    await _open_agent_trace(explorer)
    for _ in range(20):
        await explorer.page.keyboard.press("k")
    await expect(explorer.page.locator(".wf-row").first).to_have_attribute("aria-selected", "true")
    rows = await explorer.page.locator(".wf-row").count()
    await explorer.page.keyboard.press("ArrowLeft")
    await expect(explorer.page.locator(".wf-row")).to_have_count(1)
    await explorer.page.keyboard.press("ArrowRight")
    await expect(explorer.page.locator(".wf-row")).to_have_count(rows)
    await explorer.page.keyboard.press("Escape")
    await expect(explorer.page.locator(".span-panel")).to_have_count(0)


async def test_unknown_trace_says_so(explorer: Explorer):
    await explorer.open(f"traces/{'9' * 32}")
    await expect(explorer.page.locator(".notice.empty")).to_contain_text("There is no such trace")


async def test_cause_in_a_closed_branch_of_a_large_trace_is_shown(explorer: Explorer):
    trace_id = "f7" * 16
    parents = [0, 1] + [2] * 2_100  # the root, a branch that is closed at first, and its leaves
    spans = [
        {"trace_id": trace_id, "span_id": f"{number:016x}", "parent_id": f"{parent:016x}" if parent else None,
         "span_name": f"span {number}", "start_time": f"2025-01-01T10:00:{number // 1000:02}.{number % 1000:03}Z"}
        for number, parent in enumerate(parents, 1)
    ]  # fmt: skip
    spans[1_500]["status_code"] = "STATUS_CODE_ERROR"
    explorer.stack.ask("/tracing/spans/ingest", {"spans": spans})
    explorer.stack.ask_until(f"/spans/{trace_id}/{spans[-1]['span_id']}", None, lambda answer: answer["count"] == 1)
    await explorer.open(f"traces/{trace_id}")
    await expect(explorer.page.locator(".wf-row")).to_have_count(2)
    cause = explorer.page.locator(".wf-row.failed.selected")
    for _ in range(2):  # again, after it was scrolled away
        await explorer.page.get_by_role("link", name="Show the cause").click()
        await expect(cause).to_be_in_viewport()
        await explorer.page.locator(".waterfall").evaluate("element => element.scrollTo(0, 0)")
        await expect(cause).to_have_count(0)
    await explorer.page.get_by_role("button", name="Close all").click()
    await expect(explorer.page.locator(".wf-row")).to_have_count(1)


async def test_orphan_and_second_root_are_marked(explorer: Explorer):
    trace_id = "f1" * 16
    spans = [
        {"trace_id": trace_id, "span_id": "f1" * 8, "span_name": "first root"},
        {"trace_id": trace_id, "span_id": "f2" * 8, "span_name": "second root"},
        {"trace_id": trace_id, "span_id": "f3" * 8, "parent_id": "99" * 8, "span_name": "lost child"},
    ]
    explorer.stack.ask("/tracing/spans/ingest", {"spans": spans})
    explorer.stack.ask_until(f"/spans/{trace_id}/{'f3' * 8}", None, lambda answer: answer["count"] == 1)
    await explorer.open(f"traces/{trace_id}")
    await expect(explorer.page.locator(".roots-note")).to_contain_text(
        "2 spans without a parent, 1 whose parent is not stored"
    )
    await expect(explorer.page.locator(".wf-mark")).to_have_text(["another root", "orphan"])


async def test_span_that_ends_after_its_parent_is_on_the_critical_path(explorer: Explorer):
    trace_id, second = "f5" * 16, "2026-11-01T10:00:0{}.000Z"
    spans = [
        {"span_id": "01" * 8, "span_name": "agent", "start_time": second.format(0), "end_time": second.format(5)},
        {"span_id": "02" * 8, "span_name": "short", "start_time": second.format(1), "end_time": second.format(2)},
        {"span_id": "03" * 8, "span_name": "late", "start_time": second.format(1), "end_time": second.format(6)},
    ]
    children = [{**span, "parent_id": "01" * 8} if span["span_name"] != "agent" else span for span in spans]
    ingested = [{**span, "trace_id": trace_id} for span in children]
    explorer.stack.ask("/tracing/spans/ingest", {"spans": ingested})
    explorer.stack.ask_until(f"/spans/{trace_id}/{'03' * 8}", None, lambda answer: answer["count"] == 1)
    await explorer.open(f"traces/{trace_id}")
    assert await explorer.texts(".critical .wf-text") == ["agent", "late"]


async def test_messages_of_a_runtime_are_folded(explorer: Explorer):
    switch = explorer.page.get_by_role("switch", name="Fold message spans")
    note = explorer.page.locator(".fold").get_by_role("status")
    rows = explorer.page.locator(".wf-row")
    await explorer.open(f"traces/{AUTOGEN_TRACE}")
    await expect(rows).to_have_count(8)
    await expect(note).to_be_empty()

    await switch.click()
    await expect(note).to_have_text("5 spans folded")
    await expect(rows.locator(".wf-text")).to_have_text([re.compile("^autogen publish"), *AUTOGEN_SPANS])
    assert [await row.get_attribute("aria-level") for row in await rows.all()] == ["1", "2", "3"]
    await explorer.page.keyboard.press("k")
    await expect(rows.first).to_have_attribute("aria-selected", "true")
    await explorer.survives(lambda: explorer.texts(".wf-text"))

    await explorer.open(f"traces/{AUTOGEN_TRACE}", span="47baac26d8928039")  # one of those that are folded
    await expect(note).to_have_text("4 spans folded")
    await expect(explorer.page.locator(".wf-row.selected .wf-text")).to_have_text(re.compile("^autogen process"))
    assert "fold=1" in explorer.page.url

    await switch.focus()
    await explorer.page.keyboard.press("Space")
    await expect(rows).to_have_count(8)
    await explorer.open(f"traces/{AUTOGEN_TRACE}")
    await expect(rows).to_have_count(8)


async def test_call_over_mcp_is_folded_to_one_step(explorer: Explorer):
    rows = explorer.page.locator(".wf-row")
    await explorer.open(f"traces/{MCP_TRACE}", span="011a3b4fdddaf59f")
    await expect(rows).to_have_count(3)

    await explorer.page.get_by_role("switch", name="Fold message spans").click()
    await expect(explorer.page.locator(".fold").get_by_role("status")).to_have_text("2 spans folded")
    await expect(rows.locator(".wf-text")).to_have_text(["tools/call get_weather"])


async def test_trace_without_message_spans_has_no_switch(explorer: Explorer):
    await _open_agent_trace(explorer)
    await expect(explorer.page.get_by_role("switch")).to_have_count(0)


async def test_totals_of_a_trace_count_each_call_once(explorer: Explorer):
    trace_id, _span_id = await _open_agent_trace(explorer)
    of_trace = {"conditions": [{"field": "trace_id", "value": trace_id}]}
    [summary] = explorer.stack.ask("/traces/summaries/query", {"filtering": of_trace})["summaries"]
    tokens = explorer.page.locator(".trace-head .facts div", has_text="Tokens").locator("dd")
    assert (await tokens.inner_text()) == str(summary["tokens"])


async def test_log_record_is_shown_as_an_event_of_its_span(explorer: Explorer):
    trace_id, span_id = "e5" * 16, "e5" * 8
    span = {"trace_id": trace_id, "span_id": span_id, "span_name": "judged", "start_time": "2025-01-01T10:00:00Z"}
    explorer.stack.ask("/tracing/spans/ingest", {"spans": [span]})
    ids = {"traceId": trace_id, "spanId": span_id, "timeUnixNano": "1735725600500000000"}
    log = {**ids, "eventName": "review", "severityText": "WARN", "body": {"stringValue": "Too short."}}
    explorer.stack.ask("/otlp/v1/logs", {"resourceLogs": [{"scopeLogs": [{"logRecords": [log]}]}]})
    explorer.stack.ask_until(
        f"/spans/{trace_id}/{span_id}", None, lambda answer: answer["count"] == 1 and "events" in answer["span"]
    )
    await explorer.open(f"traces/{trace_id}", span=span_id)
    await explorer.page.get_by_role("tab", name="Events 1").click()
    event = explorer.page.locator(".event")
    await expect(event).to_contain_text("review")
    await expect(event).to_contain_text("500 ms after the start, from a log record, WARN")
    await expect(event).to_contain_text("Too short.")
