"""Spans whose texts try to become part of the page stay texts."""

from __future__ import annotations

import pytest
from playwright.async_api import expect

from tests.support.explorer import Explorer

pytestmark = pytest.mark.asyncio(loop_scope="module")
TRACE_ID, SPAN_ID = "e1" * 16, "e2" * 8
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
        assert await explorer.page.title() == "traces · Clearspan"
        assert await explorer.page.locator(".tab-content script, .tab-content img, a[href^='javascript']").count() == 0


async def test_attribute_of_a_megabyte_shows_its_beginning(explorer: Explorer):
    trace_id = "e3" * 16
    span = {"trace_id": trace_id, "span_id": SPAN_ID, "span_name": "large", "attributes": {"large": "x" * 1_000_000}}
    explorer.stack.ask("/tracing/spans/ingest", {"spans": [span]})
    explorer.stack.ask_until(f"/spans/{trace_id}/{SPAN_ID}", None, lambda answer: answer["count"] == 1)
    await explorer.open(f"traces/{trace_id}", span=SPAN_ID, tab="attributes")
    await expect(explorer.page.get_by_role("button", name="Show all 1,000,000 characters")).to_be_visible()
    assert len(await explorer.text(".attributes td")) < 1_000
