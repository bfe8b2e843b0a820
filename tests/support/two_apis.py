"""The same spans in one engine and in tables that are divided among shards, and an API over each.

The fixture ``apis`` has them, with one epoch of the sharding key and with two.
"""

from __future__ import annotations

import asyncio
import random
from collections.abc import Iterator, Sequence
from contextlib import AsyncExitStack, contextmanager
from pathlib import Path
from typing import Any, Final, NamedTuple

import aiohttp
import pytest

from common.clickhouse.migrate import migrate
from common.clickhouse.store import ColumnStore
from common.settings import ClickHouseSettings
from common.span import Span
from tests.support.api import context_of, serving
from tests.support.feed import settle
from tests.support.span_corpus import random_span, store_record
from tests.support.stores import opened_store

SPANS_COUNT: Final = 120
PARTITIONS: Final = ("cluster/spans/0", "cluster/spans/1")

Json = dict[str, Any]


class Answers(NamedTuple):
    """What both said."""

    one: Any
    divided: Any


class TwoApis:
    """Sends every record and every request to both."""

    def __init__(self, runner: asyncio.Runner, stores: Answers, clients: Answers) -> None:
        self._runner = runner
        self._stores = stores
        self._clients = clients
        self._offsets = dict.fromkeys(PARTITIONS, 0)
        self._records_count = 0

    def send(self, spans: Sequence[Span], *, partition_id: str = PARTITIONS[0]) -> None:
        """Store the next record of a partition, and say that it is stored."""
        self._offsets[partition_id] += 1
        self._records_count += 1
        offset, record_ms = self._offsets[partition_id], self._records_count

        async def store_in(store: ColumnStore) -> None:
            await store_record(
                store, spans, partition_id=partition_id, offset=offset, record_ms=record_ms, stored_us=record_ms
            )
            await settle(store, partition_id=partition_id, offset=offset)

        self._both(store_in, self._stores)

    def ask(self, method: str, path: str, body: Json | None = None) -> Answers:
        """Return the status and the response of each."""

        async def ask_client(client: aiohttp.ClientSession) -> tuple[int, Any]:
            async with client.request(method, path, json=body) as response:
                return response.status, await response.json()

        return self._both(ask_client, self._clients)

    def walks(self, path: str, body: Json, windowing: Json, *, items: str) -> Answers:
        """Return the items of all pages of each, page by page."""

        async def walk(client: aiohttp.ClientSession) -> list[Any]:
            pages: list[Any] = []
            following: Json = {}
            while True:
                asked = {**body, "windowing": {**windowing, **following}}
                async with client.post(path, json=asked) as response:
                    page = await response.json()
                    if response.status != 200:
                        return [*pages, (response.status, page)]
                pages.append(page[items])
                following = page.get("windowing", {})
                if not following or (windowing.get("by") == "created_at" and not page["count"]):
                    return pages

        return self._both(walk, self._clients)

    def _both(self, call: Any, on: Answers) -> Answers:
        async def gather() -> Answers:
            return Answers(*await asyncio.gather(call(on.one), call(on.divided)))

        return self._runner.run(gather())


def near(value: Any) -> Any:
    """The same response, with doubles that may differ in their last digits."""
    if isinstance(value, dict):
        return {name: near(member) for name, member in value.items()}
    if isinstance(value, list | tuple):
        return type(value)(map(near, value))
    return pytest.approx(value, rel=1e-9, abs=1e-9) if isinstance(value, float) else value


def agree(answers: Answers) -> None:
    assert answers.divided == near(answers.one)


def whole(filtering: dict[str, Any]) -> dict[str, Any]:
    return {"filtering": filtering if "conditions" in filtering else {"conditions": [filtering]}}


@contextmanager
def two_apis(one: ClickHouseSettings, divided: ClickHouseSettings, data_dir: Path, *, seed: int) -> Iterator[TwoApis]:
    """Store random spans, some of them again: changed, in another partition, and twice."""
    source = random.Random(seed)

    async def opened(stack: AsyncExitStack, settings: ClickHouseSettings) -> tuple[ColumnStore, aiohttp.ClientSession]:
        await migrate(settings, data_dir=data_dir)
        store = await stack.enter_async_context(opened_store(settings, data_dir=data_dir))
        return store, await stack.enter_async_context(serving(context_of(store=store)))

    stack = AsyncExitStack()
    with asyncio.Runner() as runner:
        try:
            both = [runner.run(opened(stack, settings)) for settings in (one, divided)]
            stores, clients = (Answers(*each) for each in zip(*both, strict=True))
            apis = TwoApis(runner, stores, clients)
            spans = [random_span(source, number) for number in range(SPANS_COUNT)]
            for start in range(0, SPANS_COUNT, 20):
                apis.send(spans[start : start + 20], partition_id=source.choice(PARTITIONS))
            again = source.sample(range(SPANS_COUNT), SPANS_COUNT // 4)
            apis.send([random_span(source, number) for number in again[::2]], partition_id=PARTITIONS[0])
            apis.send([random_span(source, number) for number in again[1::2]], partition_id=PARTITIONS[1])
            yield apis
        finally:
            runner.run(stack.aclose())
