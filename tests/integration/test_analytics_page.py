"""The requests in ``docs/analytics.md``, sent one after the other, get the responses on the page."""

from __future__ import annotations

import re
from collections.abc import AsyncIterator, Callable
from pathlib import Path

import aiohttp
import pytest

from common.settings import ClickHouseSettings
from query_api.analytics.group_statement import CELLS_MAX
from query_api.analytics.groups import BUCKETS_MAX
from query_api.analytics.groups_models import LIMIT_MAX, Aggregate, Interval
from query_api.analytics.handlers import BINS_MAX_TOTAL
from query_api.analytics.models import BINS_MAX, SPECS_MAX, MetricType
from query_api.analytics.statements import FREQUENCIES_MAX
from query_api.analytics.statistics import MIDDLES
from tests.support.http_pages import DOCS, PageReader, api_with_storing, exchanges

PAGE = "analytics.md"


@pytest.fixture
async def client(
    chdb_dir: Path, chdb_settings: Callable[[], ClickHouseSettings]
) -> AsyncIterator[aiohttp.ClientSession]:
    """An API whose broker is drained in the background."""
    async with api_with_storing(chdb_settings(), chdb_dir, partitions=1) as client:
        yield client


async def test_every_response_is_as_the_page_shows(client: aiohttp.ClientSession) -> None:
    reader = PageReader(client)
    for request, shown in exchanges(PAGE):
        await reader.check(request, shown)


def test_page_has_an_example_of_each_route() -> None:
    routes = {request.first_line.partition("?")[0] for request, _ in exchanges(PAGE)}

    assert routes >= {
        "POST /spans/groups/query",
        "POST /spans/analytics/query",
        "POST /tracing/analytics/query",
        "POST /tracing/spans/analytics",
        "GET /tracing/spans/analytics",
        "POST /spans/sessions/query",
        "POST /spans/users/query",
    }


def test_page_names_every_type_spread_and_limit() -> None:
    page = (DOCS / PAGE).read_text()

    for name in [*MetricType, *(f"iqr{share}" for share in MIDDLES)]:
        assert f"`{name}`" in page
    for limit in (SPECS_MAX, BINS_MAX, BINS_MAX_TOTAL, FREQUENCIES_MAX, BUCKETS_MAX, CELLS_MAX, LIMIT_MAX):
        assert re.search(rf"(?<![\d,]){limit:,}(?![\d,]\d)", page), limit


def test_page_names_every_interval_and_statistic_of_groups() -> None:
    page = (DOCS / PAGE).read_text()

    assert f"`{' '.join(Interval)}`" in page
    assert f"`{' '.join(Aggregate)}`" in page
