from __future__ import annotations

import asyncio

import pyarrow as pa
import pytest

from common.kafka.record import Record
from common.limits import MIB
from ingest.decoding.chunk import Chunk, DecodedChunk
from ingest.decoding.queue import CHUNK_BYTES, CHUNK_RECORDS_MAX, DecodingQueue, WaitingRecords
from ingest.joining.chunk import JoiningChunk


def records(*sizes: int | None) -> list[Record]:
    return [Record("t", 0, offset, 0, None, None if size is None else bytes(size)) for offset, size in enumerate(sizes)]


def waiting(*sizes: int | None, since_s: float = 10.0) -> WaitingRecords:
    found = WaitingRecords(linger_s=0.1)
    found.extend(records(*sizes), now_s=since_s)
    return found


def test_chunk_is_complete_at_exactly_its_bytes() -> None:
    assert not waiting(CHUNK_BYTES - 1).is_whole
    assert waiting(1, CHUNK_BYTES - 1).is_whole


def test_chunk_is_complete_at_exactly_its_records() -> None:
    assert not waiting(*[None] * (CHUNK_RECORDS_MAX - 1)).is_whole
    assert waiting(*[None] * CHUNK_RECORDS_MAX).is_whole


def test_complete_chunk_is_due_at_once_and_a_smaller_one_after_the_linger() -> None:
    small = waiting(1)
    small.extend(records(1), now_s=10.05)

    assert waiting(CHUNK_BYTES).is_due(now_s=10.0)
    assert not small.is_due(now_s=10.09)
    assert small.is_due(now_s=10.1)


def test_empty_queue_is_never_due() -> None:
    assert not waiting().is_due(now_s=1e9)


def test_chunk_ends_with_the_record_that_completes_it() -> None:
    found = waiting(CHUNK_BYTES - 1, 1, 1)

    assert [record.offset for record in found.take(now_s=11.0)] == [0, 1]
    assert [record.offset for record in found.take(now_s=11.0)] == [2]
    assert len(found) == 0


def test_chunk_has_at_most_its_maximum_of_records() -> None:
    assert len(waiting(*[0] * (CHUNK_RECORDS_MAX + 1)).take(now_s=11.0)) == CHUNK_RECORDS_MAX


def test_record_larger_than_a_chunk_is_a_chunk() -> None:
    assert len(waiting(CHUNK_BYTES * 3, 1).take(now_s=11.0)) == 1


def test_records_after_a_chunk_start_to_wait_again() -> None:
    found = waiting(CHUNK_BYTES, 1)

    found.take(now_s=11.0)

    assert not found.is_whole
    assert found.due_s == 11.1


def test_cleared_records_do_not_count() -> None:
    found = waiting(CHUNK_BYTES)

    found.clear()

    assert (len(found), found.is_whole) == (0, False)


class StuckDecoder:
    """A ``Decoder`` that has room for four chunks and never ends."""

    chunks_max = 4

    async def decode(self, _chunk: Chunk, /) -> DecodedChunk:
        await asyncio.Event().wait()
        raise AssertionError

    async def join(self, _chunk: JoiningChunk, /) -> pa.Table:
        raise AssertionError

    async def close(self) -> None:
        """Nothing to close."""


@pytest.mark.parametrize(("record_bytes", "chunks_count"), [(CHUNK_BYTES, 4), (4 * MIB, 2), (10 * MIB, 1)])
async def test_decoder_holds_fewer_chunks_of_large_records(record_bytes: int, chunks_count: int) -> None:
    queue = DecodingQueue(StuckDecoder(), linger_s=0.0)
    queue.waiting.extend(records(*[record_bytes] * 6), now_s=1.0)
    async with asyncio.TaskGroup() as tasks:
        queue.send_due(tasks, str, now_s=1.0, now_ns=1)

        assert (len(queue.waiting), queue.has_room) == (6 - chunks_count, False)
        queue.clear()
