"""``docs/explain-and-freshness.md`` is true: its requests are made one after the other, and answered as it shows."""

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
    """An API whose broker is drained by and by."""
    async with api_with_storing(chdb_settings(), chdb_dir, partitions=4) as client:
        yield client


async def test_every_request_is_answered_as_the_page_shows(client: aiohttp.ClientSession) -> None:
    pairs = exchanges("explain-and-freshness.md")
    assert len(pairs) >= 5
    reader = PageReader(client)
    for request, shown in pairs:
        if request.first_line.endswith(" /status/freshness"):
            await asyncio.sleep(1.0)  # end offsets may be a second old
        await reader.check(request, shown)
