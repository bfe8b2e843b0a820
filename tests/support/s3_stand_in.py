"""A stand-in for S3: what the engine's disk ``s3`` asks of it, kept in memory, with a delay before each answer.

Unlike moto it can delay and refuse every request. ``python -m tests.support.s3_stand_in 20`` prints its address and
serves with a delay of 20 ms until its standard input ends.
"""

from __future__ import annotations

import re
import sys
import threading
import time
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Final
from urllib.parse import parse_qs, unquote, urlsplit

RANGE: Final = re.compile(r"bytes=(\d+)-(\d*)")
KEY: Final = re.compile(rb"<Key>([^<]+)</Key>")
PART: Final = re.compile(rb"<PartNumber>(\d+)</PartNumber>")


class S3StandIn:
    """Objects by path, and how many requests of each method came."""

    def __init__(self, *, delay_s: float = 0.0) -> None:
        self.delay_s = delay_s
        self.is_failing = False
        """Whether every request is refused."""
        self.objects: dict[str, bytes] = {}
        self.parts: dict[tuple[str, int], bytes] = {}
        """The parts of uploads that are not complete, by upload and number."""
        self.requests: Counter[str] = Counter()
        self._server = _Server(("127.0.0.1", 0), type("Handler", (_Handler,), {"stand_in": self}))
        threading.Thread(target=self._server.serve_forever, args=(0.05,), daemon=True).start()

    @property
    def bucket(self) -> str:
        """The address of a bucket."""
        return f"http://127.0.0.1:{self._server.server_port}/cold"

    def stop(self) -> None:
        """Refuse connections from now on."""
        self._server.shutdown()
        self._server.server_close()


class _Server(ThreadingHTTPServer):
    daemon_threads = True

    def handle_error(self, *_: object) -> None:
        """Say nothing: the engine that is killed resets its connections."""


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    stand_in: S3StandIn

    def do_GET(self) -> None:
        path, _ = self._asked()
        content = self.stand_in.objects.get(path)
        if content is None:
            self._answer(404, b"<Error><Code>NoSuchKey</Code></Error>")
            return
        wanted = RANGE.fullmatch(self.headers.get("Range", ""))
        if wanted is None:
            self._answer(200, content)
            return
        first, last = int(wanted[1]), int(wanted[2] or len(content) - 1)
        part = content[first : last + 1]
        self._answer(206, part, {"Content-Range": f"bytes {first}-{first + len(part) - 1}/{len(content)}"})

    def do_HEAD(self) -> None:
        path, _ = self._asked()
        content = self.stand_in.objects.get(path)
        self._answer(404 if content is None else 200, content or b"")

    def do_PUT(self) -> None:
        path, query = self._asked()
        body = self._body()
        if "uploadId" in query:
            self.stand_in.parts[query["uploadId"], int(query["partNumber"])] = body
        else:
            self.stand_in.objects[path] = body
        self._answer(200, b"", {"ETag": '"e"'})

    def do_POST(self) -> None:
        path, query = self._asked()
        body = self._body()
        if "delete" in query:
            for key in KEY.findall(body):
                self.stand_in.objects.pop(f"/cold/{key.decode()}", None)
            self._answer(200, b"<DeleteResult/>")
        elif "uploads" in query:
            upload = f"<UploadId>{time.monotonic_ns()}</UploadId>"
            self._answer(200, f"<InitiateMultipartUploadResult>{upload}</InitiateMultipartUploadResult>".encode())
        else:
            numbers = map(int, PART.findall(body))
            self.stand_in.objects[path] = b"".join(
                self.stand_in.parts.pop((query["uploadId"], number)) for number in numbers
            )
            self._answer(200, b'<CompleteMultipartUploadResult><ETag>"e"</ETag></CompleteMultipartUploadResult>')

    def do_DELETE(self) -> None:
        path, _ = self._asked()
        self.stand_in.objects.pop(path, None)
        self._answer(204, b"")

    def _asked(self) -> tuple[str, dict[str, str]]:
        """Return the path and the query, after the delay."""
        self.stand_in.requests[self.command] += 1
        time.sleep(self.stand_in.delay_s)
        url = urlsplit(self.path)
        query = parse_qs(url.query, keep_blank_values=True)
        return unquote(url.path), {name: values[0] for name, values in query.items()}

    def _body(self) -> bytes:
        return self.rfile.read(int(self.headers.get("Content-Length", "0")))

    def _answer(self, status: int, body: bytes, headers: dict[str, str] | None = None) -> None:
        if self.stand_in.is_failing:
            status, body = 403, b"<Error><Code>AccessDenied</Code></Error>"
        self.send_response(status)
        for name, value in (headers or {}).items():
            self.send_header(name, value)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        if self.command != "HEAD":
            self.wfile.write(body)

    def log_message(self, *_: object) -> None:
        """Say nothing."""


@contextmanager
def s3_stand_in(*, delay_s: float = 0.0) -> Iterator[S3StandIn]:
    """A stand-in in a thread of this process."""
    stand_in = S3StandIn(delay_s=delay_s)
    try:
        yield stand_in
    finally:
        stand_in.stop()


if __name__ == "__main__":
    with s3_stand_in(delay_s=float(sys.argv[1]) / 1_000) as serving:
        sys.stdout.write(f"{serving.bucket}\n")
        sys.stdout.flush()
        sys.stdin.read()
