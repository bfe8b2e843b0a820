from __future__ import annotations

from collections.abc import Mapping

from hypothesis import given
from hypothesis import strategies as st

from common.kafka.record import Partition
from query_api.request.progress import EndOffsetsRead, Through, asked_through_us, partition_states, through_us

LOG, OTHER_LOG = "c/spans/0", "c/spans/1"
ASKED_US = 5_000_000


def _through_us(ends: Mapping[str, int], stored: Mapping[str, Through]) -> int | None:
    return through_us(EndOffsetsRead(ASKED_US, ends), stored)


def test_partition_stored_to_its_end_is_complete_up_to_the_read() -> None:
    assert _through_us({LOG: 3}, {LOG: Through(2, record_ms=1, stored_us=2)}) == ASKED_US
    assert _through_us({LOG: 0}, {}) == ASKED_US


def test_partition_with_a_backlog_is_complete_up_to_its_last_stored_record() -> None:
    assert _through_us({LOG: 4}, {LOG: Through(2, record_ms=1_000, stored_us=1_500_000)}) == 1_000_000


def test_records_after_the_read_count_too() -> None:
    assert _through_us({LOG: 3}, {LOG: Through(9, record_ms=6_000, stored_us=6_500_000)}) == 6_000_000


def test_record_time_in_the_future_counts_as_the_time_of_storing() -> None:
    assert _through_us({LOG: 4}, {LOG: Through(2, record_ms=99_000, stored_us=1_500_000)}) == 1_500_000


def test_record_without_a_time_gives_no_time() -> None:
    assert _through_us({LOG: 4}, {LOG: Through(2, record_ms=-1, stored_us=1_500_000)}) is None
    assert _through_us({LOG: 4}, {LOG: Through(2, record_ms=0, stored_us=1_500_000)}) == 0


def test_partition_ending_with_an_untimed_record_is_complete_up_to_the_read() -> None:
    assert _through_us({LOG: 3}, {LOG: Through(2, record_ms=-1, stored_us=1_500_000)}) == ASKED_US


def test_earliest_time_of_all_partitions_counts() -> None:
    stored = {LOG: Through(2, record_ms=1, stored_us=2), OTHER_LOG: Through(2, record_ms=1_000, stored_us=1_500_000)}

    assert _through_us({LOG: 3, OTHER_LOG: 4}, stored) == 1_000_000


def test_unknown_partition_makes_the_time_unknown() -> None:
    assert _through_us({LOG: 3, OTHER_LOG: 1}, {LOG: Through(2, record_ms=1, stored_us=2)}) is None
    assert _through_us({}, {}) is None


def test_partition_of_a_replaced_broker_does_not_count() -> None:
    assert _through_us({LOG: 3}, {LOG: Through(2, 1, 2), "older/spans/0": Through(0, 1, 2)}) == ASKED_US


def test_states_are_ordered_and_have_a_backlog() -> None:
    states = partition_states(EndOffsetsRead(1, {"c/b/10": 2, "c/b/9": 7, "c/a/0": 0}), {"c/b/9": Through(4, 1, 1)})

    assert [(state.partition, state.behind_records) for state in states] == [
        (Partition("a", 0), 0),
        (Partition("b", 9), 2),
        (Partition("b", 10), 2),
    ]


def test_partition_stored_beyond_the_read_end_has_no_backlog() -> None:
    [state] = partition_states(EndOffsetsRead(1, {LOG: 3}), {LOG: Through(9, 1, 1)})

    assert state.behind_records == 0


@given(
    appended=st.lists(st.tuples(st.integers(0, 20), st.integers(0, 20)), max_size=20),
    stored_count=st.integers(0, 20),
    asked_ms=st.integers(0, 25),
)
def test_everything_kafka_took_by_the_returned_time_is_stored(
    appended: list[tuple[int, int]], stored_count: int, asked_ms: int
) -> None:
    """Records are taken in order; each was made some time before, by a clock that is not ahead."""
    taken_ms = sorted(time for time, _ in appended)
    made_ms = [time - before for time, (_, before) in zip(taken_ms, appended, strict=True)]
    end = sum(time <= asked_ms for time in taken_ms)
    stored = min(stored_count, len(taken_ms))
    known = {LOG: Through(stored - 1, made_ms[stored - 1], 10**9)} if stored else {}

    complete_us = through_us(EndOffsetsRead(asked_ms * 1_000, {LOG: end}), known)

    if complete_us is not None:
        assert sum(time * 1_000 < complete_us for time in taken_ms) <= stored


def test_without_record_times_it_is_the_last_read_that_is_fully_stored() -> None:
    answers = [
        EndOffsetsRead(3, {LOG: 9, OTHER_LOG: 1}),
        EndOffsetsRead(2, {LOG: 5, OTHER_LOG: 1}),
        EndOffsetsRead(1, {LOG: 0, OTHER_LOG: 0}),
    ]

    def through(offset: int, other_offset: int) -> int | None:
        stored = {LOG: Through(offset, 7_000, 7_000_000), OTHER_LOG: Through(other_offset, 7_000, 7_000_000)}
        return asked_through_us(answers, stored)

    assert [through(8, 0), through(7, 0), through(4, 3), through(3, 0)] == [3, 2, 2, 1]
    assert asked_through_us(answers, {}) == 1
    assert asked_through_us(answers[:2], {}) is None
