"""Where the bins of a histogram lie, and what is said of each."""

from __future__ import annotations

import pytest

from query_api.analytics.histogram import Bins, histogram


def test_bins_lie_side_by_side_numbered_from_1_and_empty_ones_are_told_too() -> None:
    hist = histogram(Bins(0.0, 8.0, 4), [3, 0, 0, 1])

    assert repr([each["interval"] for each in hist]) == "[[0, 2], [2, 4], [4, 6], [6, 8]]"
    assert [(each["bin"], each["count"], each["density"]) for each in hist] == [
        (1, 3, 0.75),
        (2, 0, 0.0),
        (3, 0, 0.0),
        (4, 1, 0.25),
    ]


def test_without_a_value_inside_no_bin_has_a_share() -> None:
    assert [each["density"] for each in histogram(Bins(0.0, 1.0, 2), [0, 0])] == [0.0, 0.0]


@pytest.mark.parametrize("last", [1e300, 1.7e308])
def test_bins_reach_from_one_end_of_all_doubles_to_the_other(last: float) -> None:
    bins = Bins(-last, last, 4)

    begins = [bins.begin(index) for index in range(5)]

    assert begins == pytest.approx([-last, -last / 2, 0, last / 2, last])
    assert (begins[0], begins[-1]) == (-last, last)


def test_no_begin_is_lost_on_the_way_to_the_largest_doubles() -> None:
    bins = Bins(-1e306, 1e306, 1_024)

    begins = [bins.begin(index) for index in range(1_025)]

    assert begins == pytest.approx([index * (2e306 / 1_024) - 1e306 for index in range(1_025)])


def test_the_last_bin_ends_where_it_should_to_the_last_bit() -> None:
    ends = [Bins(0.1, last, 3).begin(3) for last in (0.3, 0.7, 0.9, 1.1, 2.3)]

    assert ends == [0.3, 0.7, 0.9, 1.1, 2.3]


def test_bins_of_the_smallest_doubles_end_where_they_should() -> None:
    assert [Bins(0.0, 5e-324, 2).begin(index) for index in (0, 2)] == [0.0, 5e-324]
