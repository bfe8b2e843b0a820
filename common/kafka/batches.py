"""Reading record batches that the driver (aiokafka 0.14) cannot read, or not safely (ADR 0015).

Kafka does not look at header names, so a producer may send any bytes. The driver decodes them strictly and fails on the
whole batch, at every try: one such record would block its partition forever. Here a batch that the driver's compiled
reader refuses is read by the driver's Python reader, with a lenient decoder: a byte that is not UTF-8 becomes
``\\xff``. No header that Clearspan reads has such a name, so the record keeps its meaning.

A batch that is too large when it is decompressed is not read. Readers get one record instead, at its last offset, which
says so and becomes a dead letter. Kafka limits batches as they are sent: 96 KiB of zstd may hold a gigabyte, and the
driver decompresses a whole batch before its first record, so every worker that reads such a batch would be killed,
again and again. A batch is decompressed here first, into bytes that end at the limit. That takes as long as the driver
takes: 0.6 ms for 900 KB.
"""

from __future__ import annotations

import zlib
from collections.abc import Callable, Iterator, Mapping
from itertools import islice
from typing import Any, Final, SupportsIndex

import cramjam
from aiokafka.codec import _detect_xerial_stream
from aiokafka.consumer import fetcher
from aiokafka.record.default_records import DefaultRecord, _DefaultRecordBatchPy
from aiokafka.record.memory_records import _MemoryRecordsPy
from typing_extensions import override

from common.kafka.record import UNREAD_BATCH_HEADER
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


_HEADER_BYTES: Final = _DefaultRecordBatchPy.HEADER_STRUCT.size


class LenientBatches(_MemoryRecordsPy):  # type: ignore[misc] # the driver ships no types
    """The driver's ``MemoryRecords``; its batches fall back to the lenient reader."""

    @override
    def next_batch(self, *_: Any) -> Any:
        """Return the next whole batch, or ``None``."""
        data = self._next_slice
        batch = super().next_batch()
        return batch if data is None or batch.magic < 2 else _LenientBatch(batch, data)


class _LenientBatch:
    def __init__(self, batch: Any, data: memoryview) -> None:
        self._batch = batch
        self._data = data

    def __getattr__(self, name: str) -> Any:
        return getattr(self._batch, name)

    def __next__(self) -> Any:
        return next(self._batch)

    def __iter__(self) -> Iterator[Any]:
        codec = self._batch.compression_type
        if codec and is_too_large(codec, self._data[_HEADER_BYTES:].tobytes()):
            yield self._unread()
            return
        count = 0
        try:
            for record in self._batch:
                yield record
                count += 1
        except UnicodeDecodeError:
            batch = iter(_DefaultRecordBatchPy(self._data))  # decompresses
            batch._buffer = _LenientBuffer(batch._buffer)
            yield from islice(batch, count, None)

    def _unread(self) -> Any:
        first, last = self._batch.base_offset, self._batch.next_offset - 1
        value = (
            f"The records of offsets {first} to {last} were not read: their batch has {len(self._data)} bytes, and more"
            f" than {DECOMPRESSED_BYTES_MAX} when it is decompressed."
        )
        return DefaultRecord(last, self._batch.max_timestamp, 0, None, value.encode(), [(UNREAD_BATCH_HEADER, b"")])


class _LenientBuffer(bytearray):
    """Bytes whose slices decode every text."""

    @override
    def __getitem__(self, index: SupportsIndex | slice) -> Any:
        found = super().__getitem__(index)
        return _LenientBuffer(found) if isinstance(found, bytearray) else found

    @override
    def decode(self, encoding: str = "utf-8", _errors: str = "strict") -> str:
        return super().decode(encoding, errors="backslashreplace")


def read_any_header_names() -> None:
    """Make every consumer of the driver read batches as ``LenientBatches``. Safe to call again."""
    fetcher.MemoryRecords = LenientBatches
