"""The time window of a response, and its buckets (reference §10.1). Pure.

Times are microseconds since 1970, UTC. The window includes ``oldest`` and excludes ``newest``; the first bucket begins
at ``oldest``.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from common.times import nearest_formattable_us

BUCKETS_MAX: Final = 1_024
STEPS_MIN: Final = (1, 5, 15, 30, 60, 180, 360, 720, 1_440, 4_320, 10_080, 20_160, 43_200)
"""Minutes of a bucket that are tried in turn if the requested interval gives too many buckets."""

MINUTE_US: Final = 60_000_000
DAY_US: Final = 24 * 60 * MINUTE_US
DEFAULT_DAYS: Final = 30
INTERVAL_MIN_MAX: Final = 10_000 * 366 * 24 * 60
"""The whole time that responses can represent, in minutes; a longer interval is shortened to it."""


@dataclass(frozen=True, slots=True)
class Buckets:
    """A window of time and the minutes of each of its buckets."""

    oldest_us: int
    newest_us: int
    interval_min: int

    @property
    def interval_us(self) -> int:
        """The length of a bucket. The last one may end after the window."""
        return self.interval_min * MINUTE_US

    @property
    def count(self) -> int:
        """The number of buckets; 0 if the window is empty."""
        return _ceil_div(max(0, self.newest_us - self.oldest_us), self.interval_us)

    def start_us(self, index: int) -> int:
        """Return the start of a bucket."""
        return self.oldest_us + index * self.interval_us


def buckets_of(*, oldest_us: int | None, newest_us: int | None, interval_min: int | None, now_us: int) -> Buckets:
    """Return the buckets of a request.

    ``newest`` defaults to the next midnight, ``oldest`` to 30 days before it. Without an interval there is one bucket;
    an interval that gives more than ``BUCKETS_MAX`` buckets becomes the next coarser step.
    """
    newest_us = (now_us // DAY_US + 1) * DAY_US if newest_us is None else nearest_formattable_us(newest_us)
    oldest_us = nearest_formattable_us(newest_us - DEFAULT_DAYS * DAY_US if oldest_us is None else oldest_us)
    length_min = max(1, _ceil_div(newest_us - oldest_us, MINUTE_US))
    return Buckets(oldest_us, newest_us, _interval_min(length_min, interval_min))


def _interval_min(length_min: int, requested_min: int | None) -> int:
    if requested_min is None:
        return length_min
    for step_min in (min(requested_min, INTERVAL_MIN_MAX), *STEPS_MIN):
        if length_min <= step_min * BUCKETS_MAX:
            return step_min
    coarsest_min = STEPS_MIN[-1]
    return _ceil_div(length_min, BUCKETS_MAX * coarsest_min) * coarsest_min


def _ceil_div(dividend: int, divisor: int) -> int:
    return -(-dividend // divisor)
