"""axe-core finds nothing serious in any view, in light and dark, and at the width of a phone nothing is cut off."""

from __future__ import annotations

import pytest
from axe_playwright_python.async_playwright import Axe
from playwright.async_api import Browser, expect

from tests.support.explorer import AUTOGEN_TRACE, open_page
from tests.support.stack import RunningStack

pytestmark = [pytest.mark.long, pytest.mark.asyncio(loop_scope="module")]
VIEWS = ("", "users", "traces", "spans", "sessions", "applications", "queries", "dead-letters", "status")
CUT_OFF = """() => [...document.querySelectorAll('.c-time, .c-cost, .c-duration, .wf-label')].filter((element) => {
  const [inner, outer] = [element, element.closest('.wf-track, .row')].map((each) => each.getBoundingClientRect());
  const isOutside = inner.left < outer.left - 1 || inner.right > outer.right + 1;
  return element.offsetParent && (isOutside || element.scrollWidth > element.clientWidth + 1);
}).map((element) => element.innerText)"""
"""Texts that must be whole and are not."""

SERIOUS = {"serious", "critical"}


async def _views(stack: RunningStack) -> list[str]:
    span = stack.ask("/spans/query", {"windowing": {"limit": 1}})["spans"][0]
    return [*VIEWS, f"traces/{span['trace_id']}?span={span['span_id']}", f"traces/{AUTOGEN_TRACE}?fold=1"]


@pytest.mark.parametrize("scheme", ["light", "dark"])
async def test_axe_finds_nothing_serious(scheme: str, browser: Browser, explored_stack: RunningStack):
    found = []
    async with open_page(browser, explored_stack.api, color_scheme=scheme) as opened:
        for view in await _views(explored_stack):
            await opened.page.goto(f"{explored_stack.api}/ui/{view}")
            await opened.page.wait_for_load_state("networkidle")
            result = await Axe().run(opened.page)
            found += [
                f"{view}: {problem['id']}: {node['html'][:200]}"
                for problem in result.response["violations"]
                if problem["impact"] in SERIOUS
                for node in problem["nodes"][:3]
            ]
    assert found == []


async def test_views_fit_the_width_of_a_phone(browser: Browser, explored_stack: RunningStack):
    wide = []
    async with open_page(browser, explored_stack.api) as opened:
        await opened.page.set_viewport_size({"width": 390, "height": 800})
        for view in await _views(explored_stack):
            await opened.page.goto(f"{explored_stack.api}/ui/{view}")
            await opened.page.wait_for_load_state("networkidle")
            width = await opened.page.evaluate(
                "Math.max(document.documentElement.scrollWidth, document.querySelector('main').scrollWidth)"
            )
            if width > 390:
                wide.append(f"{view}: {width}")
            wide += [f"{view}: {text} is cut off" for text in await opened.page.evaluate(CUT_OFF)]
            if view in {"traces", "spans"}:
                await expect(opened.page.locator(".rows .row time").first).to_be_visible()
    assert wide == []
