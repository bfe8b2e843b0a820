"""The requests in ``docs/running-spans.md``, sent one after the other, get the responses on the page."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

from common.settings import ClickHouseSettings
from tests.support.http_pages import PageReader, api_with_storing, exchanges


async def test_every_response_is_as_the_page_shows(
    chdb_dir: Path, chdb_settings: Callable[[], ClickHouseSettings]
) -> None:
    async with api_with_storing(chdb_settings(), chdb_dir, partitions=1) as client:
        reader = PageReader(client)
        for request, shown in exchanges("running-spans.md"):
            await reader.check(request, shown)
