"""Hostile clients do no harm to others: no 5xx, nothing held afterwards, no other client slowed.

The API is a process of its own. Its memory, files and threads, and those of its child processes, are compared after
rounds of the same attacks.
"""

from __future__ import annotations

import asyncio
import gzip
import io
import json
import re
import resource
import socket
import statistics
import struct
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Coroutine, Iterator
from contextlib import AsyncExitStack, asynccontextmanager, suppress
from typing import Any, Final, TypeAlias

import pytest

from common.kafka.cluster import ensure_topics
from common.settings import ClickHouseSettings, PostgresSettings
from tests.support.hostile_requests import BODIES, FRAMINGS, GZIP_BOMB, HEADS, INFLATED_BYTES
from tests.support.kafka import Broker
from tests.support.scale import scaled
from tests.support.served_api import Held, ServedApi, served_api

WAIT_S: Final = 60.0
ROUNDS: Final = scaled(3, 40)
FIRST_ROUNDS: Final = scaled(1, 5)
"""They start threads and processes, and fill caches."""

WAITING: Final = 2_000
CONNECTIONS_MAX: Final = 2_600
OPENING_MAX: Final = 20
"""Connections that are opened at the same time; the queue of a listening socket has an end."""

GROWTH_BYTES_MAX: Final = 48 << 20
"""More than a process of Python takes by chance, and less than a round of the bodies would leave."""

SLOWED_MAX: Final = scaled(8.0, 2.0)
SLOWED_BY_WORK_MAX: Final = scaled(16.0, 8.0)
"""By attacks that make the API work as fast as they can, on the same machine."""

BYSTANDER_SAMPLES: Final = 10
CALLS_OF_A_SAMPLE: Final = 10
"""Calls, one after the other, that are timed together: what the scheduler adds to one of them hardly counts."""

REPEATS: Final = 5

PREFACE: Final = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"
QUIET: Final = b"POST /spans/query HTTP/1.1\r\nHost: localhost\r\nContent-Length: 2\r\n\r\n{}"
LIVEZ: Final = b"GET /livez HTTP/1.1\r\nHost: localhost\r\n\r\n"
LAST: Final = b"GET /livez HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n"
FEED: Final = json.dumps({"windowing": {"by": "created_at", "order": "ascending", "wait_s": 30}}).encode()
WAITS: Final = b"POST /spans/query HTTP/1.1\r\nHost: localhost\r\nContent-Length: %d\r\n\r\n%s" % (len(FEED), FEED)

pytestmark = pytest.mark.timeout(1_800)


@pytest.fixture(scope="module")
def api(
    tmp_path_factory: pytest.TempPathFactory,
    shared_postgres: PostgresSettings,
    http_settings: Callable[[], ClickHouseSettings],
    embedded: Broker,
) -> Iterator[ServedApi]:
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (min(hard, 10_000), hard))
    with asyncio.Runner() as runner:
        runner.run(ensure_topics(embedded.settings()))
    log = tmp_path_factory.mktemp("hostile") / "api.log"
    limits = {
        "CLEARSPAN_HTTP__CONNECTIONS_MAX": str(CONNECTIONS_MAX),
        "CLEARSPAN_HTTP__HEADER_TIMEOUT_S": "2",
        "CLEARSPAN_HTTP__BODY_TIMEOUT_S": "2",
        "CLEARSPAN_COMPUTE__PROCESSES": "1",
        "CLEARSPAN_QUERY__QUEUE_S": "60",
        "CLEARSPAN_QUERY__BUDGET_S": "60",
    }
    with served_api(log, postgres=shared_postgres, clickhouse=http_settings(), broker=embedded, **limits) as served:
        yield served
    resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))


@asynccontextmanager
async def connection(
    api: ServedApi, port: int | None = None
) -> AsyncIterator[tuple[asyncio.StreamReader, asyncio.StreamWriter]]:
    reader, writer = await asyncio.open_connection("127.0.0.1", port or api.port)
    try:
        yield reader, writer
    finally:
        writer.close()


async def everything(api: ServedApi, request: bytes) -> bytes:
    """Return all that the server sends for a request and one more, ``LAST``, after which it closes."""
    async with connection(api) as (reader, writer), asyncio.timeout(WAIT_S):
        received = bytearray()
        try:
            writer.write(request + LAST)
            while arrived := await reader.read(1 << 16):
                received += arrived
        except ConnectionError:
            pass  # it was closed with bytes unread; what arrived before counts
        return bytes(received)


def statuses(response: bytes) -> list[int]:
    return [int(status) for status in re.findall(rb"HTTP/1\.[01] (\d{3}) ", response)]


@pytest.mark.long
def test_the_gzip_bomb_is_valid_gzip() -> None:
    """So that a server refuses it for its size, not for its checksum."""
    with gzip.open(io.BytesIO(GZIP_BOMB)) as bomb:
        assert bomb.seek(0, io.SEEK_END) == INFLATED_BYTES


@pytest.mark.parametrize("name", BODIES)
async def test_hostile_body_is_answered_without_an_internal_error(api: ServedApi, name: str) -> None:
    found = statuses(await everything(api, BODIES[name]))

    assert found[0] < 500
    assert found[1:] in ([], [200])


@pytest.mark.parametrize("name", HEADS)
async def test_hostile_head_is_no_internal_error(api: ServedApi, name: str) -> None:
    response = await everything(api, HEADS[name])

    assert all(status < 500 for status in statuses(response))
    assert b"root:" not in response


@pytest.mark.parametrize("name", FRAMINGS)
async def test_no_framing_hides_a_request(api: ServedApi, name: str) -> None:
    """What follows an ambiguous body is not read as a request: the server rejects it and closes."""
    found = statuses(await everything(api, FRAMINGS[name]))

    assert len(found) <= 1
    assert all(status < 500 for status in found)


async def test_pipelined_requests_are_answered_in_their_order(api: ServedApi) -> None:
    paths = [b"/livez", b"/nowhere", b"/openapi.json"] * 40
    requests = b"".join(b"GET %s HTTP/1.1\r\nHost: localhost\r\n\r\n" % path for path in paths)

    found = statuses(await everything(api, requests))

    assert found == [*([200, 404, 200] * 40), 200]


async def slow_heads(api: ServedApi) -> None:
    """Say nothing, or one byte of a request, until the server closes."""
    async with AsyncExitStack() as opened, asyncio.timeout(WAIT_S):
        held = [await opened.enter_async_context(connection(api)) for _ in range(100)]
        for number, (_, writer) in enumerate(held):
            writer.write(b"POST /spans/query HTTP/1.1\r\nX:"[:number])
        await asyncio.gather(*(reader.read() for reader, _ in held))


async def slow_bodies(api: ServedApi) -> None:
    """Announce a body, send a part of it, and wait until the server answers."""
    async with AsyncExitStack() as opened, asyncio.timeout(WAIT_S):
        held = [await opened.enter_async_context(connection(api)) for _ in range(100)]
        for number, (_, writer) in enumerate(held):
            framing = b"Transfer-Encoding: chunked\r\n\r\n5\r\n{" if number % 2 else b"Content-Length: 90\r\n\r\n{"
            writer.write(b"POST /spans/query HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n" + framing)
        found = [statuses(await reader.readuntil(b"\r\n\r\n")) for reader, _ in held]
    assert {tuple(each) for each in found} <= {(400,), (408,)}


async def half_open_grpc(api: ServedApi) -> None:
    """Begin HTTP/2, say nothing more, and wait until the server closes."""
    async with AsyncExitStack() as opened, asyncio.timeout(WAIT_S):
        held = [await opened.enter_async_context(connection(api, api.grpc_port)) for _ in range(50)]
        for number, (_, writer) in enumerate(held):
            writer.write(PREFACE[: number % (len(PREFACE) + 1)])
        for reader, _ in held:
            with suppress(ConnectionError):  # it was closed with bytes unread
                await reader.read()


async def leave(api: ServedApi) -> None:
    """Leave before the answer, in the middle of it, and while the feed waits: with a reset."""
    requests = [QUIET, WAITS, b"GET /openapi.json HTTP/1.1\r\nHost: localhost\r\n\r\n" * 20]
    requests.append(b"GET /spans/export HTTP/1.1\r\nHost: localhost\r\n\r\n")
    for number in range(100):
        _, writer = await asyncio.open_connection("127.0.0.1", api.port)
        sock = writer.get_extra_info("socket")
        sock.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        writer.write(requests[number % len(requests)])
        await writer.drain()
        await asyncio.sleep(0.002 * (number % 5))
        writer.transport.abort()


async def hostile_corpus(api: ServedApi) -> None:
    """Send everything that the tests above send."""
    for request in (*BODIES.values(), *HEADS.values(), *FRAMINGS.values()):
        await everything(api, request)


Attack: TypeAlias = Callable[[ServedApi], Coroutine[Any, Any, None]]
ATTACKS: Final[tuple[Attack, ...]] = (slow_heads, slow_bodies, half_open_grpc, leave, hostile_corpus)


@pytest.mark.long
async def test_nothing_is_held_after_rounds_of_attacks(api: ServedApi) -> None:
    async def a_round() -> Held:
        await asyncio.gather(*(each(api) for each in ATTACKS))
        return await settled(api)

    before = [await a_round() for _ in range(FIRST_ROUNDS)][-1]
    after = [await a_round() for _ in range(ROUNDS)]

    assert min(held.memory_bytes for held in after[-2:]) - before.memory_bytes < GROWTH_BYTES_MAX
    assert after[-1].files <= before.files + 5
    assert after[-1].threads <= before.threads + 5


async def settled(api: ServedApi) -> Held:
    """Return what the API holds once all connections of clients are closed."""
    async with asyncio.timeout(WAIT_S):
        while api.connections_count():  # noqa: ASYNC110 - only the process knows
            await asyncio.sleep(0.05)
    return api.held()


async def waiting_client(api: ServedApi, opening: asyncio.Semaphore) -> None:
    """Call the feed; begin again if the server closes, as it does if no header could be read in time."""
    while True:
        async with AsyncExitStack() as opened:
            async with opening:
                reader, writer = await opened.enter_async_context(connection(api))
            writer.write(WAITS)
            with suppress(ConnectionError):
                await reader.read()


@asynccontextmanager
async def many_waiting(api: ServedApi) -> AsyncIterator[None]:
    """Hold ``WAITING`` calls of the feed open while inside."""
    opening = asyncio.Semaphore(OPENING_MAX)
    clients = [asyncio.create_task(waiting_client(api, opening)) for _ in range(WAITING)]
    try:
        async with asyncio.timeout(5 * WAIT_S):
            while api.connections_count() < WAITING:  # noqa: ASYNC110 - only the process knows
                await asyncio.sleep(0.05)
        yield
    finally:
        for client in clients:
            client.cancel()
        await asyncio.gather(*clients, return_exceptions=True)


async def sample_s(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> float:
    """Return how long some calls of a client take that does nothing wrong."""
    began_s = time.perf_counter()
    for _ in range(CALLS_OF_A_SAMPLE):
        writer.write(QUIET)
        head = await reader.readuntil(b"\r\n\r\n")
        assert head.startswith(b"HTTP/1.1 200 ")
        length = re.search(rb"(?i)content-length: (\d+)", head)
        assert length is not None
        await reader.readexactly(int(length[1]))
    return time.perf_counter() - began_s


async def median_s(api: ServedApi) -> float:
    """Return the median of samples."""
    async with connection(api) as streams, asyncio.timeout(WAIT_S):
        return statistics.median([await sample_s(*streams) for _ in range(BYSTANDER_SAMPLES)])


async def attacked_median_s(api: ServedApi, attack: Attack) -> float:
    """Return the median of the samples during an attack, from its beginning to its end; a short attack is repeated."""
    took_s: list[float] = []
    async with connection(api) as streams, asyncio.timeout(5 * WAIT_S), asyncio.TaskGroup() as group:
        while len(took_s) < BYSTANDER_SAMPLES:
            running = group.create_task(attack(api))
            while not running.done():
                took_s.append(await sample_s(*streams))
    return statistics.median(took_s)


@pytest.mark.long
async def test_two_thousand_waiting_calls_slow_nobody(api: ServedApi) -> None:
    async def slowed() -> float:
        quiet_s = await median_s(api)
        async with many_waiting(api):
            waiting_s = await median_s(api)
        await settled(api)
        return waiting_s / quiet_s

    before = await settled(api)
    assert await least(slowed, SLOWED_MAX) < SLOWED_MAX
    assert (await settled(api)).files <= before.files + 5


@pytest.mark.long
@pytest.mark.parametrize("attack", ATTACKS)
async def test_hostile_clients_slow_nobody(api: ServedApi, attack: Attack) -> None:
    async def slowed() -> float:
        quiet_s = await median_s(api)
        return await attacked_median_s(api, attack) / quiet_s

    slowed_max = SLOWED_BY_WORK_MAX if attack in (leave, hostile_corpus) else SLOWED_MAX
    assert await least(slowed, slowed_max) < slowed_max


async def least(measure: Callable[[], Awaitable[float]], enough: float) -> float:
    """Return the first measurement below ``enough``, else the least: another program slows down some, a defect all."""
    found = []
    for _ in range(REPEATS):
        found.append(await measure())
        if found[-1] < enough:
            break
    return min(found)
