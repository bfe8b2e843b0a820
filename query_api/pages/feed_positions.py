"""Where a reader of the feed stands: one place in each partition_id, which is what its cursor holds (ADR 0007).

::

    entry of a partition_id = first 8 bytes of the SHA-256 of its name │ offset │ span index + 1, or 0 for the whole record

Offset and index are variable-length integers, so a partition_id costs about 14 bytes. Offsets take five bytes at least: the size of a cursor must
not show how many records of all projects a partition_id holds. A partition_id that has no entry is at its beginning.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterator, Mapping
from typing import Final, NamedTuple

from common.errors import InvalidCursor, Unavailable

PARTITIONS_MAX: Final = 4_000
"""In one cursor: up to 100 KB of text. Kafka's logs are topics times partitions; the embedded broker adds some at each start."""

WHOLE_RECORD: Final = 2**32
"""Behind every span that a record can hold."""

_ID_BYTES: Final = 8
_SEVEN_BITS: Final = 0x7F
_MORE: Final = 0x80
_VARINT_BYTES_MAX: Final = 10
_OFFSET_BYTES_MIN: Final = 5


class Place(NamedTuple):
    """A span in its log: the last one that a reader has gone past."""

    record_offset: int
    span_index: int


class Positions:
    """The places of one reader, by log. A value: moving makes another."""

    def __init__(self, places: Mapping[bytes, Place] | None = None) -> None:
        self._places = dict(places or {})

    def after(self, partition_id: str) -> Place | None:
        """What the reader has gone past in this log; ``None`` at its beginning."""
        return self._places.get(_id(partition_id))

    def moved(self, places: Mapping[str, Place]) -> Positions:
        """The same reader, further on in these logs."""
        return Positions({**self._places, **{_id(partition_id): place for partition_id, place in places.items()}})

    def pack(self) -> bytes:
        """As it stands in a cursor. Raises ``Unavailable`` past ``PARTITIONS_MAX``."""
        if len(self._places) > PARTITIONS_MAX:
            raise Unavailable(
                f"This project has spans of more than {PARTITIONS_MAX} logs, which is what a cursor can hold."
            )
        return b"".join(
            each
            + _varint(place.record_offset, bytes_min=_OFFSET_BYTES_MIN)
            + _varint(0 if place.span_index == WHOLE_RECORD else place.span_index + 1)
            for each, place in sorted(self._places.items())
        )

    @classmethod
    def unpack(cls, packed: bytes) -> Positions:
        """What ``pack`` wrote. Raises ``InvalidCursor``."""
        try:
            return cls(dict(_entries(packed)))
        except (IndexError, ValueError) as exc:
            raise InvalidCursor("The cursor in windowing.next cannot be read.") from exc


def _id(partition_id: str) -> bytes:
    return hashlib.sha256(partition_id.encode()).digest()[:_ID_BYTES]


def _entries(packed: bytes) -> Iterator[tuple[bytes, Place]]:
    at = 0
    while at < len(packed):
        partition_hash = packed[at : at + _ID_BYTES]
        offset, at = _read_varint(packed, at + _ID_BYTES)
        index, at = _read_varint(packed, at)
        yield partition_hash, Place(offset, index - 1 if index else WHOLE_RECORD)


def _varint(number: int, *, bytes_min: int = 1) -> bytes:
    written = bytearray()
    while number > _SEVEN_BITS or len(written) < bytes_min - 1:
        written.append(number & _SEVEN_BITS | _MORE)
        number >>= 7
    written.append(number)
    return bytes(written)


def _read_varint(packed: bytes, at: int) -> tuple[int, int]:
    number = 0
    for nth in range(_VARINT_BYTES_MAX):
        byte = packed[at + nth]
        number |= (byte & _SEVEN_BITS) << 7 * nth
        if not byte & _MORE:
            return number, at + nth + 1
    raise ValueError("a number longer than 64 bits")
