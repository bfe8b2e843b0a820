from __future__ import annotations

from common.kafka.record import Record
from ingest.decoding.queue import CHUNK_BYTES, CHUNK_RECORDS_MAX, WaitingRecords


def records(*sizes: int | None) -> list[Record]:
    return [Record("t", 0, offset, 0, None, None if size is None else bytes(size)) for offset, size in enumerate(sizes)]


def waiting(*sizes: int | None, since_s: float = 10.0) -> WaitingRecords:
    found = WaitingRecords(linger_s=0.1)
    found.extend(records(*sizes), now_s=since_s)
    return found


def test_a_portion_is_whole_at_its_bytes_and_not_one_before() -> None:
    assert not waiting(CHUNK_BYTES - 1).is_whole
    assert waiting(1, CHUNK_BYTES - 1).is_whole


def test_a_portion_is_whole_at_its_records_and_not_one_before() -> None:
    assert not waiting(*[None] * (CHUNK_RECORDS_MAX - 1)).is_whole
    assert waiting(*[None] * CHUNK_RECORDS_MAX).is_whole


def test_a_whole_portion_is_due_at_once_a_smaller_one_when_its_first_record_has_waited() -> None:
    small = waiting(1)
    small.extend(records(1), now_s=10.05)

    assert waiting(CHUNK_BYTES).is_due(now_s=10.0)
    assert not small.is_due(now_s=10.09)
    assert small.is_due(now_s=10.1)


def test_nothing_is_never_due() -> None:
    assert not waiting().is_due(now_s=1e9)


def test_a_portion_ends_with_the_record_that_makes_it_whole() -> None:
    found = waiting(CHUNK_BYTES - 1, 1, 1)

    assert [each.offset for each in found.take(now_s=11.0)] == [0, 1]
    assert [each.offset for each in found.take(now_s=11.0)] == [2]
    assert len(found) == 0


def test_a_portion_has_so_many_records_and_not_one_more() -> None:
    assert len(waiting(*[0] * (CHUNK_RECORDS_MAX + 1)).take(now_s=11.0)) == CHUNK_RECORDS_MAX


def test_a_record_larger_than_a_portion_is_one() -> None:
    assert len(waiting(CHUNK_BYTES * 3, 1).take(now_s=11.0)) == 1


def test_what_is_left_behind_begins_to_wait_anew() -> None:
    found = waiting(CHUNK_BYTES, 1)

    found.take(now_s=11.0)

    assert not found.is_whole
    assert found.due_s == 11.1


def test_what_is_let_go_of_does_not_count() -> None:
    found = waiting(CHUNK_BYTES)

    found.clear()

    assert (len(found), found.is_whole) == (0, False)
