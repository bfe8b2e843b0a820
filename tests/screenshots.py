"""Write a picture of every view of the explorer to ``docs/images``, in light and dark: ``make screenshots``.

A stack of its own holds the samples of ``tests/data/samples``, an application with two revisions, and a saved query.
"""

from __future__ import annotations

import asyncio
import shutil
import sys
import tempfile
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from playwright.async_api import Browser, async_playwright

from tests.fixtures_browser import ARGUMENTS
from tests.support.explorer import open_page, send_samples
from tests.support.stack import ROOT, RunningStack, running_stack

IMAGES = ROOT / "docs/images"
VIEWPORT = {"width": 1280, "height": 760}
SETTLED_MS = 700
AGENT = {
    "conditions": [
        {"field": "span_type", "value": "chat"},
        {"field": "resource", "key": "service.name", "value": "library-desk"},
    ]
}


def main() -> None:
    """Write all pictures."""
    IMAGES.mkdir(exist_ok=True)
    with tempfile.TemporaryDirectory() as folder, running_stack(Path(folder) / "data") as stack:
        send_samples(stack)
        views = _views(stack)
        asyncio.run(_write_all(stack, views))


def _views(stack: RunningStack) -> Mapping[str, str]:
    """The address of each view, by the name of its picture."""
    revisions = _commit_two_revisions(stack)
    data = {
        "filtering": {"conditions": [{"field": "status_code", "value": "STATUS_CODE_ERROR"}]},
        "formatting": {"focus": "span"},
    }
    stack.ask("/simple/queries/", {"query": {"slug": "failed-calls", "name": "Failed calls", "data": data}})
    call = stack.ask("/spans/query", {"filtering": AGENT, "windowing": {"limit": 1}})["spans"][0]
    session = stack.ask("/spans/sessions/query", {})["session_ids"][0]
    stack.ask_until("/spans/query", {"windowing": {"limit": 1}}, lambda answer: answer["count"] == 1)
    return {
        "traces": "traces",
        "spans": "spans?sort=cost",
        "trace": f"traces/{call['trace_id']}?span={call['span_id']}",
        "sessions": "sessions",
        "session": f"sessions/{session}",
        "applications": "applications",
        "compare": "applications/faq-bot/compare?from={}&to={}".format(*revisions),
        "queries": "queries",
        "dead-letters": "dead-letters",
        "status": "status",
    }


def _commit_two_revisions(stack: RunningStack) -> tuple[str, str]:
    first = {"parameters": {"prompt": "Be kind.\nAnswer in one sentence.", "model": "gpt-4o", "temperature": 0.7}}
    body = {"application": {"slug": "faq-bot", "name": "FAQ bot", "data": first}}
    created: dict[str, Any] = stack.ask("/simple/applications/", body)["application"]
    second = {"parameters": {"prompt": "Be kind and brief.\nAnswer in one sentence.", "model": "gpt-4o-mini"}}
    revision = {"application_variant_id": created["variant_id"], "message": "tighter tone", "data": second}
    committed = stack.ask("/applications/revisions/commit", {"application_revision": revision})["application_revision"]
    deployed = {"application_ref": {"slug": "faq-bot"}, "environment_ref": {"slug": "production"}, "message": "go live"}
    stack.ask("/applications/revisions/deploy", deployed)
    return created["revision_id"], committed["id"]


async def _write_all(stack: RunningStack, views: Mapping[str, str]) -> None:
    executable = shutil.which("chromium") or sys.exit("Chromium is missing (Debian's package `chromium`).")
    async with async_playwright() as playwright:
        browser = await playwright.chromium.launch(executable_path=executable, args=ARGUMENTS)
        for scheme in ("light", "dark"):
            await _write(browser, stack, views, scheme)
        await browser.close()


async def _write(browser: Browser, stack: RunningStack, views: Mapping[str, str], scheme: str) -> None:
    async with open_page(browser, stack.api, color_scheme=scheme, viewport=VIEWPORT) as opened:
        for name, address in views.items():
            await opened.page.goto(f"{stack.api}/ui/{address}")
            await opened.page.wait_for_load_state("networkidle")
            await opened.page.wait_for_timeout(SETTLED_MS)
            await opened.page.screenshot(path=IMAGES / f"{name}-{scheme}.png")
            sys.stdout.write(f"docs/images/{name}-{scheme}.png\n")


if __name__ == "__main__":
    main()
