"""Batches as brokers send them, read by the driver and by ``LenientBatches``."""

from __future__ import annotations

import gzip
import re
from pathlib import Path

import cramjam
import pytest
from aiokafka.errors import CorruptRecordException
from aiokafka.record.default_records import DefaultRecordBatchBuilder
from aiokafka.record.memory_records import MemoryRecords

from common.kafka.batches import DECOMPRESSED_BYTES_MAX, GZIP, LZ4, SNAPPY, ZSTD, LenientBatches, is_too_large
from common.kafka.record import UNREAD_BATCH_HEADER
from common.limits import MIB
from tests.support.scale import rest_is_long

RECORDS = [
    (b"key", b"value", [("a", b"1"), ("\N{SNOWMAN}", b"\xff"), ("none", None)]),
    (None, None, []),
    (b"", b"", [("", b"")]),
    (None, b"x" * 100_000, [("name", b"n" * 5_000)]),
]
NOT_UTF8 = b"n\xff\xfeme"
COMPRESSIONS = [0, 1, 2, 3, 4]


def batch(records=RECORDS, *, compression=0, first_offset=0) -> bytes:
    """A batch as the driver writes it."""
    builder = DefaultRecordBatchBuilder(2, compression, False, -1, -1, -1, 2**31 - 1)
    for number, (key, value, headers) in enumerate(records):
        assert builder.append(number, timestamp=1_700_000_000_000 + number, key=key, value=value, headers=headers)
    written = bytearray(builder.build())
    written[0:8] = first_offset.to_bytes(8, "big")
    return bytes(written)


def renamed(data: bytes) -> bytes:
    """The batch with the header name ``nnnme`` replaced by one that is not UTF-8."""
    assert data.count(b"nnnme") == 1
    return data.replace(b"nnnme", NOT_UTF8)


def members(records):
    return [
        (record.offset, record.timestamp, record.timestamp_type, record.key, record.value, list(record.headers))
        for record in records
    ]


def read(data: bytes, kind):
    batches, records = kind(data), []
    while batches.has_next():
        records += members(batches.next_batch())
    return records


@pytest.mark.parametrize("compression", COMPRESSIONS)
def test_batch_is_read_as_the_driver_reads_it(compression: int):
    data = batch(compression=compression, first_offset=2**40)

    assert read(data, LenientBatches) == read(data, MemoryRecords)


def test_header_name_that_is_not_utf8_rejects_no_record():
    bad = (b"k", b"v", [("before", b"1"), ("nnnme", b"2")])
    data = (
        renamed(batch([RECORDS[0], bad, RECORDS[0]]))
        + batch(RECORDS, first_offset=3)
        + renamed(batch([bad], first_offset=7))
    )

    with pytest.raises(UnicodeDecodeError):
        read(data, MemoryRecords)
    records = read(data, LenientBatches)

    assert [record[0] for record in records] == list(range(8))
    assert records[1][3:] == (b"k", b"v", [("before", b"1"), ("n\\xff\\xfeme", b"2")])
    assert records[0][3:] == records[2][3:] == records[3][3:] == RECORDS[0]


def test_broker_timestamp_is_kept_by_the_lenient_reader():
    data = bytearray(renamed(batch([(None, b"v", [("nnnme", b"")]), RECORDS[0]])))
    data[22] |= 0b1000

    records = read(bytes(data), LenientBatches)

    assert {(record[1], record[2]) for record in records} == {(1_700_000_000_001, 1)}


@pytest.mark.parametrize("broken", [slice(61, 62), slice(61, 66), slice(65, 70)])
def test_otherwise_corrupt_batch_is_corrupt(broken: slice):
    data = bytearray(batch([RECORDS[0]]))
    data[broken] = b"\xff" * (broken.stop - broken.start)

    with pytest.raises(CorruptRecordException):
        read(bytes(data), LenientBatches)


def test_truncated_batch_is_left_for_the_next_response():
    data = batch([RECORDS[0]]) + batch([RECORDS[1]], first_offset=1)[:-1]

    batches = LenientBatches(data)

    assert members(batches.next_batch()) == read(batch([RECORDS[0]]), MemoryRecords)
    assert not batches.has_next()
    assert batches.size_in_bytes() == len(data)


def peak_bytes() -> int:
    """The most memory that this process has had since ``forget_peak``."""
    (found,) = re.findall(r"VmHWM:\s+(\d+)", Path("/proc/self/status").read_text())
    return int(found) * 1024


def forget_peak() -> None:
    Path("/proc/self/clear_refs").write_text("5")


@pytest.mark.parametrize("compression", rest_is_long([4, 1, 2, 3]))
def test_batch_that_is_too_large_when_it_is_decompressed_is_one_record(compression: int):
    count = 22 if compression == SNAPPY else 40
    data = batch([(None, bytes(10 * MIB), [])] * count, compression=compression, first_offset=7)
    later = batch([(None, b"later", [])], first_offset=7 + count)
    forget_peak()
    before = peak_bytes()

    unread, after = read(data + later, LenientBatches)

    assert peak_bytes() - before < DECOMPRESSED_BYTES_MAX + 3 * len(data) + 16 * MIB
    assert (unread[0], unread[5]) == (7 + count - 1, [(UNREAD_BATCH_HEADER, b"")])
    assert f"offsets 7 to {7 + count - 1} were not read: their batch has {len(data)} bytes" in unread[4].decode()
    assert after[4] == b"later"


BOMB = gzip.compress(bytes(DECOMPRESSED_BYTES_MAX + 1))
XERIAL = bytes((0x82, *b"SNAPPY", 0, 0, 0, 0, 1, 0, 0, 0, 1))


@pytest.mark.parametrize(
    ("codec", "payload"),
    [
        (GZIP, gzip.compress(b"first") + BOMB),
        (GZIP, gzip.compress(b"first") + bytes(100) + BOMB),
        (GZIP, gzip.compress(bytes(DECOMPRESSED_BYTES_MAX // 2)) * 3),
        (ZSTD, bytes(cramjam.zstd.compress(bytes(DECOMPRESSED_BYTES_MAX // 2))) * 3),
        (LZ4, bytes(cramjam.lz4.compress(bytes(DECOMPRESSED_BYTES_MAX // 2))) * 3),
        (SNAPPY, XERIAL + (-4).to_bytes(4, "big", signed=True) + b"x" * 100),
    ],
    ids=["gzip member", "after zeros", "gzip members", "zstd frames", "lz4 frames", "snappy that goes back"],
)
def test_content_is_measured_as_the_driver_reads_it(codec: int, payload: bytes):
    assert is_too_large(codec, payload)


@pytest.mark.parametrize("compression", rest_is_long(COMPRESSIONS))
def test_batch_below_the_limit_is_read(compression: int):
    data = batch([(None, bytes(10 * MIB), [])] * 6, compression=compression)

    assert len(read(data, LenientBatches)) == 6


@pytest.mark.parametrize("compression", [1, 2, 3, 4])
def test_batch_that_cannot_be_decompressed_is_reported_by_the_driver(compression: int):
    data = bytearray(batch([(None, b"x" * 300_000, [])], compression=compression))
    data[70:] = bytes(len(data) - 70)

    with pytest.raises(Exception, match=r".") as expected:
        read(bytes(data), MemoryRecords)
    with pytest.raises(type(expected.value)):
        read(bytes(data), LenientBatches)
