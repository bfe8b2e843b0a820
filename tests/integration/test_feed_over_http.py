"""The feed over HTTP: the program of the docs, a client that disconnects while it waits, and an API that stops while
requests wait.
"""

from __future__ import annotations

import asyncio
import os
import re
import sys
import time
from collections.abc import AsyncIterator, Callable
from contextlib import suppress
from pathlib import Path

import aiohttp
import pytest
from aiohttp import web

from common.clickhouse.connect import open_store
from common.clickhouse.migrate import migrate
from common.settings import ClickHouseSettings
from common.span import Span
from common.times import SystemClock
from query_api.http.app import make_runner
from query_api.http.dispatch import StartupState
from query_api.request.context import ApiContext
from tests.support.api import context_of, serving
from tests.support.feed import settle
from tests.support.span_corpus import START_NS, store_record

PAGE = Path(__file__).parents[2] / "docs" / "paging-and-feed.md"
FEED = {"windowing": {"by": "created_at", "wait_s": 30}}


@pytest.fixture
async def api(chdb_dir: Path, chdb_settings: Callable[[], ClickHouseSettings]) -> AsyncIterator[ApiContext]:
    configured = chdb_settings()
    await migrate(configured, data_dir=chdb_dir)
    store = open_store(configured, data_dir=chdb_dir)
    yield context_of(store=store, clock=SystemClock())
    await store.close()


async def put(api: ApiContext, number: int) -> None:
    """Store one span and announce it."""
    ids = number.to_bytes(16, "big"), number.to_bytes(8, "big") * 2
    span = Span(*ids, None, f"s{number}", 1, START_NS, START_NS + 1, 0, None, {})
    await store_record(api.store, [span], offset=number)
    api.stored.learn([await settle(api.store, offset=number)])


async def waiting(api: ApiContext, count: int) -> None:
    async with asyncio.timeout(120):
        while api.stored.waiting_count != count:  # noqa: ASYNC110 - what is waited for is the effect of another call
            await asyncio.sleep(0.005)


async def test_documented_program_streams_and_resumes(api: ApiContext, tmp_path: Path) -> None:
    [program] = re.findall(r"```python\n(.*?)```", PAGE.read_text(), re.DOTALL)
    async with serving(api) as client:
        environment = {**os.environ, "CLEARSPAN_URL": str(client._base_url).rstrip("/")}
        names: list[str] = []
        for numbers in ((1, 2), (3,)):
            running = await asyncio.create_subprocess_exec(
                sys.executable, "-c", program, cwd=tmp_path, env=environment, stdout=asyncio.subprocess.PIPE
            )
            assert running.stdout is not None
            for number in numbers:
                await waiting(api, 1)
                await put(api, number)
                async with asyncio.timeout(120):
                    names.append((await running.stdout.readline()).decode().split()[-1])
            await waiting(api, 1)  # the cursor is written by now
            running.kill()
            await running.wait()
            await waiting(api, 0)

    assert names == ["s1", "s2", "s3"]


async def test_disconnected_client_stops_waiting(api: ApiContext) -> None:
    async with serving(api) as client:
        asking = asyncio.create_task(client.post("/spans/query", json=FEED))
        await waiting(api, 1)

        asking.cancel()
        with suppress(asyncio.CancelledError):
            await asking

        await waiting(api, 0)


async def test_shutdown_answers_waiting_requests_at_once(api: ApiContext) -> None:
    runner = make_runner(StartupState(api))
    await runner.setup()
    await web.TCPSite(runner, "127.0.0.1", 0).start()
    async with aiohttp.ClientSession(f"http://127.0.0.1:{runner.addresses[0][1]}") as client:
        asking = asyncio.create_task(client.post("/spans/query", json=FEED))
        await waiting(api, 1)
        began_s = time.monotonic()

        await runner.cleanup()

        answer = await asking
        assert (answer.status, (await answer.json())["count"]) == (200, 0)
        assert time.monotonic() - began_s < 25  # of the thirty seconds that it requested


async def test_waiting_needs_the_feed_and_at_most_30_seconds(api: ApiContext) -> None:
    async with serving(api) as client:
        along_start = await client.post("/spans/query", json={"windowing": {"wait_s": 1}})
        too_long = await client.post("/spans/query", json={"windowing": {"by": "created_at", "wait_s": 30.1}})
        at_most = await client.post("/spans/query", json={"windowing": {"by": "created_at", "wait_s": 0}})
        descending = await client.post("/spans/query", json={"windowing": {"by": "created_at", "order": "descending"}})

    assert [response.status for response in (along_start, too_long, at_most, descending)] == [400, 422, 200, 400]
