"""A histogram, in both places where it is made: the engine counts what is in each bin, Python says where each bin lies.

Bins are equally wide, from ``first`` to ``last``. A value lies in the bin that begins at or below it and ends above it; one of
exactly ``last`` in the last bin. Both places compute where a bin begins by the same operations on doubles, so that the counts
fit the intervals that are shown to the last bit.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

from common.codec.checks import json_double
from query_api.analytics.specs import BINS_MAX, MetricSpec
from query_api.filter.sql.parameters import Parameters

HUGE: Final = 1e300
SHRINKING: Final = 2.0**-12
"""Past ``HUGE`` all is computed on so much smaller a scale, which is exact there: the distance of two doubles, times the number
of bins, may be past the largest double."""


@dataclass(frozen=True, slots=True)
class Bins:
    """Where the bins of a histogram lie."""

    first: float
    last: float
    count: int

    def begin(self, index: int) -> float:
        """Where a bin begins, counted from 0; that of ``count`` is where the last one ends."""
        if index in (0, self.count):
            return self.last if index else self.first
        scale = SHRINKING if max(abs(self.first), abs(self.last)) > HUGE else 1.0
        first, last = self.first * scale, self.last * scale
        return (first + index * (last - first) / self.count) / scale


def histogram(bins: Bins, counts: Sequence[int]) -> list[dict[str, Any]]:
    """Every bin, empty ones too, with its share of all that lie in one; numbered from 1, as SQL's ``width_bucket`` does."""
    in_all = sum(counts)
    return [
        {
            "bin": index + 1,
            "count": count,
            "interval": [json_double(bins.begin(index)), json_double(bins.begin(index + 1))],
            "density": count / in_all if in_all else 0.0,
        }
        for index, count in enumerate(counts)
    ]


def counting_steps(spec: MetricSpec, prefix: str, parameters: Parameters) -> list[Mapping[str, str]]:
    """Steps from ``count``, ``min``, ``max`` and ``values`` of a bucket to ``first``, ``last`` and ``bins``, the counts.

    Each step is columns by name, over those of the steps before. All names have ``prefix`` before them.
    """
    p, place = prefix, parameters.place
    asked = f"toUInt32(least(ceil(sqrt({p}count)), {BINS_MAX}))" if spec.bins is None else place("UInt32", spec.bins)
    ends_before = "<" if spec.vmax is not None and spec.edge is False else "<="
    guess = f"({p}scale * value - {p}scale * {p}first) * {p}bins_count / {p}length"
    last_bin = f"(toInt64({p}bins_count) - 1)"
    corrected = f"bin - (value < {_begin('bin', p)}) + (bin < {last_bin} AND value >= {_begin('(bin + 1)', p)})"  # by one at most
    counted = f"arrayReduce('countResample(0, {BINS_MAX}, 1)', {p}in_bins)"
    return [
        {
            f"{p}first": f"ifNull({p}min, 0)" if spec.vmin is None else place("Float64", spec.vmin),
            f"{p}last": f"ifNull({p}max, 0)" if spec.vmax is None else place("Float64", spec.vmax),
        },
        {
            f"{p}bins_count": f"multiIf({p}first > {p}last, 0, {p}first = {p}last, 1, {asked})",
            f"{p}scale": f"if(greatest(abs({p}first), abs({p}last)) > {HUGE}, {SHRINKING}, 1.)",
            f"{p}inside": f"arrayFilter(value -> value >= {p}first AND value {ends_before} {p}last, {p}values)",
        },
        {f"{p}length": f"if({p}first = {p}last, 1., {p}scale * {p}last - {p}scale * {p}first)"},
        {f"{p}guessed": f"arrayMap(value -> least(toInt64(floor({guess})), {last_bin}), {p}inside)"},
        {f"{p}in_bins": f"arrayMap((value, bin) -> toUInt32({corrected}), {p}inside, {p}guessed)"},
        {f"{p}bins": f"arrayResize({counted}, {p}bins_count)"},
    ]


def _begin(bin_: str, prefix: str) -> str:
    """``Bins.begin``, of a bin that is not past the last."""
    p = prefix
    return f"if({bin_} = 0, {p}first, ({p}scale * {p}first + {bin_} * {p}length / {p}bins_count) / {p}scale)"
