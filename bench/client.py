"""The HTTP client of the measurements, in a process of its own, as real clients are.

It reads requests as lines of JSON from standard input and writes one line per response: the time from the first byte
sent to the last one received, and what the benchmark needs from the body. It uses a raw socket, so the overhead of a
client library is not measured.
"""

from __future__ import annotations

import argparse
import asyncio
import http
import json
import re
import socket
import sys
import time
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from typing import Any, Final, NamedTuple

from common.limits import MIB

RESPONSE_BYTES_MAX: Final = 64 * MIB

_HEAD: Final = re.compile(
    rb"HTTP/1.1 (?P<status>\d+) .*?\r\nContent-Length: (?P<length>\d+)\r\n.*?\r\n\r\n", re.DOTALL | re.IGNORECASE
)


class Page(NamedTuple):
    """A page as the client saw it."""

    took_ms: float
    items_count: int
    cursor: str | None
    """The cursor of the next page."""


class Client:
    """Sends one request after the other."""

    def __init__(self, process: asyncio.subprocess.Process) -> None:
        self._process = process

    async def send(self, path: str, body: Mapping[str, Any] | None) -> Page:
        """Send a request, GET if ``body`` is ``None``, and wait for the whole response."""
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._process.stdin.write(json.dumps([path, body]).encode() + b"\n")
        return Page(*json.loads(await self._process.stdout.readline()))


@asynccontextmanager
async def client_of(port: int) -> AsyncIterator[Client]:
    """Start a client of the API on this port; its process ends with the block."""
    pipe = asyncio.subprocess.PIPE
    process = await asyncio.create_subprocess_exec(
        sys.executable, "-m", "bench.client", str(port), stdin=pipe, stdout=pipe
    )
    try:
        yield Client(process)
    finally:
        process.terminate()
        await process.wait()


def get_request(path: str) -> bytes:
    """Return the bytes of a request without a body."""
    return b"GET %b HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n" % path.encode()


def post_request(path: str, body: Mapping[str, Any]) -> bytes:
    """Return the bytes of a request, made before the clock starts."""
    content = json.dumps(body).encode()
    head = b"POST %b HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Type: application/json\r\nContent-Length: %d\r\n\r\n"
    return head % (path.encode(), len(content)) + content


class Response(NamedTuple):
    """A response, and the time from the first byte sent to the last one received."""

    status: int
    took_ms: float
    body: memoryview


class Connection:
    """A connection to an API, kept open between requests. ``received`` is the buffer of responses."""

    def __init__(self, port: int, *, bytes_max: int = RESPONSE_BYTES_MAX) -> None:
        self._socket = socket.create_connection(("127.0.0.1", port))
        self._socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self._received = memoryview(bytearray(bytes_max))

    def send(self, path: str, body: Mapping[str, Any] | None) -> Response:
        """Send a request, GET if ``body`` is ``None``; the body of the response is valid until the next one."""
        request = get_request(path) if body is None else post_request(path, body)
        started_s = time.perf_counter()
        self._socket.sendall(request)
        status, received = _receive(self._socket, self._received)
        return Response(status, (time.perf_counter() - started_s) * 1000, received)

    def close(self) -> None:
        """Close the connection."""
        self._socket.close()


def _page(connection: Connection, path: str, body: Mapping[str, Any] | None) -> Page:
    status, took_ms, received = connection.send(path, body)
    if status != http.HTTPStatus.OK:
        raise RuntimeError(f"{path} returned {status}: {bytes(received[:1000])!r}")
    page = json.loads(bytes(received))
    return Page(took_ms, page["count"], page.get("windowing", {}).get("next"))


def _receive(connection: socket.socket, into: memoryview) -> tuple[int, memoryview]:
    """Return the status and the body of the next response, which is read into ``into`` without copies."""
    filled = _fill(connection, into, 0)
    while (head := _HEAD.match(into[:filled])) is None:
        filled = _fill(connection, into, filled)
    end = head.end() + int(head["length"])
    while filled < end:
        filled = _fill(connection, into, filled)
    return int(head["status"]), into[head.end() : end]


def _fill(connection: socket.socket, into: memoryview, filled: int) -> int:
    if count := connection.recv_into(into[filled:]):
        return filled + count
    raise ConnectionError("The API closed the connection.")


def main() -> None:
    """Send requests until standard input ends."""
    parser = argparse.ArgumentParser()
    parser.add_argument("port", type=int)
    connection = Connection(parser.parse_args().port)
    for line in sys.stdin:
        print(json.dumps(_page(connection, *json.loads(line))), flush=True)


if __name__ == "__main__":
    main()
