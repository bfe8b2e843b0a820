"""``docs/explain-and-freshness.md`` is true: its requests are made one after the other, and answered as it shows."""

from __future__ import annotations

import asyncio
import json
import re
from collections.abc import AsyncIterator, Callable
from contextlib import suppress
from pathlib import Path
from typing import Any, NamedTuple

import aiohttp
import pytest

from common.clickhouse.connect import open_store
from common.clickhouse.migrate import migrate
from common.clock import SystemClock
from common.settings import ClickHouseSettings, Settings
from query_api.freshness.ends import KnownEnds
from tests.fakes.kafka import MemoryBroker
from tests.support.api import context_of, serving
from tests.support.storing import StoringByHand

PAGE = Path(__file__).parents[2] / "docs/explain-and-freshness.md"
ANYTHING = "…"


class Message(NamedTuple):
    """A block of the page: a request or an answer."""

    first_line: str
    headers: dict[str, str]
    body: Any


def _messages() -> list[Message]:
    return [_message(text) for text in re.findall(r"^```http\n(.*?)^```$", PAGE.read_text(), re.DOTALL | re.MULTILINE)]


def _message(text: str) -> Message:
    head, _, body = text.partition("\n\n")
    first_line, *headers = head.strip().split("\n")
    return Message(first_line, dict(line.split(": ", 1) for line in headers), json.loads(body) if body else None)


@pytest.fixture
async def client(
    chdb_dir: Path, chdb_settings: Callable[[], ClickHouseSettings]
) -> AsyncIterator[aiohttp.ClientSession]:
    """An API whose broker is drained by and by."""
    configured = chdb_settings()
    await migrate(configured, data_dir=chdb_dir)
    store = open_store(configured, data_dir=chdb_dir)
    settings, broker, clock = Settings(auth="off"), MemoryBroker(partitions=4), SystemClock()
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
    messages = _messages()
    pairs = list(zip(messages[::2], messages[1::2], strict=True))
    assert len(pairs) >= 5
    for request, shown in pairs:
        method, path = request.first_line.split(" ")
        body = None if request.body is None else json.dumps(request.body)
        if path == "/status/freshness":
            await asyncio.sleep(1.0)  # what Kafka said of its ends may be a second old
        async with client.request(method, path, data=body, headers=request.headers) as answer:
            assert str(answer.status) == shown.first_line, await answer.text()
            _check(shown.headers, dict(answer.headers), path)
            _check(shown.body, await answer.json(), path)


def _check(shown: Any, answered: Any, path: str) -> None:
    """Everything that is shown is there; more may be."""
    if isinstance(shown, dict):
        for name, value in shown.items():
            assert name in answered, f"{path}: {name} of {answered}"
            _check(value, answered[name], f"{path}.{name}")
    elif isinstance(shown, list):
        assert len(shown) == len(answered), f"{path}: {answered}"
        for index, (one, other) in enumerate(zip(shown, answered, strict=True)):
            _check(one, other, f"{path}[{index}]")
    elif shown != ANYTHING:
        assert shown == answered, path
