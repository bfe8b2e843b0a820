"""The records of a request: one per partition, with all its traces whose ids Kafka's default partitioner sends there
(contract §4, ADR 0030).

The partition of a key is computed here as ``org.apache.kafka.common.utils.Utils.murmur2`` and
``BuiltInPartitioner.partitionForKey`` do: the processes that prepare records do not load the driver, and it takes a
third of the driver's time.
"""

from __future__ import annotations

from array import array
from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import accumulate
from typing import Any, Final, NamedTuple

from common.children.child import packed
from common.limits import MIB
from common.steps import Steps

_SEED: Final = 0x9747B28C
_M: Final = 0x5BD1E995
_MASK: Final = 0xFFFFFFFF


def partition_of(key: bytes, partitions_count: int) -> int:
    """Return the partition to which Kafka's default partitioner sends a record with this key."""
    return (murmur2(key) & 0x7FFFFFFF) % partitions_count


def murmur2(key: bytes) -> int:
    """Return Kafka's hash of a key as an unsigned number of 32 bits."""
    size = len(key)
    rest_at = size & ~3
    hashed = _SEED ^ size
    for at in range(0, rest_at, 4):
        word = int.from_bytes(key[at : at + 4], "little") * _M & _MASK
        word = (word ^ word >> 24) * _M & _MASK
        hashed = hashed * _M & _MASK ^ word
    if rest_at < size:
        hashed = (hashed ^ int.from_bytes(key[rest_at:], "little")) * _M & _MASK
    hashed = (hashed ^ hashed >> 13) * _M & _MASK
    return hashed ^ hashed >> 15


TRACES_PER_STEP: Final = 256
"""Traces whose partition is computed in one step: a millisecond."""

_BLOCK_BYTES: Final = MIB
_ID_BYTES: Final = 16
_UNCHOSEN: Final = -1


class Destination(NamedTuple):
    """Where a trace goes: its partition; or the trace itself, if Kafka's client has to choose its partition."""

    partition: int | None
    trace_id: bytes | None


def destinations_of(trace_ids: Iterable[bytes], partitions_count: int | None) -> Steps[Mapping[bytes, Destination]]:
    """Return where each trace goes. Traces with equal destinations share a record.

    ``partitions_count`` is ``None`` before the publisher has asked the broker: then each trace is a record.
    """
    if partitions_count is None:
        return {trace_id: Destination(None, trace_id) for trace_id in trace_ids}
    destinations = {}
    for count, trace_id in enumerate(set(trace_ids), 1):
        destinations[trace_id] = Destination(partition_of(trace_id, partitions_count), None)
        if not count % TRACES_PER_STEP:
            yield
    return destinations


class IntakeRecord(NamedTuple):
    """The encoded spans of the traces of one partition.

    ``key`` is the id of the first trace, so that a span of the record that is published again alone (a dead letter)
    goes to the same partition. ``partition`` is ``None`` if Kafka's client chooses it by the key.
    """

    key: bytes
    value: bytes
    partition: int | None = None


class IntakeRecords:
    """A sequence of ``IntakeRecord`` in a few large byte strings.

    Requests with up to 140,000 traces are sent between processes without that many objects. Each block holds the values
    of as many records as its entry in ``sizes`` has sizes, one after another.
    """

    def __init__(
        self, keys: bytes, partitions: array[int], sizes: Sequence[array[int]], blocks: Sequence[bytes]
    ) -> None:
        self._keys = keys
        self._partitions = partitions
        self._sizes = sizes
        self._blocks = blocks

    @classmethod
    def of(cls, records: Sequence[IntakeRecord]) -> IntakeRecords:
        """Pack the records."""
        sizes: list[array[int]] = []
        blocks: list[bytes] = []
        for start, end in _blocks_of(records):
            sizes.append(array("Q", (len(record.value) for record in records[start:end])))
            blocks.append(b"".join(record.value for record in records[start:end]))
        partitions = array("i", (_UNCHOSEN if each.partition is None else each.partition for each in records))
        return cls(b"".join(record.key for record in records), partitions, sizes, blocks)

    def __len__(self) -> int:
        return len(self._partitions)

    def __iter__(self) -> Iterator[IntakeRecord]:
        """Unpack the records in order, one at a time."""
        at = 0
        for sizes, block in zip(self._sizes, self._blocks, strict=True):
            start = 0
            for end in accumulate(sizes):
                key = self._keys[at * _ID_BYTES : (at + 1) * _ID_BYTES]
                partition = self._partitions[at]
                yield IntakeRecord(key, block[start:end], None if partition == _UNCHOSEN else partition)
                start, at = end, at + 1

    def __reduce__(self) -> tuple[Any, ...]:
        blocks = [packed(block) for block in self._blocks]
        return IntakeRecords, (packed(self._keys), self._partitions, self._sizes, blocks)


def _blocks_of(records: Sequence[IntakeRecord]) -> Iterator[tuple[int, int]]:
    """Return the bounds of each block; the record that fills a block ends it."""
    start = bytes_count = 0
    for index, record in enumerate(records, 1):
        bytes_count += len(record.value)
        if bytes_count >= _BLOCK_BYTES or index == len(records):
            yield start, index
            start, bytes_count = index, 0
