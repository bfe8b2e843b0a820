"""What is said of numbers and of categories, from what the engine has counted (definitions: docs/analytics.md). Pure."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Final

from common.codec.checks import json_double

_TAIL: Final = (0.05, 0.1, 0.5, 1)
PERCENTILES: Final = (*_TAIL, *range(5, 100, 5), *(100 - each for each in reversed(_TAIL)))
"""In percent: every fifth, and four in each tail. Where one lies between two values it is interpolated linearly."""

MIDDLES: Final[Mapping[str, tuple[float, float]]] = {
    f"{100 - 2 * below:g}": (below, 100 - below) for below in (25, 20, 10, 5, 1, 0.5, 0.1, 0.05)
}
"""How much of all values lies in the middle, in percent → between which percentiles."""

_TINY: Final = 1e-9
"""Of the distance of p01 and p99: a median that small is zero, but for rounding."""


def numbers(*, count: int, total: float, low: float, high: float, percentiles: Sequence[float]) -> dict[str, Any]:
    """What is said of numbers. ``percentiles`` in the order of ``PERCENTILES``."""
    at = dict(zip(PERCENTILES, percentiles, strict=True))
    widths = {share: at[above] - at[below] for share, (below, above) in MIDDLES.items()}
    members: dict[str, Any] = {
        "count": count,
        "sum": json_double(total),
        "mean": json_double(total / count),
        "min": json_double(low),
        "max": json_double(high),
        "range": json_double(high - low),
        "pcts": {percentile_name(percent): json_double(value) for percent, value in at.items()},
        "iqrs": {f"iqr{share}": json_double(width) for share, width in widths.items()},
    }
    if _is_a_measure(at[50], low=at[1], high=at[99]):
        members["pscs"] = {f"psc{share}": json_double(width / abs(at[50])) for share, width in widths.items()}
    return members


def percentile_name(percent: float) -> str:
    """As ``p05`` or ``p99.95``: two digits, and a fraction where there is one."""
    whole, point, fraction = f"{percent:g}".partition(".")
    return f"p{whole:0>2}{point}{fraction}"


def frequencies(counts: Iterable[tuple[Any, int]], *, count: int, distinct_count: int) -> dict[str, Any]:
    """How often each value occurs among ``count``, in the order of ``counts``, and how many different values there are."""
    freq = [{"value": value, "count": times, "density": times / count} for value, times in counts]
    return {"freq": freq, "uniq": distinct_count}


def _is_a_measure(median: float, *, low: float, high: float) -> bool:
    """Whether spreads may be told in medians: of values of one sign, and of a median that is not tiny beside them."""
    return not (low < 0 < high) and abs(median) > _TINY * (high - low)
