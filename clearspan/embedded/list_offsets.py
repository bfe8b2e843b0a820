"""Corrects how the embedded broker answers ListOffsets.

Asked for the latest offset of a partition, Kafka returns the offset after the last record. The broker returns the
offset after the first record of the last batch. The high watermark in its Fetch responses is right, so the proxy
fetches that and patches the response.

Source of the layouts: Kafka protocol guide, ListOffsets (versions 1 to 9) and Fetch (version 4).
"""

from __future__ import annotations

import asyncio
import struct
from collections.abc import Collection, Mapping
from dataclasses import dataclass
from itertools import groupby
from typing import Any, Final, TypeAlias

from clearspan.embedded.ports import LOOPBACK

LIST_OFFSETS: Final = 2
_FETCH: Final = 1
_FETCH_VERSION: Final = 4
_FIRST_FLEXIBLE_VERSION: Final = 6
"""From this version of ListOffsets on, lengths are varints and structures end in tagged fields."""

_LATEST: Final = -1
_PAST_EVERY_END: Final = 2**62
"""A fetch from here returns the high watermark and no records."""

_MAX_WAIT_MS: Final = 1
"""With 0, the broker leaves out the partitions."""

TopicPartition: TypeAlias = tuple[bytes, int]


@dataclass(frozen=True, slots=True)
class LatestOffsets:
    """A ListOffsets request: its version, and the partitions whose latest offset it asks for."""

    version: int
    partitions: frozenset[TopicPartition]

    @staticmethod
    def of(request: bytes) -> LatestOffsets:
        """Read a request, without its length. Raises ``struct.error`` or ``IndexError`` if it is too short."""
        version, _, client_id_length = struct.unpack_from(">hih", request, 2)
        if version == 0:  # another layout, which clients since Kafka 0.10.1 do not use
            return LatestOffsets(version, frozenset())
        fields = _Fields(request, start=10 + max(client_id_length, 0), is_flexible=version >= _FIRST_FLEXIBLE_VERSION)
        fields.end()
        fields.number("i" if version < 2 else "ib")  # replica, isolation level
        latest = set()
        for _ in range(fields.count()):
            topic = fields.text()
            for _ in range(fields.count()):
                partition, *_, timestamp = fields.numbers("iq" if version < 4 else "iiq")
                if timestamp == _LATEST:
                    latest.add((topic, partition))
                fields.end()
            fields.end()
        return LatestOffsets(version, frozenset(latest))

    def correct(self, response: bytearray, high_watermarks: Mapping[TopicPartition, int]) -> None:
        """Raise the latest offsets in a response, without its length, to the high watermarks."""
        fields = _Fields(response, start=4, is_flexible=self.version >= _FIRST_FLEXIBLE_VERSION)
        fields.end()
        if self.version >= 2:
            fields.number("i")  # throttle time
        for _ in range(fields.count()):
            topic = fields.text()
            for _ in range(fields.count()):
                partition, _error, _timestamp = fields.numbers("ihq")
                at = fields.at
                offset = fields.number("q")
                if (topic, partition) in self.partitions:
                    struct.pack_into(">q", response, at, max(offset, high_watermarks.get((topic, partition), 0)))
                if self.version >= 4:
                    fields.number("i")  # leader epoch
                fields.end()
            fields.end()


async def fetch_high_watermarks(port: int, partitions: Collection[TopicPartition]) -> dict[TopicPartition, int]:
    """Ask the broker on ``port`` of loopback for the high watermarks. Raises ``OSError`` or ``IncompleteReadError``."""
    reader, writer = await asyncio.open_connection(LOOPBACK, port)
    try:
        request = _fetch_request(partitions)
        writer.write(struct.pack(">i", len(request)) + request)
        (length,) = struct.unpack(">i", await reader.readexactly(4))
        return _high_watermarks(await reader.readexactly(length))
    finally:
        writer.close()


def _fetch_request(partitions: Collection[TopicPartition]) -> bytes:
    topics = [(topic, list(group)) for topic, group in groupby(sorted(partitions), key=lambda partition: partition[0])]
    request = struct.pack(">hhih", _FETCH, _FETCH_VERSION, 0, -1)
    request += struct.pack(">iiiibi", -1, _MAX_WAIT_MS, 0, 1, 0, len(topics))
    for topic, group in topics:
        request += struct.pack(">h", len(topic)) + topic + struct.pack(">i", len(group))
        request += b"".join(struct.pack(">iqi", partition, _PAST_EVERY_END, 1) for _, partition in group)
    return request


def _high_watermarks(response: bytes) -> dict[TopicPartition, int]:
    fields = _Fields(response, start=8, is_flexible=False)
    high_watermarks = {}
    for _ in range(fields.count()):
        topic = fields.text()
        for _ in range(fields.count()):
            partition, _error, high_watermark, _stable, aborted_count = fields.numbers("ihqqi")
            fields.skip(16 * max(aborted_count, 0))
            fields.skip(max(fields.number("i"), 0))  # records
            high_watermarks[topic, partition] = high_watermark
    return high_watermarks


class _Fields:
    """Reads the fields of a message one after the other."""

    def __init__(self, data: bytes | bytearray, *, start: int, is_flexible: bool) -> None:
        self._data = data
        self._is_flexible = is_flexible
        self.at = start

    def numbers(self, layout: str) -> tuple[Any, ...]:
        found = struct.unpack_from(f">{layout}", self._data, self.at)
        self.at += struct.calcsize(f">{layout}")
        return found

    def number(self, layout: str) -> int:
        return int(self.numbers(layout)[0])

    def skip(self, length: int) -> None:
        self.at += length

    def count(self) -> int:
        return self._varint() - 1 if self._is_flexible else self.number("i")

    def text(self) -> bytes:
        length = self._varint() - 1 if self._is_flexible else self.number("h")
        start, self.at = self.at, self.at + length
        return bytes(self._data[start : self.at])

    def end(self) -> None:
        """Pass the tagged fields at the end of a structure."""
        for _ in range(self._varint() if self._is_flexible else 0):
            self._varint()
            self.skip(self._varint())

    def _varint(self) -> int:
        number = shift = 0
        while True:
            byte = self._data[self.at]
            self.at += 1
            number |= (byte & 0x7F) << shift
            shift += 7
            if byte < 0x80:
                return number
