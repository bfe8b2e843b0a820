"""Members of answers from counts and sums: spreads, bins, frequencies."""

from __future__ import annotations

import pytest

from query_api.analytics.specs import BINS_MAX, Bins, MetricSpec, MetricType
from query_api.analytics.summaries import PERCENTILES, frequencies, histogram, numbers


def _numbers(*, low: float, median: float, high: float) -> dict[str, object]:
    levels = [low if level < 0.5 else high if level > 0.5 else median for level in PERCENTILES.values()]
    return numbers(count=2, total=low + high, low=low, high=high, percentiles=levels)


def test_there_are_27_percentiles_and_8_spreads() -> None:
    members = _numbers(low=1.0, median=2.0, high=4.0)

    assert len(PERCENTILES) == 27
    assert list(PERCENTILES.values()) == sorted(PERCENTILES.values())
    names = ["25", "50", "75", "80", "90", "95", "99", "99.9"]
    assert members["iqrs"] == {f"iqr{name}": 3 for name in names}
    assert members["pscs"] == {f"psc{name}": 1.5 for name in names}
    assert (members["mean"], members["range"]) == (2.5, 3)


@pytest.mark.parametrize(
    ("low", "median", "high"), [(-1.0, 1.0, 1.0), (0.0, 0.9, 100.0), (-100.0, -0.9, 0.0)], ids=["signs", "high", "low"]
)
def test_spreads_are_not_divided_by_a_median_that_says_nothing(low: float, median: float, high: float) -> None:
    assert "pscs" not in _numbers(low=low, median=median, high=high)


def test_a_median_of_zero_among_zeros_is_a_spread_of_zero() -> None:
    assert set(_numbers(low=0.0, median=0.0, high=0.0)["pscs"].values()) == {0}  # type: ignore[attr-defined]


def test_bins_lie_edge_to_edge_and_hold_the_ends() -> None:
    spec = MetricSpec(type=MetricType.CONTINUOUS, bins=4)

    hist = histogram(spec, {0: 3, 3: 1}, count=4, low=0.0, high=8.0)

    assert [each["interval"] for each in hist] == [[0, 2], [2, 4], [4, 6], [6, 8]]
    assert [(each["bin"], each["count"], each["density"]) for each in hist] == [
        (1, 3, 0.75),
        (2, 0, 0.0),
        (3, 0, 0.0),
        (4, 1, 0.25),
    ]


def test_without_edges_the_ends_are_the_middle_of_bins() -> None:
    bins = Bins(MetricSpec(bins=5, edge=False), count=9, low=0.0, high=8.0)

    assert [bins.interval(index) for index in range(bins.count)] == [[0, 1], [1, 3], [3, 5], [5, 7], [7, 8]]


@pytest.mark.parametrize(
    ("count", "low", "high", "bins"),
    [(1, 0.0, 1.0, 1), (9, 2.0, 2.0, 1), (9, 0.0, 1.0, 3), (10, 0.0, 1.0, 4), (BINS_MAX**2 + 1, 0.0, 1.0, BINS_MAX)],
)
def test_by_default_there_are_as_many_bins_as_the_root_of_the_count(
    count: int, low: float, high: float, bins: int
) -> None:
    assert Bins(MetricSpec(), count=count, low=low, high=high).count == bins


def test_a_range_that_holds_no_value_has_no_bins() -> None:
    assert Bins(MetricSpec(vmin=5.0), count=3, low=0.0, high=4.0).count == 0


def test_densities_are_of_all_values_that_count() -> None:
    assert frequencies([("a", 1), ("b", 1)], count=3) == {
        "freq": [{"value": "a", "count": 1, "density": 0.33333}, {"value": "b", "count": 1, "density": 0.33333}],
        "uniq": ["a", "b"],
    }


@pytest.mark.parametrize(
    ("path", "key"), [("attributes.a.b", "a.b"), ("a.b", "a.b"), ("attributes.attributes.a", "attributes.a")]
)
def test_a_path_begins_with_attributes_or_not(path: str, key: str) -> None:
    assert MetricSpec(path=path).key == key
