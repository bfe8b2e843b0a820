"""Bodies that are slow to read, and clients that send one in a loop.

``python -m tests.support.large_bodies ADDRESS NAME CLIENTS SECONDS``

It is a child process, so that the measurements of a test do not wait for its interpreter lock.
"""

from __future__ import annotations

import gzip
import json
import socket
import subprocess
import sys
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import NamedTuple
from urllib.parse import urlsplit

ROOT = Path(__file__).parents[2]
NOW_NS = time.time_ns()
PROTOBUF = "application/x-protobuf"


class Body(NamedTuple):
    """A body with its path and headers."""

    path: str
    content: bytes
    content_type: str = "application/json"
    encoding: str = "identity"


def _elements(before: str, element: str, count: int, after: str) -> bytes:
    return (before + ",".join([element] * count) + after).encode()


def _valid_spans(count: int) -> bytes:
    spans = [{"trace_id": f"{at % 500 + 1:032x}", "span_id": f"{at + 1:016x}", "span_name": "s"} for at in range(count)]
    return json.dumps({"spans": spans}).encode()


def _field(number: int, value: bytes) -> bytes:
    size, length = len(value), bytearray()
    while size > 0x7F:
        length.append(size & 0x7F | 0x80)
        size >>= 7
    return bytes([number << 3 | 2, *length, size]) + value


def _empty_otlp(count: int) -> bytes:
    return _field(1, _field(2, b"\x12\x00" * count))


def _application() -> bytes:
    prompts = [{"role": "user", "content": "é, [x]: {y} " * 30} for _ in range(20_000)]
    body = {"application": {"slug": "large", "data": {"parameters": {"prompts": prompts}}}}
    return json.dumps(body, ensure_ascii=False).encode()


BODIES: Mapping[str, Callable[[], Body]] = {
    "empty spans": lambda: Body("/tracing/spans/ingest", _elements('{"spans": [', "{}", 2_000_000, "]}")),
    "valid spans": lambda: Body("/tracing/spans/ingest", _valid_spans(60_000)),
    "references": lambda: Body(
        "/applications/query", _elements('{"application_refs": [', '{"slug":"a"}', 500_000, "]}")
    ),
    "values": lambda: Body("/spans/query", _elements('{"filtering": {"conditions": [', "1", 3_000_000, "]}}")),
    "wrong values": lambda: Body("/spans/query", _elements("[", "{}", 2_000_000, "]")),
    "nesting": lambda: Body("/spans/query", b'{"filtering": ' + b'{"conditions":[' * 400_000),
    "members": lambda: Body("/spans/query", ("{" + ",".join(f'"m{at}":1' for at in range(500_000)) + "}").encode()),
    "gzip members": lambda: Body("/spans/query", gzip.compress(b"") * 520_000, encoding="gzip"),
    "inflated": lambda: Body(
        "/tracing/spans/ingest", gzip.compress(_elements('{"spans": [', "{}", 3_000_000, "]}")), encoding="gzip"
    ),
    "OTLP": lambda: Body("/otlp/v1/traces", _empty_otlp(3_000_000), PROTOBUF),
    "OTLP JSON": lambda: Body(
        "/otlp/v1/traces", _elements('{"resourceSpans":[{"scopeSpans":[{"spans":[', "{}", 2_000_000, "]}]}]}")
    ),
    "small OTLP": lambda: Body("/otlp/v1/traces", _empty_otlp(4_000), PROTOBUF),
    "patterns": lambda: Body(
        "/spans/query",
        json.dumps(
            {"filtering": {"conditions": [{"field": "span_name", "operator": "matches", "value": "\\pL" * 20_000}]}}
        ).encode(),
    ),
    "list of values": lambda: Body(
        "/spans/query",
        json.dumps(
            {
                "filtering": {
                    "conditions": [
                        {"field": "attributes", "key": f"k{at}", "operator": "in", "value": list(range(10_000))}
                        for at in range(4)
                    ]
                }
            }
        ).encode(),
    ),
    "revision data": lambda: Body("/simple/applications/", _application()),
}


@contextmanager
def sending(address: str, name: str, *, clients: int, seconds: float) -> Iterator[subprocess.Popen[str]]:
    """Run clients that send a body in a loop, in a child process; its last line of output counts the statuses."""
    with subprocess.Popen(
        [sys.executable, "-m", "tests.support.large_bodies", address, name, str(clients), str(seconds)],
        cwd=ROOT,
        stdout=subprocess.PIPE,
        text=True,
    ) as process:
        try:
            assert process.stdout is not None
            assert process.stdout.readline() == "sending\n"
            yield process
        finally:
            process.kill()


def _send_in_a_loop(address: str, request: bytes, ends_s: float, statuses: Counter[str]) -> None:
    parts = urlsplit(address)
    assert parts.hostname
    assert parts.port
    while time.monotonic() < ends_s:
        with socket.create_connection((parts.hostname, parts.port), timeout=180) as connection:
            connection.sendall(request)
            statuses[connection.recv(65_536).split(b" ", 2)[1].decode()] += 1
            while connection.recv(1 << 20):
                pass


def _request(body: Body) -> bytes:
    head = (
        f"POST {body.path} HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\nContent-Type: {body.content_type}\r\n"
        f"Content-Encoding: {body.encoding}\r\nContent-Length: {len(body.content)}\r\n\r\n"
    )
    return head.encode() + body.content


def main(address: str, name: str, clients: str, seconds: str) -> None:
    request = _request(BODIES[name]())
    sys.stdout.write("sending\n")
    sys.stdout.flush()
    statuses: Counter[str] = Counter()
    ends_s = time.monotonic() + float(seconds)
    threads = [
        threading.Thread(target=_send_in_a_loop, args=(address, request, ends_s, statuses)) for _ in range(int(clients))
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    sys.stdout.write(json.dumps(statuses))


if __name__ == "__main__":
    main(*sys.argv[1:])
