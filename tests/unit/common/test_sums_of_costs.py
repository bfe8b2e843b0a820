"""Sums of money: exact, in any order, with the decimals that the amounts had."""

from __future__ import annotations

from decimal import Decimal
from itertools import accumulate

import pytest
from hypothesis import given
from hypothesis import strategies as st

from common.span import COST_DECIMALS
from common.usage import dollars, exact_total, is_amount, rounded, units

AMOUNTS = st.decimals(min_value=0, max_value=8_000, places=COST_DECIMALS)


@given(st.lists(AMOUNTS), st.randoms(use_true_random=False))
def test_sum_is_the_nearest_double_of_the_decimals_in_any_order(amounts: list[Decimal], source: object) -> None:
    costs = [float(amount) for amount in amounts]
    total = exact_total(costs)

    assert total == float(sum(amounts))
    assert exact_total(sorted(costs)) == exact_total(reversed(costs)) == total


def test_a_thousand_small_costs_add_up_to_what_people_expect() -> None:
    costs = [0.0000015] * 2_000

    assert list(accumulate(costs))[-1] != 0.003
    assert exact_total(costs) == 0.003


@pytest.mark.parametrize(
    ("number", "shown"),
    [
        (0.1 + 0.2, 0.3),
        (0.00036554999999999997, 0.00036555),
        (1e-13, 0.0),
        (-0.1 - 0.2, -0.3),
        (1e14 + 0.5, 1e14 + 0.5),
        (1e300, 1e300),
        (float("inf"), float("inf")),
    ],
)
def test_number_is_rounded_to_the_decimals_of_money(number: float, shown: float) -> None:
    assert rounded(number) == shown


@pytest.mark.parametrize("number", [1e15, -1e15, 1e308, float("inf"), float("nan")])
def test_what_no_call_costs_is_no_amount(number: float) -> None:
    assert not is_amount(number)


@given(st.floats(-(10**15), 10**15, exclude_min=True, exclude_max=True))
def test_amount_in_units_is_closer_than_its_own_last_digit(number: float) -> None:
    assert abs(dollars(units(number)) - number) <= max(0.5 / 10**COST_DECIMALS, abs(number) * 2**-52)
