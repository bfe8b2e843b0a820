"""The explorer in a browser: opening its views, and what they must not do."""

from __future__ import annotations

import json
import time
import urllib.request
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from itertools import chain
from typing import Any, Final
from urllib.parse import urlencode, urlsplit

from playwright.async_api import Browser, ConsoleMessage, Page, Request, expect

from bench.varied import instrumentation_records, llm_records
from tests.support.sample_records import NAMES, SAMPLES
from tests.support.stack import RunningStack

SPANS_COUNT = 848
"""Of all samples."""

MANY = 100_000
"""How many spans ``send_many`` sends."""

AUTOGEN_TRACE = "9e73da07cfd712fc76b228aebb3e788d"
"""Of a sample: a trace with message spans, so its page has a switch that folds them."""

MCP_TRACE = "c6c192c8725c8e3b969506c1293142f1"
"""Of a sample: one call over MCP, with the spans of the client, its SDK and the server."""

ARGUMENTS: Final = [
    "--no-sandbox", "--disable-gpu", "--disable-background-networking", "--disable-component-update",
    "--disable-sync", "--no-first-run",
]  # fmt: skip
PATIENCE_MS = 60_000
"""How long a page may take to show something: a limit for defects, not a measurement."""

BEING_STORED: Final = "Being stored…"
"""What the page says of feedback that is not yet found."""

_EXPECTED = "Failed to load resource"
"""What Chromium logs for a response such as 400, which a view shows in words."""


@dataclass(frozen=True, slots=True)
class OpenedPage:
    page: Page
    problems: list[str] = field(default_factory=list)


@dataclass(frozen=True, slots=True)
class Explorer:
    """A page of the explorer over a running stack."""

    page: Page
    stack: RunningStack
    problems: list[str]
    """Errors in the console, and requests to other hosts."""

    async def open(self, view: str, **parameters: Any) -> None:
        """Open a view by its address; a list over all time unless the parameters say otherwise."""
        if view in {"traces", "spans"} and not {"oldest", "newest"} & parameters.keys():
            parameters["oldest"] = "all"
        texts = {name: value if isinstance(value, str) else json.dumps(value) for name, value in parameters.items()}
        await self.page.goto(f"{self.stack.api}/ui/{view}" + (f"?{urlencode(texts)}" if texts else ""))

    async def text(self, selector: str) -> str:
        """The text of the first element."""
        return (await self.page.locator(selector).first.inner_text()).strip()

    async def texts(self, selector: str) -> list[str]:
        """The texts of all elements, once there is one. It may be empty, as the number of errors where there are none."""
        await self.page.locator(selector).first.wait_for(state="attached")
        return [text.strip() for text in await self.page.locator(selector).all_inner_texts()]

    async def survives(self, shown: Callable[[], Awaitable[Any]], *, other: str = "status") -> None:
        """The view shows the same after a reload, and after leaving it and going back."""
        before = await shown()
        await self.page.reload()
        await self._until(shown, before)
        await self.page.goto(f"{self.stack.api}/ui/{other}")
        await self.page.go_back()
        await self._until(shown, before)
        await self.page.go_forward()
        await self.page.wait_for_url(f"**/ui/{other}")

    async def _until(self, shown: Callable[[], Awaitable[Any]], expected: Any) -> None:
        """Wait until the view shows what is expected: it may show a part first."""
        deadline_s = time.monotonic() + PATIENCE_MS / 1_000
        while (found := await shown()) != expected:
            assert time.monotonic() < deadline_s, f"{found} instead of {expected}"


@asynccontextmanager
async def open_page(browser: Browser, address: str, **options: Any) -> AsyncIterator[OpenedPage]:
    """A page in a browser session of its own."""
    context = await browser.new_context(**{"viewport": {"width": 1280, "height": 800}, **options})
    context.set_default_timeout(PATIENCE_MS)
    opened = OpenedPage(await context.new_page())

    def on_console(message: ConsoleMessage) -> None:
        if message.type in {"error", "warning"} and _EXPECTED not in message.text:
            opened.problems.append(f"console: {message.text}")

    def on_request(request: Request) -> None:
        if not request.url.startswith((address, "data:", "blob:")):
            opened.problems.append(f"asked {urlsplit(request.url).netloc}")

    opened.page.on("console", on_console)
    opened.page.on("pageerror", lambda error: opened.problems.append(f"error: {error}"))
    opened.page.on("request", on_request)
    try:
        yield opened
    finally:
        await context.close()


async def give_score(page: Page, name: str, kind: str, value: str) -> None:
    """Give a score with a new name to the span whose feedback is shown, and wait until it is stored."""
    await page.get_by_role("button", name="Give feedback").click()
    await fill_score(page, name, kind, value)


async def fill_score(page: Page, name: str, kind: str, value: str) -> None:
    """Fill in and send the form for a score with a new name, and wait until it is stored."""
    await page.get_by_label("Name", exact=True).fill(name)
    await page.get_by_label(kind, exact=True).check()
    await page.get_by_label(name).fill(value)
    await page.get_by_role("button", name="Save").click()
    await expect(page.locator(".score").filter(has_text=name)).to_contain_text(f"{name} {value}")
    await expect(page.get_by_text(BEING_STORED)).to_have_count(0)


def send_samples(stack: RunningStack) -> None:
    """Send every sample over OTLP, and wait until all spans can be queried."""
    for name in NAMES:
        _send(stack, (SAMPLES / f"{name}.otlp_proto.bin").read_bytes())
    stack.ask_until(
        "/spans/query", {"windowing": {"limit": SPANS_COUNT}}, lambda answer: answer["count"] >= SPANS_COUNT
    )


def send_many(stack: RunningStack) -> None:
    """Send ``MANY`` spans, half as the samples of today, half as model calls of yesterday; wait until they are stored."""
    now_ns, half = time.time_ns(), MANY // 2
    yesterday_ns = now_ns - 24 * 3_600 * 1_000_000_000
    for record in chain(instrumentation_records(half, end_ns=now_ns), llm_records(half, end_ns=yesterday_ns)):
        _send(stack, record)
    stack.wait_until_stored(MANY, within_s=600)


def _send(stack: RunningStack, record: bytes) -> None:
    headers = {"content-type": "application/x-protobuf"}
    urllib.request.urlopen(urllib.request.Request(f"{stack.api}/v1/traces", record, headers), timeout=120).close()
