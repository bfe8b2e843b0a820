"""Requests that no honest client sends: bytes, and what a server may do with them."""

from __future__ import annotations

import gzip
import json
import struct
import zlib
from collections.abc import Mapping
from typing import Final

_QUERY: Final = b"POST /spans/query HTTP/1.1\r\nHost: localhost\r\n"
HIDDEN: Final = b"GET /hidden HTTP/1.1\r\nHost: localhost\r\n\r\n"
"""A request in the body of another. It must never be answered: that would be smuggling."""


def _with_body(body: bytes, *headers: bytes, path: bytes = b"/spans/query") -> bytes:
    head = [b"POST %s HTTP/1.1" % path, b"Host: localhost", b"Content-Length: %d" % len(body), *headers]
    return b"\r\n".join(head) + b"\r\n\r\n" + body


def _filtering(value: str) -> bytes:
    condition = f'{{"field": "attributes", "key": "a", "operator": "is", "value": {value}}}'
    return _with_body(f'{{"filtering": {{"conditions": [{condition}]}}}}'.encode())


def _gzip_bomb() -> bytes:
    """Return 1 GiB of zeros in gzip: one deflated mebibyte, repeated, as compressing all of it takes seconds."""
    mebibyte = zlib.compressobj(9, wbits=-15)
    block = mebibyte.compress(bytes(1 << 20)) + mebibyte.flush(zlib.Z_FULL_FLUSH)
    last_block = zlib.compressobj(9, wbits=-15).flush()
    return _GZIP_HEADER + block * 1024 + last_block + struct.pack("<II", _CHECKSUM_OF_ZEROS, INFLATED_BYTES)


_GZIP: Final = b"Content-Encoding: gzip"
_GZIP_HEADER: Final = b"\x1f\x8b\x08\x00\x00\x00\x00\x00\x02\xff"
INFLATED_BYTES: Final = 1 << 30
_CHECKSUM_OF_ZEROS: Final = 0x5B64C2B0
"""The CRC-32 of ``INFLATED_BYTES`` zeros."""

GZIP_BOMB: Final = _gzip_bomb()
BODIES: Final[Mapping[str, bytes]] = {
    "arrays 100,000 deep": _with_body(b"[" * 100_000),
    "objects 100,000 deep": _with_body(b'{"filtering":' * 100_000),
    "a value 5,000 deep": _filtering("[" * 5_000 + "]" * 5_000),
    "duplicate keys": _with_body(b'{"windowing": {"limit": 1}, "windowing": {"limit": 2}}'),
    "ten thousand duplicate keys": _with_body(b'{"windowing": null%s}' % (b', "windowing": null' * 10_000)),
    "an exponent beyond doubles": _filtering("1e400"),
    "a million digits": _filtering("9" * 1_000_000),
    "a fraction of a million digits": _filtering("0." + "1" * 1_000_000),
    "a million-digit exponent": _filtering("1e" + "9" * 1_000_000),
    "minus zero": _filtering("-0"),
    "NaN": _filtering("NaN"),
    "Infinity": _filtering("-Infinity"),
    "a lone surrogate": _filtering('"\\ud800"'),
    "a surrogate in a name": _with_body(b'{"\\udfff": 1}'),
    "surrogates as UTF-8": _with_body(b'{"filtering": "\xed\xa0\x80"}'),
    "overlong UTF-8": _with_body(b'{"filtering": "\xc0\x80"}'),
    "U+0000": _filtering('"\\u0000"'),
    "a byte order mark": _with_body(b"\xef\xbb\xbf{}"),
    "UTF-16": _with_body("{}".encode("utf-16")),
    "nothing but spaces": _with_body(b" " * 1_000_000),
    "two documents": _with_body(b"{} {}"),
    "a limit beyond 64 bits": _with_body(b'{"windowing": {"limit": 18446744073709551617}}'),
    "a gzip bomb": _with_body(GZIP_BOMB, _GZIP),
    "a bomb in a bomb": _with_body(gzip.compress(GZIP_BOMB), _GZIP),
    "a bomb of spaces": _with_body(gzip.compress(b" " * 9_000_000 + b"{}"), _GZIP),
    "cut gzip": _with_body(gzip.compress(b'{"windowing": {"limit": 1}}')[:-9], _GZIP),
    "gzip and garbage": _with_body(gzip.compress(b"{}") + b"garbage", _GZIP),
    "not gzip": _with_body(b"{}", _GZIP),
    "a spoiled checksum": _with_body(gzip.compress(b"{}")[:-8] + b"\xff" * 8, _GZIP),
    "deflate": _with_body(zlib.compress(b"{}"), b"Content-Encoding: deflate"),
    "gzip twice": _with_body(gzip.compress(gzip.compress(b"{}")), b"Content-Encoding: gzip, gzip"),
    "spans 1,000 deep": _with_body(
        b'{"spans": [{"trace_id": "5b8efff798038103d269b633813fc60c", "span_id": "eee19b7ec3c1b174", "attributes": %s}]}'
        % (b'{"a": ' * 1_000 + b"1" + b"}" * 1_000),
        path=b"/tracing/spans/ingest",
    ),
    "OTLP of random bytes": _with_body(
        bytes(range(256)) * 400, b"Content-Type: application/x-protobuf", path=b"/v1/traces"
    ),
    "OTLP nested 20,000 deep": _with_body(
        json.dumps({"resourceSpans": []}).encode()[:-1] + b', "x": ' + b"[" * 20_000,
        b"Content-Type: application/json",
        path=b"/v1/traces",
    ),
}
"""Bodies by what is hostile about them: each is answered, and not with 5xx."""

_POST: Final = b"POST /spans/query HTTP/1.1\r\nHost: localhost\r\n"
FRAMINGS: Final[Mapping[str, bytes]] = {
    "length and chunks": _POST + b"Content-Length: 6\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n" + HIDDEN,
    "chunks and length": _POST
    + b"Transfer-Encoding: chunked\r\nContent-Length: 4\r\n\r\n2\r\n{}\r\n0\r\n\r\n"
    + HIDDEN,
    "two lengths": _POST + b"Content-Length: 2\r\nContent-Length: 46\r\n\r\n{}" + HIDDEN,
    "a list of lengths": _POST + b"Content-Length: 2, 46\r\n\r\n{}" + HIDDEN,
    "a signed length": _POST + b"Content-Length: +2\r\n\r\n{}" + HIDDEN,
    "a negative length": _POST + b"Content-Length: -1\r\n\r\n{}" + HIDDEN,
    "a length with an underscore": _POST + b"Content-Length: 0_2\r\n\r\n{}" + HIDDEN,
    "a hexadecimal length": _POST + b"Content-Length: 0x2\r\n\r\n{}" + HIDDEN,
    "a length beyond 64 bits": _POST + b"Content-Length: 18446744073709551618\r\n\r\n{}" + HIDDEN,
    "a space before the colon": _POST + b"Content-Length : 2\r\n\r\n{}" + HIDDEN,
    "a folded header": _POST + b"X: a\r\n Content-Length: 50\r\n\r\n" + HIDDEN,
    "an unknown coding": _POST + b"Transfer-Encoding: xchunked\r\n\r\n0\r\n\r\n" + HIDDEN,
    "chunked and identity": _POST + b"Transfer-Encoding: chunked, identity\r\n\r\n0\r\n\r\n" + HIDDEN,
    "chunked twice": _POST + b"Transfer-Encoding: chunked, chunked\r\n\r\n0\r\n\r\n" + HIDDEN,
    "two codings": _POST + b"Transfer-Encoding: chunked\r\nTransfer-Encoding: x\r\n\r\n0\r\n\r\n" + HIDDEN,
    "a tab before chunked": _POST + b"Transfer-Encoding:\x0bchunked\r\n\r\n0\r\n\r\n" + HIDDEN,
    "a chunk size with a sign": _POST + b"Transfer-Encoding: chunked\r\n\r\n+2\r\n{}\r\n0\r\n\r\n" + HIDDEN,
    "a chunk size beyond 64 bits": _POST
    + b"Transfer-Encoding: chunked\r\n\r\n10000000000000002\r\n{}\r\n0\r\n\r\n"
    + HIDDEN,
    "a chunk that is too long": _POST + b"Transfer-Encoding: chunked\r\n\r\n2\r\n{}xx\r\n0\r\n\r\n" + HIDDEN,
    "a chunk extension without an end": _POST + b"Transfer-Encoding: chunked\r\n\r\n2;" + b"a" * 100_000,
    "a line feed alone": b"POST /spans/query HTTP/1.1\nHost: localhost\nContent-Length: 2\n\n{}" + HIDDEN,
    "a carriage return in a value": _POST + b"X: a\rContent-Length: 50\r\n\r\n" + HIDDEN,
    "HTTP/1.0 with chunks": b"POST /spans/query HTTP/1.0\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n" + HIDDEN,
}
"""Framings that two servers may read differently. Each is followed by ``HIDDEN``."""

HEADS: Final[Mapping[str, bytes]] = {
    "NUL in a path": b"GET /spans/\0 HTTP/1.1\r\nHost: localhost\r\n\r\n",
    "NUL in a header": b"GET /livez HTTP/1.1\r\nHost: localhost\r\nX: a\0b\r\n\r\n",
    "an encoded NUL": b"GET /traces/%00 HTTP/1.1\r\nHost: localhost\r\n\r\n",
    "an encoded NUL among ids": b"GET /applications/%00 HTTP/1.1\r\nHost: localhost\r\n\r\n",
    "half of a percent encoding": b"GET /traces/%e HTTP/1.1\r\nHost: localhost\r\n\r\n",
    "invalid UTF-8": b"GET /traces/%ff%fe HTTP/1.1\r\nHost: localhost\r\n\r\n",
    "raw bytes": b"GET /traces/\xff\xfe HTTP/1.1\r\nHost: localhost\r\n\r\n",
    "steps up": b"GET /ui/../../../../etc/passwd HTTP/1.1\r\nHost: localhost\r\n\r\n",
    "encoded steps up": b"GET /ui/%2e%2e/%2e%2e/%2e%2e/etc/passwd HTTP/1.1\r\nHost: localhost\r\n\r\n",
    "an absolute form": b"GET http://elsewhere.example/livez HTTP/1.1\r\nHost: localhost\r\n\r\n",
    "an absolute form with a user": b"GET http://a:b@[::1]:x/livez HTTP/1.1\r\nHost: localhost\r\n\r\n",
    "an asterisk": b"OPTIONS * HTTP/1.1\r\nHost: localhost\r\n\r\n",
    "CONNECT": b"CONNECT 127.0.0.1:22 HTTP/1.1\r\nHost: localhost\r\n\r\n",
    "an upgrade": b"GET /livez HTTP/1.1\r\nHost: localhost\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n\r\n",
    "HTTP/2 without asking": b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n\0\0\0\x04\0\0\0\0\0",
    "HTTP/0.9": b"GET /livez\r\n\r\n",
    "no path": b"GET  HTTP/1.1\r\nHost: localhost\r\n\r\n",
    "ten thousand headers": b"GET /livez HTTP/1.1\r\nHost: localhost\r\n" + b"a: b\r\n" * 10_000 + b"\r\n",
    "a method of 20,000 letters": b"G" * 20_000 + b" /livez HTTP/1.1\r\nHost: localhost\r\n\r\n",
    "a query of 20,000 letters": b"GET /livez?" + b"a" * 20_000 + b" HTTP/1.1\r\nHost: localhost\r\n\r\n",
    "two thousand parameters": b"GET /spans?" + b"&".join([b"a=1"] * 2_000) + b" HTTP/1.1\r\nHost: localhost\r\n\r\n",
    "two hosts": b"GET /livez HTTP/1.1\r\nHost: localhost\r\nHost: elsewhere\r\n\r\n",
    "an expectation": b"GET /livez HTTP/1.1\r\nHost: localhost\r\nExpect: a-miracle\r\n\r\n",
    "a range": b"GET /openapi.json HTTP/1.1\r\nHost: localhost\r\nRange: bytes=0-,-1,0-0\r\n\r\n",
    "a key that is no text": b"GET /spans HTTP/1.1\r\nHost: localhost\r\nAuthorization: \xff\xfe\r\n\r\n",
    "a request id that is none": b"GET /livez HTTP/1.1\r\nHost: localhost\r\nX-Request-Id: \x7f\xff\r\n\r\n",
    "positions that are none": b"POST /spans/query HTTP/1.1\r\nHost: localhost\r\nX-Clearspan-Wait-For: \xff,,/\r\n\r\n",
}
"""Request lines and headers: each is answered without 5xx, or the connection is closed."""
