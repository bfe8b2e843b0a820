"""Pages of the docs with requests and responses: send each request to an API and compare its response."""

from __future__ import annotations

import json
import re
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any, NamedTuple

import aiohttp

from common.settings import ClickHouseSettings, QuerySettings, Settings
from common.times import SystemClock
from query_api.freshness.headers import COORDINATES_HEADER
from query_api.request.progress import KnownEndOffsets
from tests.fakes.kafka import MemoryBroker
from tests.support.api import context_of, serving
from tests.support.stores import opened_store
from tests.support.storing import stored_soon

ANYTHING = "…"
DOCS = Path(__file__).parents[2] / "docs"


class Message(NamedTuple):
    """A block of a page: a request or a response."""

    first_line: str
    headers: dict[str, str]
    body: Any


def exchanges(page: str) -> list[tuple[Message, Message]]:
    """Return the requests of a page of ``docs``, each with the response that the page shows after it."""
    text = (DOCS / page).read_text()
    messages = [_message(block) for block in re.findall(r"^```http\n(.*?)^```$", text, re.DOTALL | re.MULTILINE)]
    return list(zip(messages[::2], messages[1::2], strict=True))


@asynccontextmanager
async def api_with_storing(
    clickhouse: ClickHouseSettings, data_dir: Path, *, partitions: int
) -> AsyncIterator[aiohttp.ClientSession]:
    """A client of an API over migrated tables; what it publishes is stored ten times a second."""
    settings = Settings(auth="off", query=QuerySettings(wait_for_max_s=60))
    broker, clock = MemoryBroker(partitions=partitions), SystemClock()
    ends = KnownEndOffsets(broker.ends(*settings.kafka.topics), clock)
    async with opened_store(clickhouse, data_dir=data_dir) as store:
        context = context_of(broker=broker, settings=settings, clock=clock, store=store, ends=ends)
        async with stored_soon(context, broker), serving(context) as client:
            yield client


class PageReader:
    """Sends the requests of a page, one after the other."""

    def __init__(self, client: aiohttp.ClientSession) -> None:
        self._client = client
        self._coordinates = ""

    async def check(self, request: Message, shown: Message) -> None:
        """Send a request and compare the response. ``…`` in a header stands for the coordinates of the last response."""
        method, path = request.first_line.split(" ")
        body = None if request.body is None else json.dumps(request.body)
        headers = {name: self._coordinates if value == ANYTHING else value for name, value in request.headers.items()}
        async with self._client.request(method, path, data=body, headers=headers) as answer:
            assert str(answer.status) == shown.first_line, await answer.text()
            check_shown(shown.headers, dict(answer.headers), path)
            check_shown(shown.body, await answer.json(), path)
            self._coordinates = answer.headers.get(COORDINATES_HEADER, self._coordinates)


def check_shown(shown: Any, answered: Any, path: str) -> None:
    """Check that the response has everything that the page shows; it may have more."""
    if isinstance(shown, dict):
        for name, value in shown.items():
            assert name in answered, f"{path}: {name} of {answered}"
            check_shown(value, answered[name], f"{path}.{name}")
    elif isinstance(shown, list):
        assert len(shown) == len(answered), f"{path}: {answered}"
        for index, (one, other) in enumerate(zip(shown, answered, strict=True)):
            check_shown(one, other, f"{path}[{index}]")
    elif shown != ANYTHING:
        assert shown == answered, path


def _message(block: str) -> Message:
    head, _, body = block.partition("\n\n")
    first_line, *headers = head.strip().split("\n")
    return Message(first_line, dict(line.split(": ", 1) for line in headers), json.loads(body) if body else None)
