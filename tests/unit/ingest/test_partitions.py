"""The offset that may be committed, and streaks of undecodable records."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from common.kafka.record import Partition, Record
from common.readiness import Readiness
from ingest.partitions import Ledger, Streaks

P0, P1 = Partition("t", 0), Partition("t", 1)


def record(offset: int, partition: int = 0) -> Record:
    return Record("t", partition, offset, 0, None, b"")


def ledger_with(*offsets: int) -> Ledger:
    ledger = Ledger()
    for offset in offsets:
        ledger.take(record(offset))
    return ledger


def test_committable_offset_is_the_one_after_the_last_done_record() -> None:
    ledger = ledger_with(0, 1)

    ledger.mark_done([record(0), record(1)])

    assert ledger.committable() == {P0: 2}


def test_unfinished_record_holds_the_committable_offset_back() -> None:
    ledger = ledger_with(0, 1, 2)

    ledger.mark_done([record(0), record(2)])
    assert ledger.committable() == {P0: 1}
    ledger.mark_done([record(1)])

    assert ledger.committable() == {P0: 3}


def test_offsets_never_taken_hold_nothing_back() -> None:
    ledger = ledger_with(0, 7)

    ledger.mark_done([record(0), record(7)])

    assert ledger.committable() == {P0: 8}


def test_committed_offset_is_no_longer_due() -> None:
    ledger = ledger_with(0)
    ledger.mark_done([record(0)])

    ledger.committed(ledger.committable())

    assert ledger.committable() == {}


def test_offset_that_advanced_during_a_commit_stays_due() -> None:
    ledger = ledger_with(0, 1)
    ledger.mark_done([record(0)])
    watermark = ledger.committable()
    ledger.mark_done([record(1)])

    ledger.committed(watermark)

    assert ledger.committable() == {P0: 2}


def test_forgotten_records_are_not_committed() -> None:
    ledger = ledger_with(0, 1)
    ledger.mark_done([record(0)])

    ledger.forget_all()
    ledger.mark_done([record(1)])

    assert ledger.committable() == {}


@given(st.lists(st.integers(0, 200), unique=True).map(sorted), st.data())
def test_ledger_agrees_with_a_naive_model(offsets: list[int], data: st.DataObject) -> None:
    ledger = ledger_with(*offsets)
    settled: set[int] = set()
    for offset in data.draw(st.permutations(offsets)):
        ledger.mark_done([record(offset)])
        settled.add(offset)

        prefix = [each for at, each in enumerate(offsets) if settled.issuperset(offsets[: at + 1])]
        assert ledger.committable() == ({P0: prefix[-1] + 1} if prefix else {})


def test_streak_past_the_limit_holds_the_partition() -> None:
    streaks = Streaks(streak_max=3, readiness=Readiness())

    assert [streaks.admits(P0, is_undecodable=True) for _ in range(4)] == [True, True, True, False]
    assert streaks.held == {P0}


def test_good_record_ends_the_streak() -> None:
    streaks = Streaks(streak_max=1, readiness=Readiness())

    assert all(streaks.admits(P0, is_undecodable=rejected) for rejected in (True, False, True, False))


def test_held_partition_admits_no_good_record_either() -> None:
    streaks = Streaks(streak_max=1, readiness=Readiness())
    streaks.admits(P0, is_undecodable=True)
    streaks.admits(P0, is_undecodable=True)

    assert not streaks.admits(P0, is_undecodable=False)
    assert streaks.admits(P1, is_undecodable=False)


def test_revoked_partition_starts_a_new_streak() -> None:
    streaks = Streaks(streak_max=1, readiness=Readiness())
    streaks.admits(P0, is_undecodable=True)
    streaks.admits(P0, is_undecodable=True)

    streaks.forget_all()

    assert streaks.admits(P0, is_undecodable=True)
    assert streaks.held == frozenset()
