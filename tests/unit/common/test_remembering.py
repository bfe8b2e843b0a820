from __future__ import annotations

from common.remembering import Remembering
from tests.fakes.clock import ManualClock


def test_entry_is_remembered_until_it_expires():
    clock = ManualClock()
    remembering: Remembering[str, int | None] = Remembering(clock, count_max=2)
    remembering.remember("a", None, for_s=5)

    assert remembering.recall("a") == (None,)
    clock.advance(4.9)
    assert remembering.recall("a") == (None,)
    clock.advance(0.1)
    assert remembering.recall("a") is None


def test_oldest_entry_is_forgotten_past_the_limit():
    remembering: Remembering[str, int] = Remembering(ManualClock(), count_max=2)
    remembering.remember("a", 1, for_s=5)
    remembering.remember("b", 2, for_s=5)
    assert remembering.recall("a") == (1,)

    remembering.remember("c", 3, for_s=5)

    assert [remembering.recall(key) for key in "abc"] == [None, (2,), (3,)]


def test_repeated_entry_evicts_no_other():
    remembering: Remembering[str, int] = Remembering(ManualClock(), count_max=2)
    remembering.remember("a", 1, for_s=5)
    remembering.remember("b", 2, for_s=5)

    remembering.remember("b", 9, for_s=5)

    assert [remembering.recall(key) for key in "ab"] == [(1,), (9,)]
