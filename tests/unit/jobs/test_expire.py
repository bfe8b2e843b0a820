"""In which order traces are deleted."""

from __future__ import annotations

from jobs.retention.expire import PASS_SPANS_MIN, PASSES_MAX, passes
from query_api.retention.survey import HOUR_US, Figures, Survey


def found(old_hours: dict[int, int], *, before_us: int) -> Survey:
    expired = Figures(1, sum(old_hours.values()), 1, 0)
    return Survey(expired, expired, before_us, "max_age_days", old_hours)


def test_few_spans_are_deleted_in_one_pass() -> None:
    assert passes(found({1: 10, 5: 20}, before_us=6 * HOUR_US)) == [6 * HOUR_US]


def test_many_spans_are_deleted_the_oldest_first() -> None:
    hours = dict.fromkeys(range(4), PASS_SPANS_MIN)

    assert passes(found(hours, before_us=4 * HOUR_US)) == [HOUR_US, 2 * HOUR_US, 3 * HOUR_US, 4 * HOUR_US]


def test_passes_are_few() -> None:
    hours = dict.fromkeys(range(1_000), PASS_SPANS_MIN)

    ends = passes(found(hours, before_us=1_000 * HOUR_US - 1))

    assert len(ends) <= PASSES_MAX + 1
    assert ends == sorted(ends)
    assert ends[-1] == 1_000 * HOUR_US - 1
