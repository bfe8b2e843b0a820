"""``docs/analytics.md`` is true: its requests are made one after the other, and answered as it shows."""

from __future__ import annotations

import asyncio
import json
import re
from collections.abc import AsyncIterator, Callable
from contextlib import suppress
from pathlib import Path

import aiohttp
import pytest

from common.clickhouse.connect import open_store
from common.clickhouse.migrate import migrate
from common.clock import SystemClock
from common.settings import ClickHouseSettings, Settings
from query_api.analytics.handlers import BINS_IN_ALL_MAX
from query_api.analytics.metrics import FREQUENCIES_MAX
from query_api.analytics.models import SPECS_MAX
from query_api.analytics.specs import BINS_MAX, MetricType
from query_api.analytics.summaries import MIDDLES
from query_api.freshness.ends import KnownEnds
from tests.fakes.kafka import MemoryBroker
from tests.support.api import context_of, serving
from tests.support.http_pages import DOCS, check_shown, exchanges
from tests.support.storing import StoringByHand

PAGE = "analytics.md"


@pytest.fixture
async def client(
    chdb_dir: Path, chdb_settings: Callable[[], ClickHouseSettings]
) -> AsyncIterator[aiohttp.ClientSession]:
    """An API whose broker is drained by and by."""
    configured = chdb_settings()
    await migrate(configured, data_dir=chdb_dir)
    store = open_store(configured, data_dir=chdb_dir)
    settings, broker, clock = Settings(auth="off"), MemoryBroker(partitions=1), SystemClock()
    ends = KnownEnds(broker.ends(*settings.kafka.topics), clock)
    context = context_of(broker=broker, settings=settings, clock=clock, store=store, ends=ends)
    storing = asyncio.create_task(_store_by_and_by(StoringByHand(context, broker)))
    async with serving(context) as client:
        yield client
    storing.cancel()
    with suppress(asyncio.CancelledError):
        await storing
    await store.close()


async def _store_by_and_by(storing: StoringByHand) -> None:
    while True:
        await asyncio.sleep(0.1)
        await storing.store_all()


async def test_every_request_is_answered_as_the_page_shows(client: aiohttp.ClientSession) -> None:
    for request, shown in exchanges(PAGE):
        method, path = request.first_line.split(" ")
        body = None if request.body is None else json.dumps(request.body)
        async with client.request(method, path, data=body, headers=request.headers) as answer:
            assert str(answer.status) == shown.first_line, await answer.text()
            check_shown(shown.headers, dict(answer.headers), path)
            check_shown(shown.body, await answer.json(), path)


def test_the_page_has_an_example_of_each_route() -> None:
    asked = {request.first_line.partition("?")[0] for request, _ in exchanges(PAGE)}

    assert asked >= {
        "POST /spans/analytics/query",
        "POST /tracing/analytics/query",
        "POST /tracing/spans/analytics",
        "GET /tracing/spans/analytics",
        "POST /spans/sessions/query",
        "POST /spans/users/query",
    }


def test_the_page_names_every_kind_spread_and_limit() -> None:
    page = (DOCS / PAGE).read_text()

    for name in [*MetricType, *(f"iqr{share}" for share in MIDDLES)]:
        assert f"`{name}`" in page
    for limit in (SPECS_MAX, BINS_MAX, BINS_IN_ALL_MAX, FREQUENCIES_MAX):
        assert re.search(rf"(?<![\d,]){limit:,}(?![\d,]\d)", page), limit
