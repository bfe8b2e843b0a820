"""Statistics of numbers and categories from what the engine has counted, and histograms (definitions:
docs/analytics.md).

Pure, except that ``counting_steps`` writes the SQL that counts the values in each bin.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

from common.codec.checks import json_double
from common.usage import rounded
from query_api.analytics.models import BINS_MAX, MetricSpec
from query_api.filter.sql.expressions import Parameters

_TAIL: Final = (0.05, 0.1, 0.5, 1)
PERCENTILES: Final = (*_TAIL, *range(5, 100, 5), *(100 - percent for percent in reversed(_TAIL)))
"""In percent: every fifth, and four in each tail. A percentile between two values is interpolated linearly."""

MIDDLES: Final[Mapping[str, tuple[float, float]]] = {
    f"{100 - 2 * below:g}": (below, 100 - below) for below in (25, 20, 10, 5, 1, 0.5, 0.1, 0.05)
}
"""The share of values in the middle, in percent → the percentiles between which they lie."""

_TINY: Final = 1e-9
"""A median below this part of the distance between p01 and p99 is zero except for rounding."""


def numbers(row: Mapping[str, Any], *, are_costs: bool = False) -> dict[str, Any]:
    """Return the statistics of numbers.

    ``row``: ``count``, ``sum``, ``min``, ``max`` and ``percentiles``, in the order of ``PERCENTILES``. Those of costs
    are rounded to the decimals of money.
    """
    shown = (lambda number: json_double(rounded(number))) if are_costs else json_double
    count, low, high = row["count"], row["min"], row["max"]
    at = dict(zip(PERCENTILES, row["percentiles"], strict=True))
    widths = {share: at[above] - at[below] for share, (below, above) in MIDDLES.items()}
    members: dict[str, Any] = {
        "count": count,
        "sum": shown(row["sum"]),
        "mean": shown(row["sum"] / count),
        "min": shown(low),
        "max": shown(high),
        "range": shown(high - low),
        "pcts": {percentile_name(percent): shown(value) for percent, value in at.items()},
        "iqrs": {f"iqr{share}": shown(width) for share, width in widths.items()},
    }
    if _is_a_measure(at[50], low=at[1], high=at[99]):
        members["pscs"] = {f"psc{share}": json_double(width / abs(at[50])) for share, width in widths.items()}
    return members


def percentile_name(percent: float) -> str:
    """Return a name such as ``p05`` or ``p99.95``: two digits, and a fraction if there is one."""
    whole, point, fraction = f"{percent:g}".partition(".")
    return f"p{whole:0>2}{point}{fraction}"


def frequencies(counts: Iterable[tuple[Any, int]], *, count: int, distinct_count: int) -> dict[str, Any]:
    """Return how often each value occurs among ``count``, in the order of ``counts``, and the number of different
    values."""
    freq = [{"value": value, "count": times, "density": times / count} for value, times in counts]
    return {"freq": freq, "uniq": distinct_count}


def _is_a_measure(median: float, *, low: float, high: float) -> bool:
    """Whether spreads can be given in medians: values have one sign, and the median is not tiny compared to them."""
    return not (low < 0 < high) and abs(median) > _TINY * (high - low)


HUGE: Final = 1e300
SHRINKING: Final = 2.0**-12
"""The scale of computations past ``HUGE``, exact there: the distance of two doubles times the number of bins may be
past the largest double."""


@dataclass(frozen=True, slots=True)
class Bins:
    """The bins of a histogram, equally wide from ``first`` to ``last``.

    A bin includes its start and excludes its end; the last bin includes ``last``. The engine computes starts by the
    same operations on doubles (``counting_steps``), so that its counts fit the intervals to the last bit.
    """

    first: float
    last: float
    count: int

    def begin(self, index: int) -> float:
        """Return the start of a bin, counted from 0; the start of ``count`` is the end of the last bin."""
        if index in (0, self.count):
            return self.last if index else self.first
        scale = SHRINKING if max(abs(self.first), abs(self.last)) > HUGE else 1.0
        first, last = self.first * scale, self.last * scale
        return (first + index * (last - first) / self.count) / scale


def histogram(bins: Bins, counts: Sequence[int]) -> list[dict[str, Any]]:
    """Return every bin, empty ones too, with its share of the values in bins; numbered from 1, like SQL's
    ``width_bucket``."""
    total = sum(counts)
    return [
        {
            "bin": index + 1,
            "count": count,
            "interval": [json_double(bins.begin(index)), json_double(bins.begin(index + 1))],
            "density": count / total if total else 0.0,
        }
        for index, count in enumerate(counts)
    ]


def counting_steps(spec: MetricSpec, prefix: str, parameters: Parameters) -> list[Mapping[str, str]]:
    """Return the steps from ``count``, ``min``, ``max`` and ``values`` of a bucket to ``first``, ``last`` and ``bins``,
    the counts.

    Each step maps names to expressions over the columns of the steps before. All names start with ``prefix``.
    """
    p, place = prefix, parameters.place
    bins_count = (
        f"toUInt32(least(ceil(sqrt({p}count)), {BINS_MAX}))" if spec.bins is None else place("UInt32", spec.bins)
    )
    ends_before = "<" if spec.vmax is not None and spec.edge is False else "<="
    guess = f"({p}scale * value - {p}scale * {p}first) * {p}bins_count / {p}length"
    last_bin = f"(toInt64({p}bins_count) - 1)"
    is_too_high = f"value < {_begin('bin', p)}"  # the guess is wrong by at most one bin
    is_too_low = f"bin < {last_bin} AND value >= {_begin('(bin + 1)', p)}"
    corrected = f"bin - ({is_too_high}) + ({is_too_low})"
    counted = f"arrayReduce('countResample(0, {BINS_MAX}, 1)', {p}in_bins)"
    return [
        {
            f"{p}first": f"ifNull({p}min, 0)" if spec.vmin is None else place("Float64", spec.vmin),
            f"{p}last": f"ifNull({p}max, 0)" if spec.vmax is None else place("Float64", spec.vmax),
        },
        {
            f"{p}bins_count": f"multiIf({p}first > {p}last, 0, {p}first = {p}last, 1, {bins_count})",
            f"{p}scale": f"if(greatest(abs({p}first), abs({p}last)) > {HUGE}, {SHRINKING}, 1.)",
            f"{p}inside": f"arrayFilter(value -> value >= {p}first AND value {ends_before} {p}last, {p}values)",
        },
        {f"{p}length": f"if({p}first = {p}last, 1., {p}scale * {p}last - {p}scale * {p}first)"},
        {f"{p}guessed": f"arrayMap(value -> least(toInt64(floor({guess})), {last_bin}), {p}inside)"},
        {f"{p}in_bins": f"arrayMap((value, bin) -> toUInt32({corrected}), {p}inside, {p}guessed)"},
        {f"{p}bins": f"arrayResize({counted}, {p}bins_count)"},
    ]


def _begin(bin_: str, prefix: str) -> str:
    """``Bins.begin`` in SQL, for a bin that is not past the last."""
    p = prefix
    return f"if({bin_} = 0, {p}first, ({p}scale * {p}first + {bin_} * {p}length / {p}bins_count) / {p}scale)"
