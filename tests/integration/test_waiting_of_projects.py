"""``X-Clearspan-Wait-For`` with keys: a project waits for its own records, and learns nothing about those of others."""

from __future__ import annotations

import asyncio
import base64
import time
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, Final, NamedTuple
from uuid import UUID

import aiohttp
import orjson
import pytest
from pydantic import SecretStr

from common.clickhouse.connect import open_store
from common.settings import ClickHouseSettings, QuerySettings, Settings
from common.times import SystemClock
from query_api.request.context import ApiContext
from query_api.request.progress import KnownEndOffsets
from tests.fakes.kafka import MemoryBroker
from tests.support.api import PROJECT_A, KnownKeys, context_of, serving
from tests.support.storing import StoringByHand

PROJECT_B: Final = UUID("00000000-0000-7000-8000-00000000000b")
WAIT_S: Final = 0.5
TRIES: Final = 10
ADMIN: Final = {"Authorization": "Access admin"}
KEY_A: Final = {"Authorization": "ApiKey a"}
KEY_B: Final = {"Authorization": "ApiKey b"}


class Ended(NamedTuple):
    """How a waiting request ended."""

    status: int
    headers: Mapping[str, str]
    body: Any
    seconds: float


@pytest.fixture
def broker() -> MemoryBroker:
    return MemoryBroker(partitions=1)


@pytest.fixture
async def context(
    broker: MemoryBroker, chdb_dir: Path, chdb_settings: Callable[[], ClickHouseSettings]
) -> AsyncIterator[ApiContext]:
    clock = SystemClock()
    store = open_store(chdb_settings(), data_dir=chdb_dir)
    yield context_of(
        broker=broker,
        settings=Settings(auth="on", admin_key=SecretStr("admin")),
        keys=KnownKeys({"a": PROJECT_A, "b": PROJECT_B}),
        clock=clock,
        store=store,
        ends=KnownEndOffsets(broker.ends("spans", "otlp_spans"), clock),
    )
    await store.close()


@pytest.fixture
async def client(context: ApiContext) -> AsyncIterator[aiohttp.ClientSession]:
    async with serving(context) as client:
        yield client


@pytest.fixture
async def impatient(context: ApiContext) -> AsyncIterator[aiohttp.ClientSession]:
    """A client of an API on which requests wait at most ``WAIT_S``."""
    settings = context.settings.model_copy(update={"query": QuerySettings(wait_for_max_s=WAIT_S)})
    async with serving(replace(context, settings=settings)) as client:
        yield client


@pytest.fixture
def worker(context: ApiContext, broker: MemoryBroker) -> StoringByHand:
    return StoringByHand(context, broker)


async def send(client: aiohttp.ClientSession, key: Mapping[str, str], *, number: int = 1) -> str:
    span = {"trace_id": f"{number:032x}", "span_id": f"{number:016x}", "span_name": "sent", "start_time": 1_750_000_000}
    async with client.post("/tracing/spans/ingest", json={"spans": [span]}, headers=key) as answer:
        assert answer.status == 202
        return answer.headers["X-Clearspan-Coordinates"]


async def wait_for(
    client: aiohttp.ClientSession, key: Mapping[str, str], *coordinates: str, path: str = "/spans/sessions/query"
) -> Ended:
    began_s = time.monotonic()
    headers = {**key, "X-Clearspan-Wait-For": ",".join(coordinates)}
    method = "GET" if path.startswith("/admin") else "POST"
    async with client.request(method, path, headers=headers) as answer:
        body = orjson.loads(await answer.read())
        shown = {name: value for name, value in answer.headers.items() if name not in ("X-Request-ID", "Date")}
        return Ended(answer.status, shown, body, time.monotonic() - began_s)


async def test_project_waits_for_its_own_spans(client: aiohttp.ClientSession, worker: StoringByHand) -> None:
    coordinates = await send(client, KEY_A)
    waiting = asyncio.create_task(wait_for(client, KEY_A, coordinates))
    await asyncio.sleep(0.1)
    assert not waiting.done()

    await worker.store_all()

    assert (await waiting).status == 200


async def test_coordinates_of_another_project_are_rejected(
    client: aiohttp.ClientSession, worker: StoringByHand
) -> None:
    coordinates = await send(client, KEY_B)
    await worker.store_all()

    changed = coordinates[:-2] + ("A" if coordinates[-2] != "A" else "B") + coordinates[-1]
    for text, key in ((coordinates, KEY_A), (changed, KEY_B), (coordinates, ADMIN)):
        ended = await wait_for(client, key, text, path="/admin/status/freshness" if key is ADMIN else "/spans/query")
        assert ended.status == 400
        assert "is neither a value of X-Clearspan-Coordinates" in ended.body["detail"]


async def test_coordinates_do_not_reveal_record_counts(client: aiohttp.ClientSession) -> None:
    first = await send(client, KEY_A)
    for _ in range(3):
        await send(client, KEY_B)
    second = await send(client, KEY_A)

    raw = [base64.urlsafe_b64decode(token + "=" * (-len(token) % 4)) for token in (first, second)]
    assert b"spans" not in raw[0] + raw[1]
    # Equal plain text at equal positions would give equal bytes.
    equal = [index for index, (one, other) in enumerate(zip(*raw, strict=True)) if one == other]
    assert len(equal) < len(raw[0]) / 4


async def test_producer_waits_for_its_own_record(client: aiohttp.ClientSession, worker: StoringByHand) -> None:
    await send(client, KEY_B)
    await send(client, KEY_A)
    waiting = asyncio.create_task(wait_for(client, KEY_A, "spans/0/1"))
    await asyncio.sleep(0.1)
    assert not waiting.done()

    await worker.store_all()

    assert (await waiting).status == 200


async def test_record_with_replaced_spans_still_counts(client: aiohttp.ClientSession, worker: StoringByHand) -> None:
    for _ in range(2):
        await send(client, KEY_A)
        await worker.store_all()

    assert (await wait_for(client, KEY_A, "spans/0/0,spans/0/1")).status == 200


@pytest.mark.parametrize("path", ["/spans/query", "/traces/query", "/spans/sessions/query"])
async def test_record_of_another_project_counts_as_not_stored(
    impatient: aiohttp.ClientSession, worker: StoringByHand, path: str
) -> None:
    """The first place is a record of another project, the third has no record yet; the others do not exist."""
    await send(impatient, KEY_B, number=1)
    await send(impatient, KEY_A, number=2)
    before_storing = await wait_for(impatient, KEY_A, "spans/0/0", path=path)
    await worker.store_all()

    places = ("spans/0/0", "spans/0/2", "spans/7/0", "otlp_spans/0/0", "no_topic/0/0")

    async def all_ended() -> list[Ended]:
        return await asyncio.gather(*(wait_for(impatient, KEY_A, place, path=path) for place in places))

    ended, tries = await all_ended(), 1
    # A busy machine delays one response or another, a defect always the same.
    while tries < TRIES and _spread_s(ended) >= WAIT_S / 2:
        ended, tries = await all_ended(), tries + 1

    assert ended[0]._replace(seconds=0) == before_storing._replace(seconds=0)
    for place, response in zip(places, ended, strict=True):
        assert response.status == 504
        assert response.body == {"detail": f"X-Clearspan-Wait-For: not queryable after {WAIT_S:g} s: {place}."}
        assert {**response.headers, "Content-Length": 0} == {**before_storing.headers, "Content-Length": 0}
    assert min(request.seconds for request in ended) >= WAIT_S
    assert _spread_s(ended) < WAIT_S / 2


def _spread_s(ended: Sequence[Ended]) -> float:
    seconds = [request.seconds for request in ended]
    return max(seconds) - min(seconds)


async def test_administrator_may_wait_for_any_offset(impatient: aiohttp.ClientSession, worker: StoringByHand) -> None:
    await send(impatient, KEY_B)
    path = "/admin/status/freshness"
    assert (await wait_for(impatient, ADMIN, "spans/0/0", path=path)).status == 504
    await worker.store_all()

    ended = await wait_for(impatient, ADMIN, "spans/0/0", path=path)

    assert ended.status == 200
    assert ended.body["partitions"][1]["stored_offset"] == 0


async def test_freshness_of_a_project_has_no_offsets(client: aiohttp.ClientSession, worker: StoringByHand) -> None:
    await send(client, KEY_A)
    await worker.store_all()

    async with client.get("/status/freshness", headers=KEY_A) as answer:
        of_spans = (await answer.json())["partitions"][1]

    assert set(of_spans["last_stored"]) == {"recorded_at", "stored_at"}
