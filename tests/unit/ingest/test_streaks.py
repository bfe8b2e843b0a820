from __future__ import annotations

from common.kafka.record import Partition
from ingest.partitions import Streaks
from ingest.readiness import Readiness

P0, P1 = Partition("t", 0), Partition("t", 1)


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
