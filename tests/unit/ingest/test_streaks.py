from __future__ import annotations

from common.kafka.record import Partition
from ingest.partitions import Streaks
from ingest.readiness import Readiness

P0, P1 = Partition("t", 0), Partition("t", 1)


def test_a_streak_at_the_limit_is_admitted_and_one_past_it_holds_the_partition() -> None:
    streaks = Streaks(streak_max=3, readiness=Readiness())

    assert [streaks.admits(P0, is_undecodable=True) for _ in range(4)] == [True, True, True, False]
    assert streaks.held == {P0}


def test_a_good_record_ends_the_streak() -> None:
    streaks = Streaks(streak_max=1, readiness=Readiness())

    assert all(streaks.admits(P0, is_undecodable=refused) for refused in (True, False, True, False))


def test_a_held_partition_takes_no_good_record_either_so_that_its_offset_stays() -> None:
    streaks = Streaks(streak_max=1, readiness=Readiness())
    streaks.admits(P0, is_undecodable=True)
    streaks.admits(P0, is_undecodable=True)

    assert not streaks.admits(P0, is_undecodable=False)
    assert streaks.admits(P1, is_undecodable=False)


def test_a_revoked_partition_starts_anew() -> None:
    streaks = Streaks(streak_max=1, readiness=Readiness())
    streaks.admits(P0, is_undecodable=True)
    streaks.admits(P0, is_undecodable=True)

    streaks.forget_all()

    assert streaks.admits(P0, is_undecodable=True)
    assert streaks.held == frozenset()
