"""HTTP before the dispatcher: bytes that are not a request, headers that are too large, bodies that wait for 100
Continue.
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator, Callable
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from typing import Any, NamedTuple

import pytest
from yarl import URL

from common.http.health import open_health
from common.http.server import HEADER_BYTES_MAX
from common.ids import DEFAULT_PROJECT_ID
from common.readiness import Readiness
from common.settings import HttpSettings, Settings
from query_api.request.route import Access, Request, Response, Route
from tests.support.api import KnownKeys, context_of, serving

KEY = "cs_a-key"
LARGE_BYTES = 5_000_000


class Reply(NamedTuple):
    status: int
    headers: dict[str, str]
    body: Any


async def reply_to(reader: asyncio.StreamReader) -> Reply:
    head = (await reader.readuntil(b"\r\n\r\n")).decode().split("\r\n")
    headers = {name.lower(): value.strip() for name, _, value in (line.partition(":") for line in head[1:] if line)}
    body = await reader.readexactly(int(headers["content-length"]))
    return Reply(int(head[0].split()[1]), headers, json.loads(body))


async def sent(address: URL, request: bytes, *, ends: bool = False) -> Reply:
    """Return the response to these bytes; with ``ends`` the server must close the connection after it."""
    reader, writer = await asyncio.open_connection(address.host, address.port)
    try:
        writer.write(request)
        async with asyncio.timeout(60):
            reply = await reply_to(reader)
            if ends:
                assert await reader.read() == b""
        return reply
    finally:
        writer.close()


@pytest.mark.parametrize(
    ("request_bytes", "message"),
    [
        (b"GET /?next=" + b"a" * HEADER_BYTES_MAX + b" HTTP/1.1\r\nHost: localhost\r\n\r\n", "larger than 16384 bytes"),
        (
            b"GET / HTTP/1.1\r\nHost: localhost\r\nX: " + b"a" * (HEADER_BYTES_MAX + 1) + b"\r\n\r\n",
            "larger than 16384 bytes",
        ),
        (b"\x16\x03\x01 this is TLS\r\n\r\n", "cannot be read as HTTP/1.1"),
        (b"G@T / HTTP/1.1\r\nHost: localhost\r\n\r\n", "cannot be read as HTTP/1.1"),
        (b"BREW /spans/query HTTP/1.1\r\nHost: localhost\r\n\r\n", "cannot be read as HTTP/1.1"),
        (b"GET / HTTP/9\r\n\r\n", "cannot be read as HTTP/1.1"),
        (b"GET / HTTP/1.1\r\nContent-Length: many\r\n\r\n", "cannot be read as HTTP/1.1"),
    ],
)
async def test_unreadable_request_gets_an_error_of_the_api(request_bytes: bytes, message: str) -> None:
    async with serving(context_of()) as client:
        reply = await sent(client._base_url or URL(), request_bytes, ends=True)

    assert (reply.status, reply.headers["content-type"]) == (400, "application/json")
    assert message in reply.body["detail"]
    assert "\n" not in reply.body["detail"]
    assert len(reply.headers["x-request-id"]) == 32


async def test_unknown_method_is_405() -> None:
    async with serving(context_of()) as client:
        response = await client.request("PROPFIND", "/spans/query")
        assert response.status == 405
        assert "POST" in response.headers["Allow"]
        assert (await response.json())["detail"] == "Method Not Allowed"


async def length_of(call: Request) -> Response:
    return Response(str(len(call.body)).encode())


UPLOAD = Route("POST", "/upload", length_of, "", "", None, raw_body=("application/json",), access=Access.PROJECT)


def expecting(size: int, *, key: str = KEY) -> bytes:
    return (
        f"POST /upload HTTP/1.1\r\nHost: localhost\r\nAuthorization: ApiKey {key}\r\nContent-Type: application/json\r\n"
        f"Content-Length: {size}\r\nExpect: 100-Continue\r\n\r\n"
    ).encode()


async def test_expect_100_continue_is_answered() -> None:
    context = context_of(keys=KnownKeys({KEY: DEFAULT_PROJECT_ID}))
    async with serving(context, routes=(UPLOAD,)) as client:
        address = client._base_url or URL()
        reader, writer = await asyncio.open_connection(address.host, address.port)
        writer.write(expecting(LARGE_BYTES))
        async with asyncio.timeout(60):
            assert await reader.readuntil(b"\r\n\r\n") == b"HTTP/1.1 100 Continue\r\n\r\n"
            writer.write(b"1" * LARGE_BYTES)
            reply = await reply_to(reader)
        writer.close()

    assert (reply.status, reply.body) == (200, LARGE_BYTES)


@pytest.mark.parametrize(("request_bytes", "status"), [(expecting(10**9), 413), (expecting(10, key="cs_another"), 401)])
async def test_rejected_body_is_not_continued(request_bytes: bytes, status: int) -> None:
    context = context_of(keys=KnownKeys({KEY: DEFAULT_PROJECT_ID}))
    async with serving(context, routes=(UPLOAD,)) as client:
        reply = await sent(client._base_url or URL(), request_bytes)

    assert reply.status == status


@asynccontextmanager
async def api_port(http: HttpSettings) -> AsyncIterator[int]:
    async with serving(context_of(settings=Settings(auth="off", http=http))) as client:
        assert client._base_url is not None
        assert client._base_url.port is not None
        yield client._base_url.port


@asynccontextmanager
async def worker_port(http: HttpSettings) -> AsyncIterator[int]:
    async with open_health(Readiness(), host="127.0.0.1", port=0, names="", http=http) as port:
        yield port


PORTS = pytest.mark.parametrize("serve", [api_port, worker_port])
Serve = Callable[[HttpSettings], AbstractAsyncContextManager[int]]


@PORTS
@pytest.mark.parametrize("before", [b"", b"GET /livez HTTP/1.1\r\nHost: localhost\r\n\r\n"], ids=["first", "second"])
@pytest.mark.parametrize("beginning", [b"GET /livez HTTP/1.1\r\n", b"G"])
async def test_endless_headers_time_out(serve: Serve, before: bytes, beginning: bytes) -> None:
    async with serve(HttpSettings(header_timeout_s=0.5)) as port, asyncio.timeout(60):
        reader, writer = await asyncio.open_connection("127.0.0.1", port)
        writer.write(before)
        if before:
            assert (await reply_to(reader)).status == 200
        writer.write(beginning)
        while reader.at_eof() is False and not reader._buffer:  # type: ignore[attr-defined] # it drips until it is answered
            writer.write(b"X: y\r\n" if len(beginning) > 1 else b"")
            await asyncio.sleep(0.02)
        # What drips into the closed connection resets it: a read would raise, although the reply has arrived.
        arrived = asyncio.StreamReader()
        arrived.feed_data(bytes(reader._buffer))  # type: ignore[attr-defined] # as above
        arrived.feed_eof()
        reply = await reply_to(arrived)
        writer.close()

    assert (reply.status, reply.headers["x-content-type-options"]) == (408, "nosniff")
    assert reply.body["detail"] == "The headers did not arrive within 0.5 s."


@PORTS
async def test_silent_connection_is_closed(serve: Serve) -> None:
    async with serve(HttpSettings(header_timeout_s=0.1)) as port, asyncio.timeout(60):
        reader, writer = await asyncio.open_connection("127.0.0.1", port)
        assert (await reader.read()).startswith(b"HTTP/1.1 408 ")
        writer.close()


@PORTS
async def test_idle_connection_between_requests_is_kept(serve: Serve) -> None:
    async with serve(HttpSettings(header_timeout_s=1.0)) as port, asyncio.timeout(60):
        reader, writer = await asyncio.open_connection("127.0.0.1", port)
        for idle_s in (1.2, 0):
            writer.write(b"GET /livez HTTP/1.1\r\nHost: localhost\r\n\r\n")
            assert (await reply_to(reader)).status == 200
            await asyncio.sleep(idle_s)
        writer.close()


@PORTS
@pytest.mark.parametrize("ends", [True, False], ids=["whole", "without an end"])
async def test_total_size_of_headers_is_limited(serve: Serve, ends: bool) -> None:
    header = b"X-%d: " + b"a" * 8_000 + b"\r\n"
    lines = b"".join(header % number for number in range(4 if ends else 6))
    async with serve(HttpSettings(headers_bytes_max=24_000)) as port, asyncio.timeout(60):
        url = URL(f"http://127.0.0.1:{port}")
        reply = await sent(
            url, b"GET /livez HTTP/1.1\r\nHost: localhost\r\n" + lines + (b"\r\n" if ends else b""), ends=True
        )

    assert reply.status == 400
    assert reply.body["detail"] == "The request line and the headers are larger than 24000 bytes together."


@PORTS
async def test_connection_above_the_limit_is_refused(serve: Serve) -> None:
    async with serve(HttpSettings(connections_max=10)) as port, asyncio.timeout(60):
        url = URL(f"http://127.0.0.1:{port}")
        held = [await asyncio.open_connection("127.0.0.1", port) for _ in range(10)]
        reader, writer = await asyncio.open_connection("127.0.0.1", port)
        assert (await reply_to(reader)).status == 503
        writer.close()
        held[0][1].close()
        while (await sent(url, b"GET /livez HTTP/1.1\r\nHost: localhost\r\n\r\n")).status != 200:
            pass  # until the server has noticed
        for _, writer in held:
            writer.close()


@PORTS
@pytest.mark.parametrize(
    ("request_bytes", "status"),
    [
        (b"GET /livez HTTP/1.1\r\nHost: localhost\r\n\r\n", 200),
        (b"GET /nowhere HTTP/1.1\r\nHost: localhost\r\n\r\n", 404),
        (b"DELETE /livez HTTP/1.1\r\nHost: localhost\r\n\r\n", 405),
        (b"this is no request\r\n\r\n", 400),
    ],
)
async def test_every_response_has_nosniff(serve: Serve, request_bytes: bytes, status: int) -> None:
    async with serve(HttpSettings()) as port:
        reply = await sent(URL(f"http://127.0.0.1:{port}"), request_bytes)

    assert (reply.status, reply.headers["x-content-type-options"]) == (status, "nosniff")
    assert reply.headers["server"] == "clearspan"
