"""Debian's Chromium, driven by Playwright. A page fails its test if it logs an error or asks another host."""

from __future__ import annotations

import shutil
from collections.abc import AsyncIterator, Iterator

import pytest
import pytest_asyncio
from playwright.async_api import Browser, async_playwright, expect

from tests.support.explorer import ARGUMENTS, PATIENCE_MS, Explorer, open_page, send_many, send_samples
from tests.support.missing import missing
from tests.support.stack import RunningStack, running_stack


@pytest.fixture(scope="session")
def explored_stack(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RunningStack]:
    """A stack that holds all samples, applications and a saved query."""
    with running_stack(tmp_path_factory.mktemp("explored") / "data") as running:
        send_samples(running)
        yield running


@pytest.fixture(scope="session")
def large_stack(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RunningStack]:
    """A stack that holds all samples and 100,000 spans more, half of today and half of yesterday."""
    with running_stack(tmp_path_factory.mktemp("large") / "data") as running:
        send_samples(running)
        send_many(running)
        yield running


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def browser() -> AsyncIterator[Browser]:
    """Chromium without a window."""
    executable = shutil.which("chromium") or shutil.which("chromium-browser")
    if executable is None:
        missing("Chromium (Debian's package `chromium`)")
    expect.set_options(timeout=PATIENCE_MS)
    async with async_playwright() as playwright:
        launched = await playwright.chromium.launch(executable_path=executable, args=ARGUMENTS)
        yield launched
        await launched.close()


@pytest_asyncio.fixture(loop_scope="module")
async def explorer(browser: Browser, explored_stack: RunningStack) -> AsyncIterator[Explorer]:
    """A page over the samples, and what it may not do."""
    async with open_page(browser, explored_stack.api) as opened:
        yield Explorer(opened.page, explored_stack, opened.problems)
        assert opened.problems == []
