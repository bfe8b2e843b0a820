"""Reading record batches that the driver (aiokafka 0.14) cannot read, or not safely (ADR 0015).

Kafka does not look at header names, so a producer may send any bytes. The driver decodes them strictly and fails on the
whole batch, at every try: one such record would block its partition forever. Here a batch that the driver's compiled
reader refuses is read by the driver's Python reader, with a lenient decoder: a byte that is not UTF-8 becomes
``\\xff``. No header that Clearspan reads has such a name, so the record keeps its meaning.

A batch that is too large when it is decompressed is not read. Readers get one record instead, at its last offset, which
says so and becomes a dead letter.
"""

from __future__ import annotations

from collections.abc import Iterator
from itertools import islice
from typing import Any, Final, SupportsIndex

from aiokafka.consumer import fetcher
from aiokafka.record.default_records import DefaultRecord, _DefaultRecordBatchPy
from aiokafka.record.memory_records import _MemoryRecordsPy
from typing_extensions import override

from common.kafka.decompression import DECOMPRESSED_BYTES_MAX, is_too_large
from common.kafka.record import UNREAD_BATCH_HEADER

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
