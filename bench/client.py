"""The one who asks in a measurement over HTTP, in a process of its own, as users are.

Lines of JSON on standard input, each a request, and one on standard output for each: how long its answer took, from the first byte
sent to the last one received, and what the bench needs to know of it. It speaks over a bare socket: what a client's library does with
an answer is not what the API adds to it.
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

ANSWER_BYTES_MAX: Final = 64 * MIB

_HEAD: Final = re.compile(
    rb"HTTP/1.1 (?P<status>\d+) .*?\r\nContent-Length: (?P<length>\d+)\r\n.*?\r\n\r\n", re.DOTALL | re.IGNORECASE
)


class Answered(NamedTuple):
    """A page as its client saw it."""

    took_ms: float
    items_count: int
    cursor: str | None
    """Of the page behind it."""


class Client:
    """Asks one question after the other."""

    def __init__(self, process: asyncio.subprocess.Process) -> None:
        self._process = process

    async def post(self, path: str, body: Mapping[str, Any]) -> Answered:
        """Ask, and wait for the whole answer."""
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._process.stdin.write(json.dumps([path, body]).encode() + b"\n")
        return Answered(*json.loads(await self._process.stdout.readline()))


@asynccontextmanager
async def client_of(port: int) -> AsyncIterator[Client]:
    """A client of the API on this port, in a process that ends with the block."""
    pipe = asyncio.subprocess.PIPE
    process = await asyncio.create_subprocess_exec(
        sys.executable, "-m", "bench.client", str(port), stdin=pipe, stdout=pipe
    )
    try:
        yield Client(process)
    finally:
        process.terminate()
        await process.wait()


def _answered(connection: socket.socket, into: memoryview, path: str, body: Mapping[str, Any]) -> Answered:
    content = json.dumps(body).encode()
    request = b"POST %b HTTP/1.1\r\nHost: bench\r\nContent-Type: application/json\r\nContent-Length: %d\r\n\r\n%b"
    started_s = time.perf_counter()
    connection.sendall(request % (path.encode(), len(content), content))
    status, answer = _received(connection, into)
    took_ms = (time.perf_counter() - started_s) * 1000
    if status != http.HTTPStatus.OK:
        raise RuntimeError(f"{path} answered {status}: {bytes(answer[:1000])!r}")
    page = json.loads(bytes(answer))
    return Answered(took_ms, page["count"], page.get("windowing", {}).get("next"))


def _received(connection: socket.socket, into: memoryview) -> tuple[int, memoryview]:
    """The status and the body of the next answer, which lies in ``into``. As a client in C would read it: no piece is copied again."""
    filled = _fill(connection, into, 0)
    while (head := _HEAD.match(into[:filled])) is None:
        filled = _fill(connection, into, filled)
    ends_at = head.end() + int(head["length"])
    while filled < ends_at:
        filled = _fill(connection, into, filled)
    return int(head["status"]), into[head.end() : ends_at]


def _fill(connection: socket.socket, into: memoryview, filled: int) -> int:
    if count := connection.recv_into(into[filled:]):
        return filled + count
    raise ConnectionError("The API closed the connection.")


def main() -> None:
    """Ask until there is nothing more to ask."""
    parser = argparse.ArgumentParser()
    parser.add_argument("port", type=int)
    with socket.create_connection(("127.0.0.1", parser.parse_args().port)) as connection:
        connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        into = memoryview(bytearray(ANSWER_BYTES_MAX))
        for line in sys.stdin:
            print(json.dumps(_answered(connection, into, *json.loads(line))), flush=True)


if __name__ == "__main__":
    main()
