"""The budget of a scan is used in shares, and a slice that is too long is shortened until it is admitted."""

from __future__ import annotations

import pytest

from common.errors import DeadlineExceeded
from common.ids import DEFAULT_PROJECT_ID
from query_api.pages.page import FIRST_SLICE_US, ScanBudget
from query_api.spans.project_spans import ProjectSpans
from tests.fakes.clock import ManualClock
from tests.support.api import UntouchedStore


def budget_of(clock: ManualClock, *, seconds: float = 5.0, rows: int = 1_000) -> ScanBudget:
    return ScanBudget(
        ProjectSpans(UntouchedStore(), DEFAULT_PROJECT_ID, clock=clock, budget_s=seconds, budget_rows=rows)
    )


def test_statement_gets_a_fifth_and_the_last_fifth_is_kept() -> None:
    clock = ManualClock()
    budget = budget_of(clock)
    assert (budget.share().seconds_max, budget.share().rows_max) == (1.0, None)
    assert budget.single_shot_share().rows_max == 200
    clock.advance(3.5)
    assert budget.share().seconds_max == pytest.approx(0.5)
    clock.advance(0.5)
    with pytest.raises(DeadlineExceeded, match=r"its budget of 5 s"):
        budget.share()
    assert budget.is_spent


def test_slice_is_halved_until_its_rows_are_admitted() -> None:
    budget = budget_of(ManualClock())
    assert not budget.admits(2_000)
    assert budget.slice_us == FIRST_SLICE_US // 16
    assert not budget.admits(201), "one row too many, so it is halved at least"
    assert budget.slice_us == FIRST_SLICE_US // 32
    assert budget.admits(200)
    budget.slice_failed()
    assert budget.slice_us == FIRST_SLICE_US // 64


@pytest.mark.parametrize("rows_of_neighbors", [0, 1, 512])
def test_bounds_of_a_slice_do_not_reveal_rows_of_other_projects(rows_of_neighbors: int) -> None:
    budget = budget_of(ManualClock(), rows=50_000)

    budget.admits(25_000 + rows_of_neighbors)

    assert budget.slice_us == FIRST_SLICE_US // 4


def test_rows_end_only_a_scan_that_has_moved() -> None:
    budget = budget_of(ManualClock())
    budget.single_shot_failed()
    for _ in range(4):
        assert budget.admits(200)
    assert budget.admits(1), "nothing was found so far, and a page gets on whatever it costs"
    budget.has_moved = True
    assert not budget.admits(1)
    assert budget.is_spent


def test_shortest_slice_is_scanned_whatever_it_costs() -> None:
    budget = budget_of(ManualClock(), rows=5)
    while budget.slice_us > 1:
        assert not budget.admits(10**12)
    assert budget.admits(10**12)
    assert not budget.is_spent
