"""What comes before a request reaches the dispatcher: bytes that are none, heads that are too large, bodies that wait to be asked for."""

from __future__ import annotations

import asyncio
import json
from typing import Any, NamedTuple

import pytest
from yarl import URL

from common.project import DEFAULT_PROJECT_ID
from query_api.route import Access, Answer, Call, Route
from query_api.server import HEADER_BYTES_MAX
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
    """The answer to these bytes; with ``ends`` the server has to hang up after it."""
    reader, writer = await asyncio.open_connection(address.host, address.port)
    try:
        writer.write(request)
        async with asyncio.timeout(10):
            reply = await reply_to(reader)
            if ends:
                assert await reader.read() == b""
        return reply
    finally:
        writer.close()


@pytest.mark.parametrize(
    ("request_bytes", "told"),
    [
        (b"GET /?next=" + b"a" * HEADER_BYTES_MAX + b" HTTP/1.1\r\nHost: a\r\n\r\n", "larger than 16384 bytes"),
        (b"GET / HTTP/1.1\r\nHost: a\r\nX: " + b"a" * (HEADER_BYTES_MAX + 1) + b"\r\n\r\n", "larger than 16384 bytes"),
        (b"\x16\x03\x01 this is TLS\r\n\r\n", "cannot be read as HTTP/1.1"),
        (b"G@T / HTTP/1.1\r\nHost: a\r\n\r\n", "cannot be read as HTTP/1.1"),
        (b"BREW /spans/query HTTP/1.1\r\nHost: a\r\n\r\n", "cannot be read as HTTP/1.1"),
        (b"GET / HTTP/9\r\n\r\n", "cannot be read as HTTP/1.1"),
        (b"GET / HTTP/1.1\r\nContent-Length: many\r\n\r\n", "cannot be read as HTTP/1.1"),
    ],
)
async def test_what_is_no_request_gets_the_errors_of_the_api(request_bytes: bytes, told: str) -> None:
    async with serving(context_of()) as client:
        reply = await sent(client._base_url or URL(), request_bytes, ends=True)

    assert (reply.status, reply.headers["content-type"]) == (400, "application/json")
    assert told in reply.body["detail"]
    assert "\n" not in reply.body["detail"]
    assert len(reply.headers["x-request-id"]) == 32


async def test_a_method_that_no_route_has_is_405() -> None:
    async with serving(context_of()) as client:
        answer = await client.request("PROPFIND", "/spans/query")
        assert answer.status == 405
        assert "POST" in answer.headers["Allow"]
        assert (await answer.json())["detail"] == "Method Not Allowed"


async def length_of(call: Call) -> Answer:
    return Answer(str(len(call.body)).encode())


UPLOAD = Route("POST", "/upload", length_of, "", "", None, raw_body=("application/json",), access=Access.PROJECT)


def expecting(size: int, *, key: str = KEY) -> bytes:
    return (
        f"POST /upload HTTP/1.1\r\nHost: a\r\nAuthorization: ApiKey {key}\r\nContent-Type: application/json\r\n"
        f"Content-Length: {size}\r\nExpect: 100-Continue\r\n\r\n"
    ).encode()


async def test_a_body_that_waits_to_be_asked_for_is() -> None:
    context = context_of(keys=KnownKeys({KEY: DEFAULT_PROJECT_ID}))
    async with serving(context, routes=(UPLOAD,)) as client:
        address = client._base_url or URL()
        reader, writer = await asyncio.open_connection(address.host, address.port)
        writer.write(expecting(LARGE_BYTES))
        async with asyncio.timeout(10):
            assert await reader.readuntil(b"\r\n\r\n") == b"HTTP/1.1 100 Continue\r\n\r\n"
            writer.write(b"1" * LARGE_BYTES)
            reply = await reply_to(reader)
        writer.close()

    assert (reply.status, reply.body) == (200, LARGE_BYTES)


@pytest.mark.parametrize(("request_bytes", "status"), [(expecting(10**9), 413), (expecting(10, key="cs_another"), 401)])
async def test_a_body_that_is_refused_is_not_asked_for(request_bytes: bytes, status: int) -> None:
    context = context_of(keys=KnownKeys({KEY: DEFAULT_PROJECT_ID}))
    async with serving(context, routes=(UPLOAD,)) as client:
        reply = await sent(client._base_url or URL(), request_bytes)

    assert reply.status == status
