from __future__ import annotations

import gzip
import random
import zlib

import pytest

from common.errors import InvalidInput, TooLarge, UnsupportedMedia
from query_api.http.body import SLICE_BYTES, compress, inflate, inflate_by_magic, takes_gzip

TEXT = b"spans " * 100
ZIPPED = gzip.compress(TEXT, mtime=0)


@pytest.mark.parametrize("content_encoding", ["gzip", "x-gzip", " GZIP "])
def test_all_members_of_gzip_are_inflated(content_encoding: str) -> None:
    body = gzip.compress(TEXT) + gzip.compress(b"more")

    assert inflate(body, content_encoding=content_encoding, bytes_max=10_000) == TEXT + b"more"


@pytest.mark.timeout(10)
def test_time_to_inflate_a_member_depends_only_on_its_length() -> None:
    """A second; it was more than a minute, in which nobody was answered."""
    body = gzip.compress(b"", mtime=0) * 400_000 + ZIPPED

    assert inflate(body, content_encoding="gzip", bytes_max=10_000) == TEXT


@pytest.mark.parametrize("cut", range(1, len(ZIPPED), 7))
def test_member_may_end_anywhere_in_a_slice(cut: int) -> None:
    padding = gzip.compress(random.Random(1).randbytes(SLICE_BYTES - cut), mtime=0)
    begun = zlib.decompressobj(16 + zlib.MAX_WBITS).decompress(padding)

    assert inflate(padding + ZIPPED, content_encoding="gzip", bytes_max=10_000) == begun + TEXT
    with pytest.raises(InvalidInput, match="ends early"):
        inflate(padding + ZIPPED[:cut], content_encoding="gzip", bytes_max=10_000)


def test_inflated_size_may_equal_the_limit_but_not_exceed_it() -> None:
    body = gzip.compress(TEXT)

    assert inflate(body, content_encoding="gzip", bytes_max=len(TEXT)) == TEXT
    with pytest.raises(TooLarge):
        inflate(body, content_encoding="gzip", bytes_max=len(TEXT) - 1)


def test_gzip_bomb_is_rejected_before_it_is_inflated() -> None:
    bomb = gzip.compress(bytes(50_000_000))

    with pytest.raises(TooLarge, match="larger than 1000 bytes when inflated"):
        inflate(bomb, content_encoding="gzip", bytes_max=1_000)


@pytest.mark.parametrize("body", [b"plain", ZIPPED[:-9], ZIPPED + b"rest"])
def test_invalid_gzip_is_rejected(body: bytes) -> None:
    with pytest.raises(InvalidInput):
        inflate(body, content_encoding="gzip", bytes_max=10_000)


@pytest.mark.parametrize("content_encoding", ["br", "deflate", "zstd", "gzip, gzip"])
def test_other_encodings_are_unsupported(content_encoding: str) -> None:
    with pytest.raises(UnsupportedMedia, match="allowed: gzip, identity"):
        inflate(TEXT, content_encoding=content_encoding, bytes_max=10_000)


@pytest.mark.parametrize("body", [TEXT, ZIPPED, *(zlib.compress(TEXT, level) for level in (0, 1, 6, 9))])
def test_compression_is_recognized_by_its_first_bytes(body: bytes) -> None:
    assert inflate_by_magic(body, bytes_max=10_000) == TEXT


@pytest.mark.parametrize(
    ("accept_encoding", "expected"),
    [
        ("", False),
        ("gzip", True),
        ("deflate, gzip;q=0.5", True),
        ("*", True),
        ("gzip;q=0", False),
        ("gzip; q=0.0, *", False),
        ("br", False),
    ],
)
def test_gzip_is_sent_only_to_clients_that_accept_it(accept_encoding: str, expected: bool) -> None:
    assert takes_gzip(accept_encoding) is expected


@pytest.mark.parametrize("length", [1_000, 200_000])
async def test_inflate_reverses_compress(length: int) -> None:
    body = TEXT * (length // len(TEXT))

    assert gzip.decompress(await compress(body)) == body
