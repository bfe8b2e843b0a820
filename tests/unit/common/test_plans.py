"""What is kept of keys, and that it is bounded."""

from __future__ import annotations

from common.plans import CHARACTERS_MAX, SEEN_MAX, Plans


def test_keys_get_a_plan_when_they_come_for_the_second_time() -> None:
    plans = Plans(len, most=3)

    for expected in (None, 2, 2):
        plans.remember(("a", "b"))
        assert plans.get(("a", "b")) == expected
    assert plans.get(("b", "a")) is None, "in another order they are other keys"


def test_plans_are_bounded_in_number_and_in_size() -> None:
    plans = Plans(len, most=3)
    for number in range(4):
        for _ in range(2):
            plans.remember((str(number),))
    assert len(plans) == 1

    for length in (CHARACTERS_MAX, CHARACTERS_MAX + 1):
        for _ in range(3):
            plans.remember(("x" * length,))
    assert len(plans) == 2
    assert plans.get(("x" * CHARACTERS_MAX,)) == 1


def test_random_keys_leave_few_traces() -> None:
    plans = Plans(len, most=3)
    for number in range(SEEN_MAX + 10):
        plans.remember((str(number),))

    assert len(plans) == 0
    assert len(plans._seen_once) == 10
