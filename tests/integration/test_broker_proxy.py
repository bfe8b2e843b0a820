"""The proxy of the embedded broker, with a small server that responds to frames."""

from __future__ import annotations

import asyncio
import struct
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import suppress
from typing import TypeAlias

import pytest

from clearspan.embedded.broker_proxy import DRAINING_CLIENT, PRODUCE, UNANSWERED_MAX, BrokerProxy

FETCH = 1


class _Broker:
    """Responds to each request frame with its correlation id, once ``may_answer`` is set."""

    def __init__(self) -> None:
        self.may_answer = asyncio.Event()
        self.may_answer.set()
        self.requests: list[tuple[int, int]] = []
        self.was_asked = asyncio.Event()
        self._server: asyncio.Server | None = None

    async def listen(self) -> int:
        self._server = await asyncio.start_server(self._serve, "127.0.0.1", 0)
        return int(self._server.sockets[0].getsockname()[1])

    async def close(self) -> None:
        assert self._server is not None
        self._server.close()

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            while True:
                (length,) = struct.unpack(">i", await reader.readexactly(4))
                frame = await reader.readexactly(length)
                api_key, _, correlation_id = struct.unpack(">hhi", frame[:8])
                self.requests.append((api_key, correlation_id))
                self.was_asked.set()
                await self.may_answer.wait()
                writer.write(struct.pack(">ii", 4 + 5, correlation_id) + b"reply")
        except (asyncio.IncompleteReadError, ConnectionError):
            pass
        finally:
            writer.close()


class _Client:
    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._reader, self._writer = reader, writer

    def send(
        self,
        api_key: int,
        correlation_id: int,
        *,
        client_id: str | None = None,
        body: bytes = b"body",
        length: int | None = None,
    ) -> None:
        who = struct.pack(">h", -1) if client_id is None else struct.pack(">h", len(client_id)) + client_id.encode()
        head = struct.pack(">hhi", api_key, 0, correlation_id) + who
        self._writer.write(struct.pack(">i", length or len(head + body)) + head + body)

    async def response(self) -> int:
        length, correlation_id = struct.unpack(">ii", await self._reader.readexactly(8))
        assert await self._reader.readexactly(length - 4) == b"reply"
        return int(correlation_id)

    async def is_closed(self) -> bool:
        return await self._reader.read() == b""

    async def close(self) -> None:
        self._writer.close()
        with suppress(ConnectionError):
            await self._writer.wait_closed()


@pytest.fixture
async def broker() -> AsyncIterator[_Broker]:
    broker = _Broker()
    yield broker
    await broker.close()


@pytest.fixture
async def proxy(broker: _Broker) -> AsyncIterator[BrokerProxy]:
    proxy = BrokerProxy()
    await proxy.turn_to(broker_port=await broker.listen())
    proxy.admit_produces()
    yield proxy
    await proxy.close()


Connect: TypeAlias = Callable[[], Awaitable[_Client]]


@pytest.fixture
async def connect(proxy: BrokerProxy) -> AsyncIterator[Connect]:
    port = await proxy.listen(0)
    clients: list[_Client] = []

    async def connect() -> _Client:
        clients.append(_Client(*await asyncio.open_connection("127.0.0.1", port)))
        return clients[-1]

    yield connect
    for client in clients:
        await client.close()


async def test_frames_of_any_size_pass_unchanged(connect: Connect):
    client = await connect()

    client.send(FETCH, 1, body=b"x" * 1_000_000)
    client.send(PRODUCE, 2, body=b"")

    assert [await client.response(), await client.response()] == [1, 2]


async def test_hold_waits_for_requests_under_way(proxy: BrokerProxy, broker: _Broker, connect: Connect):
    client = await connect()
    broker.may_answer.clear()
    client.send(PRODUCE, 1)
    await broker.was_asked.wait()

    holding = asyncio.create_task(proxy.hold_produces(timeout_s=10))
    await asyncio.sleep(0.05)
    assert not holding.done()
    broker.may_answer.set()

    await asyncio.wait_for(holding, 60)
    assert await client.response() == 1


async def test_held_produce_request_does_not_delay_other_requests(
    proxy: BrokerProxy, broker: _Broker, connect: Connect
):
    client = await connect()
    other = await connect()
    await proxy.hold_produces(timeout_s=1)

    client.send(PRODUCE, 1)
    other.send(FETCH, 2)

    assert await other.response() == 2
    assert broker.requests == [(FETCH, 2)]


async def test_worker_may_produce_during_the_drain_but_not_before_the_topics_exist(
    proxy: BrokerProxy, broker: _Broker, connect: Connect
):
    worker, other = await connect(), await connect()
    await proxy.hold_produces(timeout_s=1)
    other.send(PRODUCE, 1, client_id=DRAINING_CLIENT + "s")
    worker.send(PRODUCE, 2, client_id=DRAINING_CLIENT)
    assert await worker.response() == 2
    assert broker.requests == [(PRODUCE, 2)]

    successor = _Broker()
    await proxy.turn_to(broker_port=await successor.listen())
    again = await connect()
    again.send(PRODUCE, 3, client_id=DRAINING_CLIENT)
    await asyncio.sleep(0.05)
    assert successor.requests == []
    await successor.close()


@pytest.mark.parametrize("length", [8, 9, 12])
async def test_truncated_produce_request_closes_the_connection(connect: Connect, length: int):
    client = await connect()

    client.send(PRODUCE, 1, client_id="longer than the frame", body=b"", length=length)

    assert await client.is_closed()


async def test_replaced_broker_disconnects_clients_and_holds_produces(proxy: BrokerProxy, connect: Connect):
    client = await connect()
    client.send(FETCH, 0)
    assert await client.response() == 0
    await proxy.hold_produces(timeout_s=1)
    client.send(PRODUCE, 1)
    successor = _Broker()

    await proxy.turn_to(broker_port=await successor.listen())

    assert await client.is_closed()
    again, other = await connect(), await connect()
    again.send(PRODUCE, 7)
    other.send(FETCH, 8)
    assert await other.response() == 8
    assert successor.requests == [(FETCH, 8)], "it has no topics yet"
    proxy.admit_produces()
    assert await again.response() == 7
    assert successor.requests == [(FETCH, 8), (PRODUCE, 7)]
    await successor.close()


async def test_produces_are_held_until_they_are_admitted(broker: _Broker):
    proxy = BrokerProxy()
    await proxy.turn_to(broker_port=await broker.listen())
    client = _Client(*await asyncio.open_connection("127.0.0.1", await proxy.listen(0)))
    client.send(PRODUCE, 1)
    await asyncio.sleep(0.05)
    assert broker.requests == []

    proxy.admit_produces()

    assert await client.response() == 1
    await client.close()
    await proxy.close()


async def test_request_unanswered_at_the_deadline_is_never_acknowledged(
    proxy: BrokerProxy, broker: _Broker, connect: Connect
):
    waiting, idle = await connect(), await connect()
    broker.may_answer.clear()
    waiting.send(PRODUCE, 1)
    await broker.was_asked.wait()

    await proxy.hold_produces(timeout_s=0.1)
    broker.may_answer.set()

    assert await waiting.is_closed(), "nobody knows whether the record was stored"
    idle.send(FETCH, 2)
    assert await idle.response() == 2


async def test_client_without_acknowledgements_does_not_block_a_hold(
    proxy: BrokerProxy, broker: _Broker, connect: Connect
):
    client = await connect()
    broker.may_answer.clear()
    for number in range(UNANSWERED_MAX + 5):
        client.send(PRODUCE, number)
    await broker.was_asked.wait()

    await asyncio.wait_for(proxy.hold_produces(timeout_s=0.2), 5)


async def test_too_large_frame_closes_the_connection(connect: Connect):
    client = await connect()

    client.send(FETCH, 1, length=1 << 30)

    assert await client.is_closed()
