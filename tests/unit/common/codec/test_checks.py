"""Limits and canonical values that all codecs share."""

from __future__ import annotations

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from common.codec.checks import bounds_of, check_times, json_double
from common.errors import Rejected, RejectionCode
from common.limits import SpanLimits

LIMITS = SpanLimits()
NOW_NS = 1_795_300_000_000_000_000
BOUNDS = bounds_of(LIMITS, now_ns=NOW_NS)


@given(st.floats())
@example(-0.0)
@example(2.0**63)
@example(-(2.0**63))
@example(2.0**64)
def test_double_keeps_its_value_and_becomes_an_integer_if_whole(value):
    shown = json_double(value)

    if isinstance(shown, str):
        assert shown == {"nan": "NaN", "inf": "Infinity", "-inf": "-Infinity"}[str(value)]
    else:
        assert shown == value
        assert isinstance(shown, int) == (value.is_integer() and -(2**63) <= value < 2**64)


@pytest.mark.parametrize("time_ns", [LIMITS.past_ns_min, NOW_NS + LIMITS.ahead_ns_max])
def test_time_at_the_limit_is_valid(time_ns):
    check_times(time_ns, time_ns, BOUNDS)


@pytest.mark.parametrize("time_ns", [0, LIMITS.past_ns_min - 1, NOW_NS + LIMITS.ahead_ns_max + 1, 2**64 - 1, 10**30])
def test_time_past_the_limit_is_rejected_with_its_member(time_ns):
    for start_ns, end_ns, name in ((time_ns, NOW_NS, "start"), (NOW_NS, time_ns, "end")):
        with pytest.raises(Rejected, match=f"The {name} time is .*; allowed: 2000-01-01") as rejected:
            check_times(start_ns, end_ns, BOUNDS)
        assert rejected.value.rejection is RejectionCode.ABSURD_TIME


def test_time_limits_stay_within_the_range_of_columns():
    bounds = bounds_of(SpanLimits(ahead_ns_max=10**30), now_ns=NOW_NS)

    check_times(NOW_NS, 2**63 - 1, bounds)
    with pytest.raises(Rejected, match=r"The end time is 2262.*; allowed: .* to 2262"):
        check_times(NOW_NS, 2**63, bounds)
