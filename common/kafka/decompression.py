"""Whether a compressed batch of records is larger than it may be, found without ever holding more than the limit.

Kafka limits batches as they are sent. 96 KiB of zstd may hold a gigabyte, and the driver decompresses a whole batch
before its first record: every worker that reads such a batch would be killed, again and again. So a batch is
decompressed here first, into bytes that end at the limit. That takes as long as the driver takes: 0.6 ms for 900 KB.
"""

from __future__ import annotations

import zlib
from collections.abc import Callable, Mapping
from typing import Final

import cramjam
from aiokafka.codec import _detect_xerial_stream

from common.limits import MIB

DECOMPRESSED_BYTES_MAX: Final = 64 * MIB
"""Producers limit a batch before they compress it, most of them to 1 MiB; a record may have 10 MiB."""

GZIP, SNAPPY, LZ4, ZSTD = 1, 2, 3, 4
"""The codecs of record batches, as Kafka numbers them."""

_GZIP_FORMAT: Final = 31
_GZIP_STEP: Final = MIB
_GZIP_RATIO_MAX: Final = 1_032
_XERIAL_HEADER_BYTES: Final = 16
_LENGTH_BYTES: Final = 4
_FULL: Final = "failed to write whole buffer"
"""What the library says if the bytes end before the content does."""


def is_too_large(codec: int, payload: bytes) -> bool:
    """Return whether the records of a batch have more than ``DECOMPRESSED_BYTES_MAX``.

    Of what cannot be decompressed it returns false: the driver reports it.
    """
    is_larger = _IS_LARGER.get(codec)
    try:
        return is_larger is not None and is_larger(payload)
    except (zlib.error, cramjam.DecompressionError):
        return False


def _is_larger_gzip(payload: bytes) -> bool:
    if len(payload) * _GZIP_RATIO_MAX <= DECOMPRESSED_BYTES_MAX:
        return False
    size, left = 0, payload
    while left:  # further members
        member = zlib.decompressobj(_GZIP_FORMAT)
        while not member.eof:
            found = len(member.decompress(left, _GZIP_STEP))
            size += found
            left = member.unconsumed_tail
            if size > DECOMPRESSED_BYTES_MAX:
                return True
            if not found and not left:
                return False  # cut off
        left = member.unused_data.lstrip(b"\0")  # there may be zeros between members
    return False


def _is_larger_snappy(payload: bytes) -> bool:
    if not _detect_xerial_stream(payload):
        return int(cramjam.snappy.decompress_raw_len(payload)) > DECOMPRESSED_BYTES_MAX
    size, at = 0, _XERIAL_HEADER_BYTES
    while at < len(payload):
        block_at = at + _LENGTH_BYTES
        length = int.from_bytes(payload[at:block_at], "big", signed=True)
        if length < 0:
            return True  # the driver would go back, perhaps forever
        at = block_at + length
        size += int(cramjam.snappy.decompress_raw_len(payload[block_at:at]))
    return size > DECOMPRESSED_BYTES_MAX


def _is_larger_lz4(payload: bytes) -> bool:
    return _does_not_fit(cramjam.lz4.decompress_into, payload)


def _is_larger_zstd(payload: bytes) -> bool:
    return _does_not_fit(cramjam.zstd.decompress_into, payload)


def _does_not_fit(decompress_into: Callable[[bytes, bytearray], int], payload: bytes) -> bool:
    try:
        decompress_into(payload, bytearray(DECOMPRESSED_BYTES_MAX))
    except cramjam.DecompressionError as exc:
        if _FULL in str(exc):
            return True
        raise
    return False


_IS_LARGER: Final[Mapping[int, Callable[[bytes], bool]]] = {
    GZIP: _is_larger_gzip,
    SNAPPY: _is_larger_snappy,
    LZ4: _is_larger_lz4,
    ZSTD: _is_larger_zstd,
}
