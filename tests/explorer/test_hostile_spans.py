"""Spans whose texts try to become part of the page stay texts."""

from __future__ import annotations

from typing import Any

import pytest
from playwright.async_api import expect

from tests.support.explorer import Explorer

pytestmark = [pytest.mark.long, pytest.mark.asyncio(loop_scope="module")]
TRACE_ID, SPAN_ID = "e1" * 16, "e2" * 8
ODD_TRACE_ID = "e5" * 16
HOSTILE = {
    "script": "<script>document.title = 'owned'</script>",
    "image": "<img src=x onerror=\"document.title = 'owned'\">",
    "link": "javascript:document.title='owned'",
    "control": "bell \x07, escape \x1b[31m, zero width \u200b, line\u2028separator",
    "right_to_left": "\u202eevil\u202c שלום",
    "brackets": "]]></style><style>*{display:none}</style>",
}


async def test_hostile_texts_stay_texts_in_every_tab(explorer: Explorer):
    messages = [
        {"role": "user", "content": [{"type": "image_url", "image_url": {"url": "javascript:alert(1)"}}]},
        {"role": "<b>assistant</b>", "content": HOSTILE["script"]},
    ]
    span = {
        "trace_id": TRACE_ID, "span_id": SPAN_ID, "span_name": HOSTILE["image"], "span_type": "chat",
        "status_code": "STATUS_CODE_ERROR", "status_message": HOSTILE["script"],
        "attributes": {**HOSTILE, "ag": {"type": {"span": "chat"}, "data": {"inputs": {"messages": messages}}}},
        "events": [{"name": HOSTILE["script"], "attributes": {"exception.stacktrace": HOSTILE["image"]}}],
        "resource": {"attributes": {"service.name": HOSTILE["image"]}},
    }  # fmt: skip
    explorer.stack.ask("/tracing/spans/ingest", {"spans": [span]})
    explorer.stack.ask_until(f"/spans/{TRACE_ID}/{SPAN_ID}", None, lambda answer: answer["count"] == 1)
    for tab in ("conversation", "data", "attributes", "events", "resource", "raw"):
        await explorer.open(f"traces/{TRACE_ID}", span=SPAN_ID, tab=tab)
        await expect(explorer.page.locator(".tab-content")).to_be_visible()
        assert await explorer.text(".span-panel h2 bdi") == HOSTILE["image"]
        assert await explorer.page.title() == f"{HOSTILE['image']} · Trace · Clearspan"
        assert await explorer.page.locator(".tab-content script, .tab-content img, a[href^='javascript']").count() == 0


async def test_attribute_of_a_megabyte_shows_its_beginning(explorer: Explorer):
    trace_id = "e3" * 16
    span = {"trace_id": trace_id, "span_id": SPAN_ID, "span_name": "large", "attributes": {"large": "x" * 1_000_000}}
    explorer.stack.ask("/tracing/spans/ingest", {"spans": [span]})
    explorer.stack.ask_until(f"/spans/{trace_id}/{SPAN_ID}", None, lambda answer: answer["count"] == 1)
    await explorer.open(f"traces/{trace_id}", span=SPAN_ID, tab="attributes")
    await expect(explorer.page.get_by_role("button", name="Show all 1,000,000 characters")).to_be_visible()
    assert len(await explorer.text(".attributes td")) < 1_000


ODD: tuple[Any, ...] = (5, True, [], ["x", 1, None], {}, {"a": {"b": None}})
"""Values that a member which is usually a text or a number may have."""


def _odd_span(number: int, odd: Any) -> dict[str, Any]:
    """A span with one value in every member that takes any."""
    message = {"role": odd, "content": odd, "name": odd, "reasoning": odd, "finish_reason": odd, "tool_call_id": odd}
    calls = [odd, {"id": odd, "name": odd, "arguments": odd}, {"function": odd}]
    parts = [odd, {"type": "reasoning", "text": odd}, {"type": "image", "url": odd}, {"text": odd}]
    ag = {
        "type": {"span": "chat"},
        "exception": {"type": odd, "message": odd},
        "session": {"id": odd},
        "metrics": {
            "tokens": {"incremental": {"total": odd, "prompt": odd, "cached": odd}},
            "costs": {"incremental": {"total": odd}},
        },
        "meta": {"request": {"model": odd}, "response": {"model": odd}},
        "data": {
            "inputs": {"messages": [odd, message], "tools": [odd], "prompt": odd},
            "outputs": {"messages": [{**message, "tool_calls": calls, "parts": parts}]},
            "parameters": odd,
        },
    }
    return {
        "trace_id": ODD_TRACE_ID, "span_id": f"{number:016x}", "parent_id": f"{1:016x}" if number > 1 else None,
        "span_name": "odd", "status_code": "STATUS_CODE_ERROR", "attributes": {"ag": ag, "http": odd},
        "events": [{"name": "e", "attributes": {"exception.stacktrace": odd, "odd": odd}}],
        "links": [{"trace_id": "e6" * 16, "span_id": "e6" * 8, "attributes": {"odd": odd}}],
        "references": [{"slug": "faq", "attributes": {"key": odd}}, {"slug": "faq", "attributes": {"other": odd}}],
        "resource": {"attributes": {"service": {"name": odd}, "odd": odd}},
    }  # fmt: skip


async def test_odd_members_leave_no_view_empty(explorer: Explorer):
    spans = [_odd_span(number, odd) for number, odd in enumerate(ODD, 1)]
    explorer.stack.ask("/tracing/spans/ingest", {"spans": spans})
    for span in spans:
        path = f"/spans/{ODD_TRACE_ID}/{span['span_id']}"
        explorer.stack.ask_until(path, None, lambda answer: answer["count"] == 1)
    page, shown = explorer.page, set()
    await explorer.open(f"traces/{ODD_TRACE_ID}")
    for row in range(len(spans)):
        await page.locator(".wf-row").nth(row).click()
        await expect(page.locator(".span-panel [aria-busy=false]")).to_be_visible()
        for tab in await page.get_by_role("tab").all():
            await tab.click()
            await expect(tab).to_have_attribute("aria-selected", "true")
            shown.add((await tab.inner_text()).split()[0])
            assert await explorer.text(".tab-content")
            assert "[object Object]" not in await explorer.text(".span-panel")
            assert await page.locator(".tab-content .notice.error").count() == 0
    assert shown == {"Conversation", "Data", "Attributes", "Feedback", "Events", "Links", "Resource", "JSON"}
    of_trace = {"conditions": [{"field": "trace_id", "value": ODD_TRACE_ID}]}
    await explorer.open("spans", filter=of_trace)
    await expect(page.locator(".rows .row")).to_have_count(len(spans))
    await explorer.open("sessions")
    await expect(page.locator(".rows .row").first).to_be_visible()
    await explorer.open("sessions/5")
    await expect(page.locator(".turn")).to_have_count(1)
