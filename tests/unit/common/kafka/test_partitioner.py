"""Keys go where Kafka's own clients send them."""

from __future__ import annotations

import pytest
from aiokafka.partitioner import DefaultPartitioner
from aiokafka.partitioner import murmur2 as murmur2_of_driver
from hypothesis import given
from hypothesis import strategies as st

from query_api.intake.records import murmur2, partition_of


@pytest.mark.parametrize(
    ("key", "signed"),
    [
        (b"21", -973932308),
        (b"foobar", -790332482),
        (b"a-little-bit-long-string", -985981536),
        (b"a-little-bit-longer-string", -1486304829),
        (b"lkjh234lh9fiuh90y23oiuhsafujhadof229phr9h19h89h8", -58897971),
        (b"abc", 479470107),
    ],
)
def test_hash_is_the_one_of_kafka(key: bytes, signed: int) -> None:
    """The pairs are from ``UtilsTest`` of Apache Kafka."""
    assert murmur2(key) == signed & 0xFFFFFFFF


@given(key=st.binary(max_size=40), count=st.integers(1, 1_000))
def test_partition_is_the_one_of_the_driver(key: bytes, count: int) -> None:
    assert murmur2(key) == murmur2_of_driver(key)
    assert partition_of(key, count) == DefaultPartitioner()(key, list(range(count)), [])
