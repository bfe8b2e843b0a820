"""Plans are kept for repeated keys, and their number is bounded."""

from __future__ import annotations

from common.plans import CHARACTERS_MAX, SEEN_MAX, USUAL_COUNT, Keys, Plans


class Maker:
    """Counts the plans that it makes."""

    def __init__(self) -> None:
        self.made: list[Keys] = []

    def __call__(self, keys: Keys) -> int:
        self.made.append(keys)
        return len(keys)


def test_plan_is_kept_when_its_keys_come_for_the_second_time() -> None:
    make = Maker()
    plans = Plans(make, max_count=3)

    assert [plans.of(("a", "b")) for _ in range(4)] == [2] * 4
    plans.of(("b", "a"))

    assert make.made == [("a", "b"), ("a", "b"), ("b", "a")], "in another order they are other keys"


def test_plan_that_is_none_is_kept_too() -> None:
    made: list[Keys] = []
    plans: Plans[None] = Plans(made.append, max_count=3)

    assert [plans.of(("a",)) for _ in range(4)] == [None] * 4

    assert len(made) == 2


def test_plans_are_bounded_in_number_and_in_size() -> None:
    plans = Plans(Maker(), max_count=3)
    for number in range(4):
        for _ in range(2):
            plans.of((str(number),))
    assert len(plans) == 1

    for length in (CHARACTERS_MAX, CHARACTERS_MAX + 1):
        for _ in range(3):
            plans.of(("x" * length,))
    assert len(plans) == 2


def test_random_keys_are_not_kept() -> None:
    plans = Plans(Maker(), max_count=3)
    for number in range(SEEN_MAX + 10):
        plans.of((str(number),))

    assert len(plans) == 0
    assert len(plans._seen_once) == 10


def test_no_plan_is_made_of_keys_that_are_rare_and_new() -> None:
    plans = Plans(Maker(), max_count=3)

    assert [plans.of_usual(("a",), count=1) for _ in range(3)] == [None, 1, 1]
    assert plans.of_usual(("b",), count=USUAL_COUNT) == 1
