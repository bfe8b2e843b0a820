"""Statistics of numbers and categories: percentiles, spreads, shares, bins."""

from __future__ import annotations

from itertools import chain
from typing import Any

import numpy as np
import pytest

from query_api.analytics.statistics import PERCENTILES, Bins, frequencies, histogram, numbers, percentile_name

SHARES = ["50", "60", "80", "90", "98", "99", "99.8", "99.9"]


def _numbers(found: list[float]) -> dict[str, Any]:
    levels = [float(np.quantile(found, percent / 100)) for percent in PERCENTILES]
    row = {"count": len(found), "sum": sum(found), "min": min(found), "max": max(found), "percentiles": levels}
    return numbers(row)


def test_27_percentiles_are_symmetric() -> None:
    assert len(PERCENTILES) == 27
    assert list(PERCENTILES) == sorted(PERCENTILES)
    assert [100 - each for each in reversed(PERCENTILES)] == pytest.approx(list(PERCENTILES))
    assert (percentile_name(PERCENTILES[0]), percentile_name(PERCENTILES[-1])) == ("p00.05", "p99.95")
    assert [percentile_name(each) for each in (1, 5, 50)] == ["p01", "p05", "p50"]


def test_spread_of_evenly_spread_values_is_their_share() -> None:
    members = _numbers([float(each) for each in range(10_001)])

    assert members["iqrs"] == {f"iqr{share}": pytest.approx(float(share) * 100) for share in SHARES}
    assert members["iqrs"]["iqr50"] == members["pcts"]["p75"] - members["pcts"]["p25"]
    assert (members["mean"], members["range"], members["pcts"]["p99.9"]) == (5_000, 10_000, pytest.approx(9_990))


@pytest.mark.parametrize("sign", [1, -1])
def test_spread_in_medians_does_not_depend_on_unit_or_sign(sign: int) -> None:
    small, large = (_numbers([sign * unit * each for each in (1.0, 2.0, 3.0, 4.0)]) for unit in (1e-12, 1e8))

    assert small["pscs"] == pytest.approx(large["pscs"])
    assert small["pscs"]["psc50"] == pytest.approx(1.5 / 2.5)
    assert list(small["pscs"]) == [f"psc{share}" for share in SHARES]


@pytest.mark.parametrize(
    "found",
    [[-1.0, 1.0, 1.0], [0.0, 0.0, 5.0], [0.0, 0.0], [0.0, 1e-10, 1.0]],
    ids=["signs", "zero", "zeros", "tiny"],
)
def test_meaningless_spreads_in_medians_are_absent(found: list[float]) -> None:
    assert "pscs" not in _numbers(found)


@pytest.mark.parametrize(
    "found",
    [[3.0, 3.0], [0.0, 1e-8, 1.0], [0.0, 1.0, 2.0], [-2.0, -1.0, 0.0], [-1.0, *map(float, range(1, 1_000))]],
    ids=["equal", "small", "from-zero", "to-zero", "one-astray"],
)
def test_spreads_in_small_medians_of_one_sign_are_present(found: list[float]) -> None:
    assert "pscs" in _numbers(found)


def test_statistics_of_integers_are_integers() -> None:
    members = _numbers([-4.0, -4.0])

    said = [members[name] for name in ("sum", "mean", "min", "max", "range")]
    assert said == [-8, -4, -4, -4, 0]
    groups = [members[name].values() for name in ("pcts", "iqrs", "pscs")]
    assert all(isinstance(each, int) for each in (*said, *chain.from_iterable(groups)))


def test_width_past_the_largest_double_is_a_text() -> None:
    levels = [-1.7e308] * 13 + [0.0] + [1.7e308] * 13

    members = numbers({"count": 3, "sum": 0.0, "min": -1.7e308, "max": 1.7e308, "percentiles": levels})

    assert members["range"] == "Infinity"
    assert set(members["iqrs"].values()) == {"Infinity"}


def test_frequencies_have_shares_and_count_different_values() -> None:
    assert frequencies([("a", 2), ("b", 1)], count=4, distinct_count=3) == {
        "freq": [{"value": "a", "count": 2, "density": 0.5}, {"value": "b", "count": 1, "density": 0.25}],
        "uniq": 3,
    }


def test_bins_are_adjacent_numbered_from_1_and_include_empty_ones() -> None:
    hist = histogram(Bins(0.0, 8.0, 4), [3, 0, 0, 1])

    assert repr([each["interval"] for each in hist]) == "[[0, 2], [2, 4], [4, 6], [6, 8]]"
    assert [(each["bin"], each["count"], each["density"]) for each in hist] == [
        (1, 3, 0.75),
        (2, 0, 0.0),
        (3, 0, 0.0),
        (4, 1, 0.25),
    ]


def test_bins_without_values_have_no_share() -> None:
    assert [each["density"] for each in histogram(Bins(0.0, 1.0, 2), [0, 0])] == [0.0, 0.0]


@pytest.mark.parametrize("last", [1e300, 1.7e308])
def test_bins_span_the_whole_range_of_doubles(last: float) -> None:
    bins = Bins(-last, last, 4)

    begins = [bins.begin(index) for index in range(5)]

    assert begins == pytest.approx([-last, -last / 2, 0, last / 2, last])
    assert (begins[0], begins[-1]) == (-last, last)


def test_starts_of_bins_near_the_largest_doubles_are_distinct() -> None:
    bins = Bins(-1e306, 1e306, 1_024)

    begins = [bins.begin(index) for index in range(1_025)]

    assert begins == pytest.approx([index * (2e306 / 1_024) - 1e306 for index in range(1_025)])


def test_last_bin_ends_exactly_at_last() -> None:
    ends = [Bins(0.1, last, 3).begin(3) for last in (0.3, 0.7, 0.9, 1.1, 2.3)]

    assert ends == [0.3, 0.7, 0.9, 1.1, 2.3]


def test_bins_of_the_smallest_doubles_end_exactly_at_last() -> None:
    assert [Bins(0.0, 5e-324, 2).begin(index) for index in (0, 2)] == [0.0, 5e-324]
