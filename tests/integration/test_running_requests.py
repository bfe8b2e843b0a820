"""A request ends with its key and with its project: what waits, what is streamed, and what is on its way."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import suppress
from dataclasses import dataclass
from datetime import timedelta
from typing import Any
from uuid import UUID

import aiohttp
import grpc.aio
import pytest
from pydantic import SecretStr

from common.clickhouse.store import ColumnStore
from common.postgres.keys import Keys, NewKey
from common.postgres.pool import Database
from common.postgres.projects import Account, WantedAccount, open_accounts
from common.settings import Settings
from common.times import SystemClock
from query_api.http.routes import ROUTES
from query_api.request.context import ApiContext
from query_api.request.route import Request, Response, Route
from tests.fakes.kafka import MemoryBroker
from tests.support.api import context_of, serving
from tests.support.otlp_grpc import TRACES, serving_grpc

ADMIN = {"Authorization": "Access admin"}
FEED = {"windowing": {"by": "created_at", "wait_s": 30}}
PIECE = b"x" * 1_000
LONG_BYTES = 64 << 20
"""More than a connection holds that nobody reads."""


@dataclass
class World:
    """An API, two projects, and routes that wait until they are cancelled."""

    client: aiohttp.ClientSession
    context: ApiContext
    keys: Keys
    database: Database
    kept: Account
    ended: Account
    running: set[str]

    async def reached(self, *names: str) -> None:
        """Wait until exactly these requests run."""
        async with asyncio.timeout(120):
            while self.running != set(names):  # noqa: ASYNC110 - what is waited for is the effect of another call
                await asyncio.sleep(0.005)

    async def status(self, account: Account, method: str, path: str, body: Any = None) -> int:
        async with self.client.request(method, path, json=body, headers=headers_of(account)) as response:
            await response.read()
            return response.status

    async def delete_project(self) -> int:
        async with self.client.delete(f"/admin/projects/{self.ended.project.id}", headers=ADMIN) as response:
            return response.status

    async def revoke_elsewhere(self) -> int:
        """Revoke the key in another process, which shares nothing but Postgres with this one."""
        elsewhere, key = Keys(self.database, SystemClock()), key_of(self.ended).key
        assert (await elsewhere.revoke(key.project_id, key.id)).revoked_at is not None
        return 200

    async def revoke(self) -> int:
        """Revoke the key in this process."""
        key = key_of(self.ended).key
        assert (await self.keys.revoke(key.project_id, key.id)).revoked_at is not None
        return 200


def key_of(account: Account) -> NewKey:
    assert account.key is not None
    return account.key


def headers_of(account: Account) -> dict[str, str]:
    return {"Authorization": key_of(account).text}


def routes_of(running: set[str]) -> tuple[Route, ...]:
    """Routes that run until they are cancelled, and say so in ``running``."""

    async def wait(request: Request) -> Response:
        name = request.path["name"]
        running.add(name)
        try:
            await asyncio.Event().wait()
        finally:
            running.discard(name)
        raise AssertionError

    async def pieces(name: str) -> Any:
        running.add(name)
        try:
            while True:
                yield PIECE
                await asyncio.sleep(0.001)
        finally:
            running.discard(name)

    async def stream(request: Request) -> Response:
        return Response(PIECE, stream=pieces(request.path["name"]))

    async def long(_: Request) -> Response:
        return Response(bytes(LONG_BYTES))

    async def end_own_key(request: Request) -> Response:
        assert isinstance(request.context.keys, Keys)
        await request.context.keys.revoke(request.project_id, UUID(request.path["key_id"]))
        return Response(PIECE)

    return (
        Route("GET", "/wait/{name}", wait, "Wait.", "Test", None),
        Route("GET", "/stream/{name}", stream, "Stream.", "Test", None, is_streamed=True),
        Route("GET", "/long", long, "Long.", "Test", None),
        Route("DELETE", "/own/{key_id}", end_own_key, "End it.", "Test", None),
        *ROUTES,
    )


@pytest.fixture
async def world(shared_database: Database, store: ColumnStore) -> AsyncIterator[World]:
    database, names = shared_database, ("kept", "ended")
    opened = await open_accounts(
        database, {name: WantedAccount(f"{name}@example.org", with_key=True) for name in names}
    )
    clock, running = SystemClock(), set[str]()
    keys, broker = Keys(database, clock), MemoryBroker()
    context = context_of(
        settings=Settings(auth="on", admin_key=SecretStr("admin")),
        broker=broker,
        keys=keys,
        store=store,
        database=database,
        clock=clock,
    )
    watching = asyncio.create_task(keys.watch())
    async with serving(context, routes=routes_of(running)) as client:
        yield World(client, context, keys, database, opened["kept"], opened["ended"], running)
    watching.cancel()
    with suppress(asyncio.CancelledError):
        await watching


End = Callable[[World], Awaitable[int]]
ENDS = pytest.mark.parametrize(
    "end", [World.delete_project, World.revoke, World.revoke_elsewhere], ids=["project", "key", "key elsewhere"]
)


@pytest.mark.parametrize("end", [World.delete_project, World.revoke], ids=["project", "key"])
async def test_from_the_answer_on_nothing_is_read(world: World, end: End) -> None:
    assert await world.status(world.ended, "POST", "/spans/query", {}) == 200

    assert await end(world) == 200

    assert await world.status(world.ended, "POST", "/spans/query", {}) == 401
    assert await world.status(world.kept, "POST", "/spans/query", {}) == 200


@ENDS
async def test_request_that_waits_is_401(world: World, end: End) -> None:
    waiting = asyncio.create_task(world.status(world.ended, "GET", "/wait/ended"))
    other = asyncio.create_task(world.status(world.kept, "GET", "/wait/kept"))
    await world.reached("ended", "kept")

    assert await end(world) == 200

    async with asyncio.timeout(60):
        assert await waiting == 401
    await world.reached("kept")
    other.cancel()
    await world.reached()


async def test_nothing_runs_any_more_when_the_project_is_answered_as_deleted(world: World) -> None:
    waiting = asyncio.create_task(world.status(world.ended, "GET", "/wait/ended"))
    await world.reached("ended")

    assert await world.delete_project() == 200

    assert not world.running
    assert await waiting == 401


async def test_long_poll_is_401(world: World) -> None:
    polling = asyncio.create_task(world.status(world.ended, "POST", "/spans/query", FEED))
    async with asyncio.timeout(120):
        while world.context.stored.waiting_count != 1:  # noqa: ASYNC110 - the effect of another call
            await asyncio.sleep(0.005)

    assert await world.delete_project() == 200

    assert world.context.stored.waiting_count == 0
    assert await polling == 401


@ENDS
async def test_stream_is_broken_off_without_its_final_chunk(world: World, end: End) -> None:
    async with world.client.get("/stream/ended", headers=headers_of(world.ended)) as response:
        assert response.status == 200
        await response.content.readexactly(10 * len(PIECE))

        assert await end(world) == 200

        with pytest.raises(aiohttp.ClientError):
            await asyncio.wait_for(response.read(), 60)
    await world.reached()


async def test_client_that_reads_slowly_gets_no_more_of_a_whole_response(world: World) -> None:
    address = world.client._base_url
    assert address is not None
    reader, writer = await asyncio.open_connection(address.host, address.port, limit=1_024)
    writer.write(f"GET /long HTTP/1.1\r\nHost: x\r\nAuthorization: {key_of(world.ended).text}\r\n\r\n".encode())
    assert await reader.readline() == b"HTTP/1.1 200 OK\r\n"

    assert await world.delete_project() == 200

    read_count = 0
    with suppress(ConnectionError):
        async with asyncio.timeout(60):
            while piece := await reader.read(1 << 16):
                read_count += len(piece)
    writer.transport.abort()
    assert read_count < LONG_BYTES


async def test_call_over_grpc_is_unauthenticated(world: World) -> None:
    async def messages() -> AsyncIterator[bytes]:
        await asyncio.Event().wait()
        yield b""

    metadata = (("authorization", f"ApiKey {key_of(world.ended).text}"),)
    async with serving_grpc(world.context) as address, grpc.aio.insecure_channel(address) as channel:
        call = channel.stream_unary(TRACES)(messages(), metadata=metadata)
        async with asyncio.timeout(120):
            while not world.keys.running_requests.key_ids:  # noqa: ASYNC110 - the effect of another call
                await asyncio.sleep(0.005)

        assert await world.delete_project() == 200

        assert await call.code() == grpc.StatusCode.UNAUTHENTICATED


async def test_request_that_ends_its_own_key_is_answered(world: World) -> None:
    assert await world.status(world.ended, "DELETE", f"/own/{key_of(world.ended).key.id}") == 200
    assert await world.status(world.ended, "GET", "/projects/current") == 401


async def test_key_that_is_rotated_without_an_overlap_ends_at_once(world: World) -> None:
    waiting = asyncio.create_task(world.status(world.ended, "GET", "/wait/ended"))
    await world.reached("ended")
    key = key_of(world.ended).key
    await world.keys.rotate(key.project_id, key.id, overlap=timedelta())

    assert not world.running
    assert await waiting == 401


class SlowDatabase:
    """Answers a lookup of a key only after ``go_on``, with what was true before."""

    def __init__(self, database: Database) -> None:
        self._database = database
        self.is_read = asyncio.Event()
        self.go_on = asyncio.Event()

    async def fetch_one(self, statement: str, *arguments: Any) -> Any:
        row = await self._database.fetch_one(statement, *arguments)
        if "WHERE prefix = $1" in statement:
            self.is_read.set()
            await self.go_on.wait()
        return row

    def __getattr__(self, name: str) -> Any:
        return getattr(self._database, name)


async def test_lookup_that_began_before_the_end_finds_no_key(world: World) -> None:
    slow: Any = SlowDatabase(world.database)
    keys = Keys(slow, SystemClock())
    finding = asyncio.create_task(keys.find(key_of(world.ended).text))
    await slow.is_read.wait()

    await keys.revoke(world.ended.project.id, key_of(world.ended).key.id)
    slow.go_on.set()

    assert await finding is None
