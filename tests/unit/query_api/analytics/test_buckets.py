"""Buckets of time: defaults, coarser steps, and what they cover."""

from __future__ import annotations

from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from common.times import EARLIEST_US, LATEST_US
from query_api.analytics.buckets import (
    BUCKETS_MAX,
    DAY_US,
    INTERVAL_MIN_MAX,
    MINUTE_US,
    STEPS_MIN,
    buckets_of,
)

NOON_US = 20_000 * DAY_US + DAY_US // 2
EARLIEST_TO_LATEST = st.integers(EARLIEST_US, LATEST_US)


def test_default_is_one_bucket_of_30_days_until_the_next_midnight() -> None:
    buckets = buckets_of(oldest_us=None, newest_us=None, interval_min=None, now_us=NOON_US)

    assert (buckets.newest_us, buckets.oldest_us) == (20_001 * DAY_US, 19_971 * DAY_US)
    assert (buckets.count, buckets.interval_min) == (1, 30 * 24 * 60)


def test_at_midnight_the_next_midnight_is_a_day_later() -> None:
    assert buckets_of(oldest_us=None, newest_us=None, interval_min=None, now_us=DAY_US).newest_us == 2 * DAY_US


def test_window_does_not_begin_before_the_first_time_that_can_be_shown() -> None:
    buckets = buckets_of(oldest_us=None, newest_us=EARLIEST_US + DAY_US, interval_min=None, now_us=NOON_US)

    assert buckets.oldest_us == EARLIEST_US


def test_bound_after_the_last_time_that_can_be_shown_is_that_time() -> None:
    buckets = buckets_of(
        oldest_us=EARLIEST_US - DAY_US, newest_us=LATEST_US + DAY_US, interval_min=None, now_us=NOON_US
    )

    assert (buckets.oldest_us, buckets.newest_us) == (EARLIEST_US, LATEST_US)


@pytest.mark.parametrize(
    ("step_min", "next_min"),
    list(pairwise([1, 5, 15, 30, 60, 180, 360, 720, 1_440, 3 * 1_440, 7 * 1_440, 14 * 1_440, 30 * 1_440, 60 * 1_440])),
)
def test_too_many_buckets_take_the_next_coarser_step(step_min: int, next_min: int) -> None:
    """The last ones are months, as many as it takes."""
    most_us = 1_024 * step_min * MINUTE_US
    at_most, past = (
        buckets_of(oldest_us=0, newest_us=newest_us, interval_min=1, now_us=NOON_US)
        for newest_us in (most_us, most_us + 1)
    )

    assert (at_most.interval_min, at_most.count) == (step_min, 1_024)
    assert past.interval_min == next_min


def test_single_bucket_ends_after_a_window_of_fractional_minutes() -> None:
    buckets = buckets_of(oldest_us=0, newest_us=MINUTE_US + 1, interval_min=None, now_us=NOON_US)

    assert (buckets.count, buckets.interval_min) == (1, 2)


def test_interval_that_fits_is_kept() -> None:
    assert buckets_of(oldest_us=0, newest_us=DAY_US, interval_min=7, now_us=NOON_US).interval_min == 7


def test_interval_longer_than_all_time_is_one_bucket() -> None:
    buckets = buckets_of(oldest_us=EARLIEST_US, newest_us=DAY_US, interval_min=10**40, now_us=NOON_US)

    assert buckets.count == 1
    assert buckets.interval_us < 2**63


@given(EARLIEST_TO_LATEST, EARLIEST_TO_LATEST, st.none() | st.integers(1, 10**9))
def test_buckets_cover_the_window_and_are_at_most_1024(
    oldest_us: int, newest_us: int, interval_min: int | None
) -> None:
    buckets = buckets_of(oldest_us=oldest_us, newest_us=newest_us, interval_min=interval_min, now_us=NOON_US)

    assert 0 <= buckets.count <= BUCKETS_MAX
    assert buckets.start_us(buckets.count) >= newest_us
    if buckets.count:
        assert buckets.start_us(buckets.count - 1) < newest_us
    if interval_min is not None and buckets.interval_min != min(interval_min, INTERVAL_MIN_MAX):
        assert buckets.interval_min in STEPS_MIN or buckets.interval_min % STEPS_MIN[-1] == 0
