"""The partition of a key, as Kafka's own clients choose it (contract §4).

Source: ``org.apache.kafka.common.utils.Utils.murmur2`` and ``BuiltInPartitioner.partitionForKey``. Our own function,
because the processes that prepare records do not load the driver, and because it takes a third of the driver's time.
"""

from __future__ import annotations

from typing import Final

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
