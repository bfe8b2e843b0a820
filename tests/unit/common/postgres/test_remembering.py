from __future__ import annotations

from common.postgres.remembering import Remembering
from tests.fakes.clock import ManualClock


def test_an_answer_is_known_until_its_time_is_over():
    clock = ManualClock()
    remembering: Remembering[str, int | None] = Remembering(clock, count_max=2)
    remembering.remember("a", None, for_s=5)

    assert remembering.recall("a") == (None,)
    clock.advance(4.9)
    assert remembering.recall("a") == (None,)
    clock.advance(0.1)
    assert remembering.recall("a") is None


def test_at_the_limit_all_are_known_and_past_it_the_oldest_is_forgotten():
    remembering: Remembering[str, int] = Remembering(ManualClock(), count_max=2)
    remembering.remember("a", 1, for_s=5)
    remembering.remember("b", 2, for_s=5)
    assert remembering.recall("a") == (1,)

    remembering.remember("c", 3, for_s=5)

    assert [remembering.recall(key) for key in "abc"] == [None, (2,), (3,)]


def test_an_answer_given_again_makes_no_other_forgotten():
    remembering: Remembering[str, int] = Remembering(ManualClock(), count_max=2)
    remembering.remember("a", 1, for_s=5)
    remembering.remember("b", 2, for_s=5)

    remembering.remember("b", 9, for_s=5)

    assert [remembering.recall(key) for key in "ab"] == [(1,), (9,)]
