"""From what the engine has counted and added up to the members of an answer (reference §10.1). Pure.

Percentiles interpolate between the two nearest values, as ``percentile_cont`` does. Densities are rounded to five digits.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Final

from common.codec.checks import json_double
from query_api.analytics.specs import Bins, MetricSpec

PERCENTILES: Final[Mapping[str, float]] = {
    "p00.05": 0.0005,
    "p00.1": 0.001,
    "p00.5": 0.005,
    "p01": 0.01,
    "p02.5": 0.025,
    "p05": 0.05,
    "p10": 0.1,
    "p12.5": 0.125,
    "p20": 0.2,
    "p25": 0.25,
    "p30": 0.3,
    "p37.5": 0.375,
    "p40": 0.4,
    "p50": 0.5,
    "p60": 0.6,
    "p62.5": 0.625,
    "p70": 0.7,
    "p75": 0.75,
    "p80": 0.8,
    "p87.5": 0.875,
    "p90": 0.9,
    "p95": 0.95,
    "p97.5": 0.975,
    "p99": 0.99,
    "p99.5": 0.995,
    "p99.9": 0.999,
    "p99.95": 0.9995,
}
_SPREADS: Final[Mapping[str, tuple[str, str]]] = {
    "25": ("p37.5", "p62.5"),
    "50": ("p25", "p75"),
    "75": ("p12.5", "p87.5"),
    "80": ("p10", "p90"),
    "90": ("p05", "p95"),
    "95": ("p02.5", "p97.5"),
    "99": ("p00.5", "p99.5"),
    "99.9": ("p00.05", "p99.95"),
}
"""How much of the values lies between which two percentiles."""

_SMALL: Final = 100
"""A median so many times smaller than the ends is no measure for a spread."""


def numbers(*, count: int, total: float, low: float, high: float, percentiles: Sequence[float]) -> dict[str, Any]:
    """What is said of numbers of both kinds. ``percentiles`` in the order of ``PERCENTILES``."""
    named = dict(zip(PERCENTILES, percentiles, strict=True))
    spreads = {name: named[upper] - named[lower] for name, (lower, upper) in _SPREADS.items()}
    members: dict[str, Any] = {
        "count": count,
        "sum": json_double(total),
        "mean": json_double(total / count),
        "min": json_double(low),
        "max": json_double(high),
        "range": json_double(high - low),
        "pcts": {name: json_double(value) for name, value in named.items()},
        "iqrs": {f"iqr{name}": json_double(value) for name, value in spreads.items()},
    }
    if not _has_unfit_median(named):
        median = named["p50"]
        members["pscs"] = {
            f"psc{name}": json_double(value / median if median else 0.0) for name, value in spreads.items()
        }
    return members


def histogram(
    spec: MetricSpec, counts: Mapping[int, int], *, count: int, low: float, high: float
) -> list[dict[str, Any]]:
    """Every bin, empty ones too, numbered from 1. ``counts``: how many values are in which bin, from 0."""
    bins = Bins(spec, count=count, low=low, high=high)
    return [
        {
            "bin": index + 1,
            "count": counts.get(index, 0),
            "interval": [json_double(edge) for edge in bins.interval(index)],
            "density": _density(counts.get(index, 0), sum(counts.values())),
        }
        for index in range(bins.count)
    ]


def frequencies(counts: Iterable[tuple[Any, int]], *, count: int) -> dict[str, Any]:
    """The values in the order of ``counts``, and how often each occurs among ``count``."""
    freq = [{"value": value, "count": times, "density": _density(times, count)} for value, times in counts]
    return {"freq": freq, "uniq": [each["value"] for each in freq]}


def _has_unfit_median(named: Mapping[str, float]) -> bool:
    low, median, high = named["p01"], abs(named["p50"]), named["p99"]
    return low * high < 0 or median < abs(high) / _SMALL or median < abs(low) / _SMALL


def _density(times: int, count: int) -> float:
    return round(times / count, 5) if count else 0.0
