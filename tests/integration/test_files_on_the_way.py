"""How many files a query enters at run time, from the HTTP handler to the bytes of the response."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable
from pathlib import Path
from typing import Any, Final

import aiohttp
import pytest

from common.clickhouse.migrate import migrate
from common.settings import ClickHouseSettings
from common.span import Span
from common.times import SystemClock
from query_api.http.dispatch import Dispatcher
from tests.support.api import context_of, serving
from tests.support.span_corpus import store_record
from tests.support.steps import files_entered
from tests.support.stores import opened_store

FILTERING: Final = {"conditions": [{"field": "attributes", "key": "user.id", "value": "user-7"}]}
FILES_MAX: Final = {"/spans/query": 25, "/traces/query": 35}


@pytest.fixture
async def client(
    chdb_dir: Path, chdb_settings: Callable[[], ClickHouseSettings]
) -> AsyncIterator[aiohttp.ClientSession]:
    configured = chdb_settings()
    await migrate(configured, data_dir=chdb_dir)
    async with opened_store(configured, data_dir=chdb_dir) as store:
        await store_record(store, [_span(number) for number in range(1, 5)])
        async with serving(context_of(store=store, clock=SystemClock())) as client:
            yield client


def _span(number: int) -> Span:
    return Span(
        trace_id=number.to_bytes(16, "big"),
        span_id=number.to_bytes(16, "big"),
        parent_id=None,
        start_ns=1_700_000_000_000_000_000 + number,
        end_ns=1_700_000_000_000_001_000 + number,
        name=f"span {number}",
        kind=1,
        status_code=0,
        status_message=None,
        attributes={"user.id": "user-7"},
    )


@pytest.mark.parametrize("path", FILES_MAX)
async def test_a_query_enters_few_files(client: aiohttp.ClientSession, path: str) -> None:
    body = {"filtering": FILTERING, "windowing": {"limit": 2}}
    await _post(client, path, body)
    with files_entered(Dispatcher.dispatch.__code__) as entered:  # after the HTTP server
        await _post(client, path, body)

    entered.discard("common/http/server.py")  # it sends the bytes
    assert 10 < len(entered) <= FILES_MAX[path], "\n".join(sorted(entered))


async def _post(client: aiohttp.ClientSession, path: str, body: dict[str, Any]) -> None:
    async with client.post(path, json=body) as response:
        assert (await response.json())["count"] == 2
