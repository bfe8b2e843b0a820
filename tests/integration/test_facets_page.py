"""The requests in ``docs/facets.md``, sent one after the other, get the responses on the page."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

from common.limits import MIB
from common.settings import ClickHouseSettings
from query_api.analytics.facets import ARRAYS_MAX, VALUE_BYTES_MAX
from query_api.analytics.facets_models import KEYS_MAX, LIMIT_DEFAULT, LIMIT_MAX
from query_api.request.limits import Limits
from tests.support.http_pages import DOCS, PageReader, api_with_storing, exchanges

PAGE = "facets.md"


async def test_every_response_is_as_the_page_shows(
    chdb_dir: Path, chdb_settings: Callable[[], ClickHouseSettings]
) -> None:
    async with api_with_storing(chdb_settings(), chdb_dir, partitions=1) as client:
        reader = PageReader(client)
        for request, shown in exchanges(PAGE):
            await reader.check(request, shown)


def test_page_names_the_limits() -> None:
    page = " ".join((DOCS / PAGE).read_text().split())

    assert f"At most {KEYS_MAX} keys" in page
    assert f"Past the {ARRAYS_MAX}nd array" in page
    assert f"more than {VALUE_BYTES_MAX:,} bytes" in page
    assert f"{LIMIT_DEFAULT} by default, at most {LIMIT_MAX:,}" in page
    assert f"at most {Limits().sample_spans:,}, and no more after {Limits().sample_bytes // MIB} MiB" in page
