"""The records of the embedded broker on disk: order, damage, repetition, deletion."""

from __future__ import annotations

import asyncio
import os
import time
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from aiokafka.record.default_records import DefaultRecordBatchBuilder

from clearspan.embedded.broker_server.groups import GroupOffset
from clearspan.embedded.broker_server.messages import Error
from clearspan.embedded.broker_server.partition import BatchRefused, PartitionLog
from clearspan.embedded.broker_server.store import MIB, Store, StoreSettings, TopicRefused

BYTES_MAX = 10 * MIB


def batch(*values: bytes, producer: tuple[int, int, int] = (-1, -1, -1), timestamp_ms: int = 0) -> memoryview:
    """A record batch of a producer with an id, an epoch and a sequence."""
    producer_id, epoch, sequence = producer
    builder = DefaultRecordBatchBuilder(2, 0, 0, producer_id, epoch, sequence, 100 * MIB)
    for offset, value in enumerate(values):
        builder.append(offset, timestamp_ms, None, value, [])
    return memoryview(bytes(builder.build()))


def partition(directory: Path, *, segment_bytes: int = MIB) -> PartitionLog:
    return PartitionLog(directory, segment_bytes=segment_bytes)


def append(to: PartitionLog, data: memoryview) -> int:
    return to.append(data, bytes_max=BYTES_MAX)


def refused(to: PartitionLog, data: memoryview) -> Error:
    with pytest.raises(BatchRefused) as caught:
        append(to, data)
    return caught.value.error


def test_offsets_go_on_after_a_restart(tmp_path: Path) -> None:
    first = partition(tmp_path, segment_bytes=200)
    assert [append(first, batch(b"x" * 100, b"y")) for _ in range(5)] == [0, 2, 4, 6, 8]

    again = partition(tmp_path, segment_bytes=200)

    assert (again.first_offset, again.end, append(again, batch(b"z"))) == (0, 10, 10)
    assert b"x" * 100 in again.read(3, MIB, whole_first=True)
    assert len(list(tmp_path.glob("*.log"))) > 1


@pytest.mark.parametrize("cut_bytes", [1, 30, 70])
def test_batch_that_was_cut_off_is_removed(tmp_path: Path, cut_bytes: int) -> None:
    first = partition(tmp_path)
    append(first, batch(b"whole"))
    append(first, batch(b"x" * 20))
    [file] = tmp_path.glob("*.log")
    os.truncate(file, file.stat().st_size - cut_bytes)

    again = partition(tmp_path)

    assert (again.end, append(again, batch(b"next"))) == (1, 1)
    assert file.read_bytes().count(b"x" * 20) == 0


def test_damaged_batch_is_removed(tmp_path: Path) -> None:
    append(first := partition(tmp_path), batch(b"whole"))
    append(first, batch(b"damaged"))
    [file] = tmp_path.glob("*.log")
    file.write_bytes(file.read_bytes().replace(b"damaged", b"dAmaged"))

    assert partition(tmp_path).end == 1


def test_any_offset_is_found_in_a_large_segment(tmp_path: Path) -> None:
    large = partition(tmp_path, segment_bytes=MIB)
    for number in range(500):
        append(large, batch(b"%04d" % number * 100))
    for reader in (large, partition(tmp_path)):
        assert all(b"%04d" % offset in reader.read(offset, 600, whole_first=False) for offset in range(500))
    assert large.read(500, 600, whole_first=True) == b""


def test_first_batch_is_whole_if_it_is_larger_than_asked_for(tmp_path: Path) -> None:
    append(one := partition(tmp_path), batch(b"x" * 1_000))

    assert one.read(0, 100, whole_first=False) == b""
    assert len(one.read(0, 100, whole_first=True)) > 1_000


def test_batches_that_are_not_stored(tmp_path: Path) -> None:
    one, valid = partition(tmp_path), bytearray(batch(b"value"))
    old_format, wrong_crc, wrong_length = (bytearray(valid) for _ in range(3))
    old_format[16], wrong_crc[20], wrong_length[11] = 1, valid[20] ^ 1, valid[11] + 1

    assert refused(one, memoryview(b"")) == Error.CORRUPT_MESSAGE
    assert refused(one, memoryview(old_format)) == Error.UNSUPPORTED_FOR_MESSAGE_FORMAT
    assert refused(one, memoryview(wrong_crc)) == Error.CORRUPT_MESSAGE
    assert refused(one, memoryview(wrong_length)) == Error.CORRUPT_MESSAGE
    assert refused(one, memoryview(bytes(valid) * 2)) == Error.CORRUPT_MESSAGE
    builder = DefaultRecordBatchBuilder(2, 0, 1, 5, 0, 0, MIB)
    builder.append(0, 0, None, b"", [])
    assert refused(one, memoryview(bytes(builder.build()))) == Error.INVALID_REQUEST
    assert one.end == 0


def test_repeated_batch_is_stored_once_also_after_a_restart(tmp_path: Path) -> None:
    first = partition(tmp_path)
    assert append(first, batch(b"0", b"1", producer=(7, 0, 0))) == 0
    assert append(first, batch(b"2", producer=(7, 0, 2))) == 2

    for each in (first, partition(tmp_path)):
        assert append(each, batch(b"0", b"1", producer=(7, 0, 0))) == 0
        assert append(each, batch(b"2", producer=(7, 0, 2))) == 2
        assert refused(each, batch(b"4", producer=(7, 0, 4))) == Error.OUT_OF_ORDER_SEQUENCE_NUMBER
        assert each.end == 3
    assert append(each, batch(b"3", producer=(7, 1, 0))) == 3
    assert refused(each, batch(b"3", producer=(7, 0, 3))) == Error.INVALID_PRODUCER_EPOCH


def test_failed_write_leaves_the_file_as_it_was(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    append(one := partition(tmp_path), batch(b"before"))
    writev = os.writev

    def fill(fd: int, buffers: list[Any]) -> int:
        writev(fd, [buffers[1][:10]])
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, "writev", fill)
    with pytest.raises(OSError, match="No space left"):
        append(one, batch(b"lost"))
    monkeypatch.undo()

    assert append(one, batch(b"after")) == 1
    assert partition(tmp_path).end == 2


def settings(directory: Path, **changes: Any) -> StoreSettings:
    return replace(StoreSettings(directory, 64 * MIB, "worker", frozenset({"read"})), **changes)


async def test_space_that_is_granted_to_a_producer_that_has_just_left_is_free_again(tmp_path: Path) -> None:
    store = Store(settings(tmp_path, bytes_max=4 * MIB))
    store.create_topic("read", 1, {}, validate=False)
    assert await store.reserve(4 * MIB, timeout_s=0)
    waiting = asyncio.create_task(store.reserve(3 * MIB, timeout_s=60))
    await asyncio.sleep(0)

    store.release(4 * MIB)
    store.delete_old()  # grants it
    waiting.cancel()
    with pytest.raises(asyncio.CancelledError):
        await waiting

    assert await store.reserve(4 * MIB, timeout_s=0)
    store.close()


def test_what_the_worker_has_not_committed_is_kept(tmp_path: Path) -> None:
    store = Store(settings(tmp_path, bytes_max=4 * MIB))
    store.create_topic("read", 1, {}, validate=False)
    for _ in range(6):
        store.append("read", 0, batch(b"x" * 500_000))
    store.delete_old()
    [read] = store.topics["read"].partitions
    assert read.first_offset == 0

    store.offsets.commit({("worker", "read", 0): GroupOffset(3, "")})
    store.delete_old()
    assert 0 < read.first_offset <= 3
    store.offsets.commit({("worker", "read", 0): GroupOffset(6, "")})
    store.delete_old()

    assert read.size <= 2 * MIB
    store.close()


@pytest.mark.parametrize(("retention_ms", "is_kept"), [("-1", True), ("1000", False), ("100000000", True)])
def test_other_topics_are_kept_for_their_time(tmp_path: Path, retention_ms: str, *, is_kept: bool) -> None:
    store = Store(settings(tmp_path))
    store.create_topic("other", 1, {"retention.ms": retention_ms}, validate=False)
    store.append("other", 0, batch(b"value"))
    store.close()
    [file] = tmp_path.rglob("*.log")
    an_hour_ago_s = time.time() - 3_600
    os.utime(file, (an_hour_ago_s, an_hour_ago_s))

    again = Store(settings(tmp_path))

    assert (again.topics["other"].partitions[0].first_offset == 0) is is_kept
    again.close()


def test_topics_and_offsets_survive_and_a_topic_that_is_created_again_has_neither(tmp_path: Path) -> None:
    store = Store(settings(tmp_path))
    store.create_topic("read", 2, {"max.message.bytes": "1000"}, validate=False)
    store.offsets.commit({("g", "read", 1): GroupOffset(5, "text")})
    cluster_id, topic_id = store.cluster_id, store.topics["read"].id
    assert store.new_producer_id() < store.new_producer_id()
    store.close()
    with (tmp_path / "offsets.jsonl").open("a") as file:
        file.write('["g", "read", 0, 7')  # cut off

    again = Store(settings(tmp_path))
    assert (again.cluster_id, again.topics["read"].id) == (cluster_id, topic_id)
    assert again.topics["read"].message_bytes_max == 1_000
    assert (again.offsets.get("g", "read", 1), again.offsets.get("g", "read", 0)) == (GroupOffset(5, "text"), None)
    assert again.new_producer_id() == 3
    again.delete_topic("read")
    again.create_topic("read", 2, {}, validate=False)

    assert again.topics["read"].id != topic_id
    assert again.offsets.get("g", "read", 1) is None
    again.close()


@pytest.mark.parametrize(
    ("name", "partitions", "configs", "error"),
    [
        ("a/b", 1, {}, Error.INVALID_TOPIC),
        ("..", 1, {}, Error.INVALID_TOPIC),
        ("read", 1, {}, Error.TOPIC_ALREADY_EXISTS),
        ("new", 0, {}, Error.INVALID_PARTITIONS),
        ("new", 10_000, {}, Error.INVALID_PARTITIONS),
        ("new", 1, {"retention.ms": "long"}, Error.INVALID_CONFIG),
    ],
)
def test_topics_that_are_not_created(
    tmp_path: Path, name: str, partitions: int, configs: dict[str, str], error: Error
) -> None:
    store = Store(settings(tmp_path))
    store.create_topic("read", 1, {}, validate=False)

    with pytest.raises(TopicRefused) as caught:
        store.create_topic(name, partitions, configs, validate=False)

    assert caught.value.error == error
    assert list(store.topics) == ["read"]
    store.close()
