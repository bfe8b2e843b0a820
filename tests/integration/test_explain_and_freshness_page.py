"""The requests in ``docs/explain-and-freshness.md``, sent in order, get the responses on the page."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable
from pathlib import Path

import aiohttp
import pytest

from common.settings import ClickHouseSettings
from tests.support.http_pages import PageReader, api_with_storing, exchanges


@pytest.fixture
async def client(
    chdb_dir: Path, chdb_settings: Callable[[], ClickHouseSettings]
) -> AsyncIterator[aiohttp.ClientSession]:
    """An API whose broker is drained in the background."""
    async with api_with_storing(chdb_settings(), chdb_dir, partitions=4) as client:
        yield client


async def test_every_response_is_as_the_page_shows(client: aiohttp.ClientSession) -> None:
    pairs = exchanges("explain-and-freshness.md")
    assert len(pairs) >= 5
    reader = PageReader(client)
    for request, shown in pairs:
        if request.first_line.endswith(" /status/freshness"):
            await asyncio.sleep(1.0)  # end offsets may be a second old
        await reader.check(request, shown)
