from __future__ import annotations

import numpy as np
from hypothesis import example, given
from hypothesis import strategies as st

from common.times import EARLIEST_US, LATEST_US, format_us
from query_api.spans.rows import nanosecond_texts, time_texts

NS_US_MAX = 2**63 // 1000 - 1

_times = st.lists(st.integers(EARLIEST_US, LATEST_US), max_size=5)


def test_no_times_give_no_texts():
    none = np.array([], np.int64)

    assert time_texts(none) == []
    assert nanosecond_texts(none, none) == []


@given(_times)
@example([0, -1, 1_000_000, 1_700_000_000_000_000, 1_700_000_000_000_001])
@example([EARLIEST_US, LATEST_US])
def test_column_of_times_equals_single_times(times_us: list[int]):
    assert time_texts(np.array(times_us, np.int64)) == [b'"%b"' % format_us(each).encode() for each in times_us]


@given(_times, st.integers(0, 999))
@example([0, -1, NS_US_MAX, -NS_US_MAX], 999)
@example([0, -1, NS_US_MAX + 1], 999)
@example([0, -1, -NS_US_MAX - 1], 0)
@example([EARLIEST_US, LATEST_US], 1)
def test_nanoseconds_are_exact_for_every_time(times_us: list[int], rest_ns: int):
    rests_ns = np.full(len(times_us), rest_ns, np.int64)

    assert nanosecond_texts(np.array(times_us, np.int64), rests_ns) == [
        b"%d" % (each * 1000 + rest_ns) for each in times_us
    ]
