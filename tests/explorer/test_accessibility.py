"""With 100,000 spans stored, axe-core finds nothing serious in any view, in light and dark. At the width of a phone and
enlarged to 200 % nothing is cut off, nothing moves while a view loads, and the keyboard alone reaches everything.
"""

from __future__ import annotations

from typing import Any

import pytest
from axe_playwright_python.async_playwright import Axe
from playwright.async_api import Browser, expect

from tests.support.explorer import AUTOGEN_TRACE, open_page
from tests.support.stack import RunningStack

pytestmark = [pytest.mark.long, pytest.mark.asyncio(loop_scope="module")]
VIEWS = (
    "",
    "users",
    "charts?measure=cost",
    "traces",
    "spans",
    "sessions",
    "applications",
    "queries",
    "dead-letters",
    "status",
)
CUT_OFF = """() => [...document.querySelectorAll('.c-time, .c-cost, .c-duration, .wf-label')].filter((element) => {
  const [inner, outer] = [element, element.closest('.wf-track, .row')].map((each) => each.getBoundingClientRect());
  const isOutside = inner.left < outer.left - 1 || inner.right > outer.right + 1;
  return element.offsetParent && (isOutside || element.scrollWidth > element.clientWidth + 1);
}).map((element) => element.innerText)"""
"""Texts that must be whole and are not."""

SERIOUS = {"serious", "critical"}
TALK = "5a" * 16
USED = "5b" * 16
PIXEL = "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk+M9QDwADhgGAWjR9awAAAABJRU5ErkJggg=="
"""A picture of one pixel."""

ANSWER = """# Refunds
- [x] see [the policy](https://shop.example/policy), `code`

> Quoted

| a | b |
|--|--|
| 1 | 2 |

```python
a_line_of_code_that_is_longer_than_a_phone_is_wide = "and has no place where it could be broken into two lines"
```
"""


def _talk() -> dict[str, Any]:
    """A span with everything that messages can have, and a score."""
    call = {"id": "call-1", "name": "find_order", "arguments": {"customer": "c-23", "since": "2026-11-01"}}
    media = [
        {"type": "blob", "mime_type": "image/png", "content": PIXEL},
        {"type": "file", "file": {"filename": "offer.pdf", "file_data": "data:application/pdf;base64,JVBERi0xLjc="}},
        {"type": "uri", "uri": "https://pictures.example/cat.png"},
    ]
    messages = [
        {"role": "user", "parts": [{"type": "text", "content": "Look."}, *media]},
        {"role": "assistant", "parts": [{"type": "reasoning", "content": "An order."}], "tool_calls": [call]},
        {"role": "tool", "tool_call_id": "call-1", "content": "A lamp, a chair, a table, another lamp, and a desk."},
    ]
    data = {"inputs": {"messages": messages}, "outputs": {"messages": [{"role": "assistant", "content": ANSWER}]}}
    score = {"name": "Relevance", "value": 0.9, "at": "2026-01-07T03:00:09Z"}
    ag = {"type": {"span": "chat"}, "data": data}
    return {"trace_id": TALK, "span_id": TALK[:16], "span_name": "talk", "scores": [score], "attributes": {"ag": ag}}


@pytest.fixture(scope="module")
def application_views(large_stack: RunningStack) -> list[str]:
    """The views of an application with two versions, and a trace of the second one."""
    data = {"parameters": {"messages": [{"role": "system", "content": "Be kind."}], "temperature": 0.7}}
    body = {"application": {"slug": "accessible", "data": data}}
    application = large_stack.ask("/simple/applications/", body)["application"]
    first, variant_id = application["revision_id"], application["variant_id"]
    variant = large_stack.ask(f"/applications/variants/{variant_id}")["application_variant"]
    changed = {"parameters": {"messages": [{"role": "system", "content": "Be kind.\nBe brief."}], "temperature": 0.2}}
    revision = {"application_variant_id": variant_id, "data": changed}
    answer = large_stack.ask("/applications/revisions/commit", {"application_revision": revision})
    second = answer["application_revision"]["id"]
    large_stack.ask(
        "/applications/revisions/deploy",
        {"application_revision_ref": {"id": first}, "environment_ref": {"slug": "development"}},
    )
    paths = ["", f"/revisions/{second}", f"/compare?from={first}&to={second}", f"/edit?variant={variant['slug']}"]
    reviews = [f"/deploy?revision={second}&environment=development", f"/revert?revision={first}"]
    references = [{"id": second, "attributes": {"key": "application_revision"}}]
    used = {"trace_id": USED, "span_id": USED[:16], "span_name": "use", "session_id": "s-1", "references": references}
    large_stack.ask("/tracing/spans/ingest", {"spans": [used]})
    large_stack.ask_until(f"/spans/{USED}/{USED[:16]}", None, lambda answer: answer["count"] == 1)
    return [f"traces/{USED}", *(f"applications/accessible{path}" for path in (*paths, *reviews))]


async def _views(stack: RunningStack) -> list[str]:
    span = stack.ask("/spans/query", {"windowing": {"limit": 1}})["spans"][0]
    stack.ask("/tracing/spans/ingest", {"spans": [_talk()]})
    stack.ask_until(f"/spans/{TALK}/{TALK[:16]}", None, lambda answer: answer["count"] == 1)
    talk = f"traces/{TALK}?span={TALK[:16]}"
    spans = [f"traces/{span['trace_id']}?span={span['span_id']}", talk, f"{talk}&tab=scores"]
    return [*VIEWS, *spans, f"traces/{AUTOGEN_TRACE}?fold=1"]


@pytest.mark.parametrize("scheme", ["light", "dark"])
async def test_axe_finds_nothing_serious(
    scheme: str, browser: Browser, large_stack: RunningStack, application_views: list[str]
):
    found = []
    async with open_page(browser, large_stack.api, color_scheme=scheme) as opened:
        for view in [*await _views(large_stack), *application_views]:
            await opened.page.goto(f"{large_stack.api}/ui/{view}")
            await opened.page.wait_for_load_state("networkidle")
            result = await Axe().run(opened.page)
            found += [
                f"{view}: {problem['id']}: {node['html'][:200]}"
                for problem in result.response["violations"]
                if problem["impact"] in SERIOUS
                for node in problem["nodes"][:3]
            ]
    assert found == []


PHONE_WIDTH = 390
ENLARGED_WIDTH = 640
"""The width of a small window of 1,280 pixels that is enlarged to 200 %."""

SHIFTS_MAX = 0.1
"""How much of the window may move while a view loads, as the sum of Chromium's scores."""

NOTE_SHIFTS = """window.shifts = 0;
new PerformanceObserver((list) => {
  for (const entry of list.getEntries()) if (!entry.hadRecentInput) window.shifts += entry.value;
}).observe({ type: 'layout-shift', buffered: true });"""

MARK_CONTROLS = """() => {
  const isShown = (element) => element.checkVisibility({ visibilityProperty: true, opacityProperty: true });
  const controls = [...document.querySelectorAll('a[href], button, input, select, textarea, summary')]
    .filter((element) => isShown(element) && !element.disabled && !element.closest('.rows, .table-foot, [role=grid], [role=tree]'));
  for (const element of controls) element.dataset.unreached = element.outerHTML.slice(0, 120);
  return controls.length;
}"""
"""Marks what can be operated, but in rows, which have keys of their own and load more at their end; returns how many there
are."""

MARK_REACHED = "() => { delete document.activeElement.dataset.unreached; }"
UNREACHED = "() => [...document.querySelectorAll('[data-unreached]')].map((element) => element.dataset.unreached)"
"""What is still marked. Of radio buttons of one name the arrow keys reach the others."""


@pytest.mark.parametrize("width", [PHONE_WIDTH, ENLARGED_WIDTH])
async def test_views_fit_a_narrow_window(
    width: int, browser: Browser, large_stack: RunningStack, application_views: list[str]
):
    wide = []
    async with open_page(browser, large_stack.api) as opened:
        await opened.page.set_viewport_size({"width": width, "height": 800})
        for view in [*await _views(large_stack), *application_views]:
            await opened.page.goto(f"{large_stack.api}/ui/{view}")
            await opened.page.wait_for_load_state("networkidle")
            needed = await opened.page.evaluate(
                "Math.max(document.documentElement.scrollWidth, document.querySelector('main').scrollWidth)"
            )
            if needed > width:
                wide.append(f"{view}: {needed}")
            wide += [f"{view}: {text} is cut off" for text in await opened.page.evaluate(CUT_OFF)]
            if view in {"traces", "spans"}:
                await expect(opened.page.locator(".rows .row time").first).to_be_visible()
    assert wide == []


@pytest.mark.parametrize("width", [PHONE_WIDTH, 1_280])
async def test_nothing_moves_while_a_view_loads(
    width: int, browser: Browser, large_stack: RunningStack, application_views: list[str]
):
    moved = []
    async with open_page(browser, large_stack.api) as opened:
        await opened.page.add_init_script(NOTE_SHIFTS)
        await opened.page.set_viewport_size({"width": width, "height": 800})
        for view in [*await _views(large_stack), *application_views]:
            await opened.page.goto(f"{large_stack.api}/ui/{view}")
            await opened.page.wait_for_load_state("networkidle")
            shifts = await opened.page.evaluate("window.shifts")
            if shifts > SHIFTS_MAX:
                moved.append(f"{view}: {shifts:.3f}")
    assert moved == []


async def test_keyboard_reaches_everything(browser: Browser, large_stack: RunningStack, application_views: list[str]):
    unreached = []
    async with open_page(browser, large_stack.api) as opened:
        for view in [*await _views(large_stack), *application_views]:
            await opened.page.goto(f"{large_stack.api}/ui/{view}")
            await opened.page.wait_for_load_state("networkidle")
            count = await opened.page.evaluate(MARK_CONTROLS)
            rows = await opened.page.locator(".rows a[href], .rows button").count()
            for _ in range(count + rows + 10):
                await opened.page.keyboard.press("Tab")
                await opened.page.evaluate(MARK_REACHED)
                if not await opened.page.evaluate(UNREACHED):
                    break
            unreached += [f"{view}: {element}" for element in await opened.page.evaluate(UNREACHED)]
    assert unreached == []
