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

    async def post(self, path: str, body: Mapping[str, Any]) -> Page:
        """Send a request and wait for the whole response."""
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


def post_request(path: str, body: Mapping[str, Any]) -> bytes:
    """Return the bytes of a request, made before the clock starts."""
    content = json.dumps(body).encode()
    head = b"POST %b HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Type: application/json\r\nContent-Length: %d\r\n\r\n"
    return head % (path.encode(), len(content)) + content


def _request(connection: socket.socket, into: memoryview, path: str, body: Mapping[str, Any]) -> Page:
    request = post_request(path, body)
    started_s = time.perf_counter()
    connection.sendall(request)
    status, received = _receive(connection, into)
    took_ms = (time.perf_counter() - started_s) * 1000
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
    with socket.create_connection(("127.0.0.1", parser.parse_args().port)) as connection:
        connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        into = memoryview(bytearray(RESPONSE_BYTES_MAX))
        for line in sys.stdin:
            print(json.dumps(_request(connection, into, *json.loads(line))), flush=True)


if __name__ == "__main__":
    main()
