"""Record batches as brokers send them, also where the driver refuses a name of a header.

Kafka calls the name of a header a string, and looks at it no closer than at a value: a producer may send any bytes. The driver
(aiokafka 0.14) reads names as UTF-8 alone and fails on a batch with any other, at each try, so that one record would
hold up its partition for ever. Here such a batch is read once more, and what is no UTF-8 in a name is written as ``\\xff``: no header
that anybody asks for is called so, and the record is what its other bytes say.

Source of the format: Kafka's documentation, “Record Batch”.
"""

from __future__ import annotations

import struct
from collections.abc import Callable, Iterator, Mapping
from itertools import islice
from typing import Any, Final, NamedTuple

from aiokafka import codec
from aiokafka.consumer import fetcher
from aiokafka.errors import CorruptRecordException
from aiokafka.record.memory_records import MemoryRecords
from aiokafka.record.util import decode_varint

_LENGTH: Final = struct.Struct(">8xi")
"""Of what follows these twelve bytes; in every version of the format."""

_FRAME: Final = struct.Struct(">qiibIhiqqqhii")
"""Base offset, length, epoch, version, checksum, attributes, last offset, first and last timestamp, producer (three), count."""

_CODEC: Final = 0b111
_BROKER_TIME: Final = 0b1000
_DECOMPRESS: Final[Mapping[int, Callable[[bytes], bytes]]] = {
    0: bytes,
    1: codec.gzip_decode,
    2: codec.snappy_decode,
    3: codec.lz4_decode,
    4: codec.zstd_decode,
}


class BatchRecord(NamedTuple):
    """What the driver takes a record of a batch to be."""

    offset: int
    timestamp: int
    timestamp_type: int
    key: bytes | None
    value: bytes | None
    headers: list[tuple[str, bytes | None]]
    checksum: None = None


class LenientBatches:
    """``MemoryRecords`` of the driver, whose batches are read twice where the driver cannot read them."""

    def __init__(self, data: bytes) -> None:
        self._data = memoryview(data)
        self._batches = MemoryRecords(data)
        self._start = 0

    def size_in_bytes(self) -> int:
        """Of all that the broker sent, with what is left of a last batch that was cut off."""
        size: int = self._batches.size_in_bytes()
        return size

    def has_next(self) -> bool:
        """Whether there is a whole batch left."""
        has_next: bool = self._batches.has_next()
        return has_next

    def next_batch(self) -> Any:
        """The next batch, as the driver wants it."""
        start = self._start
        (length,) = _LENGTH.unpack_from(self._data, start)
        self._start += _LENGTH.size + length
        return _LenientBatch(self._batches.next_batch(), self._data[start : self._start])


class _LenientBatch:
    def __init__(self, batch: Any, data: memoryview) -> None:
        self._batch = batch
        self._data = data

    def __getattr__(self, name: str) -> Any:
        return getattr(self._batch, name)

    def __next__(self) -> Any:
        return next(self._batch)

    def __iter__(self) -> Iterator[Any]:
        count = 0
        try:
            for record in self._batch:
                yield record
                count += 1
        except (UnicodeDecodeError, CorruptRecordException):  # as its compiled part says it, and the other
            yield from islice(records_of(self._data), count, None)


def records_of(batch: memoryview | bytes) -> Iterator[BatchRecord]:
    """The records of one batch, from its first byte. Raises ``CorruptRecordException`` where something else is wrong than names."""
    try:
        base_offset, _, _, version, _, attributes, _, first_ms, last_ms, _, _, _, count = _FRAME.unpack_from(batch)
        if version != 2:
            raise CorruptRecordException(f"a batch of version {version}, which has no headers")
        fields = _Fields(_DECOMPRESS[attributes & _CODEC](bytes(batch[_FRAME.size :])))
        is_broker_time = bool(attributes & _BROKER_TIME)
        for _ in range(count):
            yield _record(fields, base_offset, first_ms, last_ms if is_broker_time else None)
    except (ValueError, IndexError, KeyError, struct.error) as exc:
        raise CorruptRecordException(f"a batch that cannot be read: {exc!r}") from exc


def _record(fields: _Fields, base_offset: int, first_ms: int, broker_ms: int | None) -> BatchRecord:
    ends_at = fields.integer() + fields.at
    fields.integer()  # attributes: none are defined
    sent_ms = first_ms + fields.integer()
    offset = base_offset + fields.integer()
    key, value = fields.data(), fields.data()
    headers = [(fields.name(), fields.data()) for _ in range(fields.integer())]
    if fields.at != ends_at:
        raise ValueError(f"a record that ends at {fields.at}, not at {ends_at}")
    time_ms, time_type = (sent_ms, 0) if broker_ms is None else (broker_ms, 1)
    return BatchRecord(offset, time_ms, time_type, key, value, headers)


class _Fields:
    """What stands one behind the other in records."""

    def __init__(self, data: bytes) -> None:
        self._data = bytearray(data)
        self.at = 0

    def integer(self) -> int:
        number: int
        number, self.at = decode_varint(self._data, self.at)
        return number

    def data(self) -> bytes | None:
        """As many bytes as stand before them; ``None`` for fewer than none."""
        length = self.integer()
        if length < 0:
            return None
        start, self.at = self.at, self.at + length
        if self.at > len(self._data):
            raise ValueError(f"{length} bytes at {start}, of {len(self._data)}")
        return bytes(self._data[start : self.at])

    def name(self) -> str:
        """A text in which every byte that is no UTF-8 is written as ``\\xff``."""
        return (self.data() or b"").decode(errors="backslashreplace")


def read_any_header_names() -> None:
    """Make every consumer of the driver read batches as ``LenientBatches``; it has no place to say so. Safe to call again."""
    fetcher.MemoryRecords = LenientBatches
