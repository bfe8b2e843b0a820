"""Batches as brokers send them, read beside the driver."""

from __future__ import annotations

import pytest
from aiokafka.errors import CorruptRecordException
from aiokafka.record.default_records import DefaultRecordBatchBuilder
from aiokafka.record.memory_records import MemoryRecords

from common.kafka.batches import LenientBatches, records_of

RECORDS = [
    (b"key", b"value", [("a", b"1"), ("\N{SNOWMAN}", b"\xff"), ("none", None)]),
    (None, None, []),
    (b"", b"", [("", b"")]),
    (None, b"x" * 100_000, [("name", b"n" * 5_000)]),
]
NO_NAME = b"n\xff\xfeme"


def batch(records=RECORDS, *, compression=0, first_offset=0, names=()) -> bytes:
    """A batch as the driver writes it; ``names`` are (written, instead) of one length, put in place of what was written."""
    builder = DefaultRecordBatchBuilder(2, compression, False, -1, -1, -1, 10_000_000)
    for number, (key, value, headers) in enumerate(records):
        assert builder.append(number, timestamp=1_700_000_000_000 + number, key=key, value=value, headers=headers)
    written = bytearray(builder.build())
    written[0:8] = first_offset.to_bytes(8, "big")
    for name, instead in names:
        assert written.count(name) == 1
        written = written.replace(name, instead)
    return bytes(written)


def public_message(records):
    return [(each.offset, each.timestamp, each.timestamp_type, each.key, each.value, each.headers) for each in records]


def read(data: bytes, kind):
    batches, records = kind(data), []
    while batches.has_next():
        records += public_message(batches.next_batch())
    return records


@pytest.mark.parametrize("compression", [0, 1, 2, 3, 4])
def test_a_batch_is_read_as_the_driver_reads_it(compression: int):
    data = batch(compression=compression, first_offset=2**40)

    assert public_message(records_of(data)) == read(data, MemoryRecords) == read(data, LenientBatches)


def test_the_time_may_be_the_brokers():
    data = bytearray(batch())
    data[22] |= 0b1000

    assert public_message(records_of(bytes(data))) == read(bytes(data), MemoryRecords)


def test_a_name_that_is_no_text_costs_nobody_anything():
    bad = (b"k", b"v", [("before", b"1"), ("nnnme", b"2")])
    data = (
        batch([RECORDS[0], bad, RECORDS[0]], names=[(b"nnnme", NO_NAME)])
        + batch(RECORDS, first_offset=3)
        + batch([bad], first_offset=7, names=[(b"nnnme", NO_NAME)])
    )

    with pytest.raises(UnicodeDecodeError):
        read(data, MemoryRecords)
    records = read(data, LenientBatches)

    assert [each[0] for each in records] == list(range(8))
    assert records[1][3:] == (b"k", b"v", [("before", b"1"), ("n\\xff\\xfeme", b"2")])
    assert records[0][3:] == records[2][3:] == records[3][3:] == RECORDS[0]


@pytest.mark.parametrize("broken", [slice(61, 62), slice(61, 66), slice(65, 70)])
def test_what_is_corrupt_otherwise_is_corrupt(broken: slice):
    data = bytearray(batch([RECORDS[0]]))
    data[broken] = b"\xff" * (broken.stop - broken.start)

    with pytest.raises(CorruptRecordException):
        read(bytes(data), LenientBatches)
    with pytest.raises(CorruptRecordException):
        list(records_of(bytes(data[:40])))


def test_a_value_that_ends_too_early_is_corrupt():
    data = batch([RECORDS[3]])

    with pytest.raises(CorruptRecordException):
        list(records_of(data[:-1]))


def test_a_batch_of_an_older_version_is_not_read_as_one_of_this():
    data = bytearray(batch())
    data[16] = 1

    with pytest.raises(CorruptRecordException, match="version 1"):
        list(records_of(bytes(data)))


def test_a_batch_that_was_cut_off_is_left_for_the_next_answer():
    data = batch([RECORDS[0]]) + batch([RECORDS[1]], first_offset=1)[:-1]

    batches = LenientBatches(data)

    assert public_message(batches.next_batch()) == public_message(records_of(batch([RECORDS[0]])))
    assert not batches.has_next()
    assert batches.size_in_bytes() == len(data)
