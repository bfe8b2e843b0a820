"""What is asked of a value: its kind of statistics, and how a histogram is cut (reference §10.1)."""

from __future__ import annotations

import math
from enum import StrEnum
from typing import Final

from pydantic import BaseModel, ConfigDict, Field, field_validator, model_validator

from common.filter.parse import PATH_SEGMENTS_MAX

BINS_MAX: Final = 1_024
PATH_CHARS_MAX: Final = 4_096
ATTRIBUTES: Final = "attributes."

HUGE: Final = 1e300
SHRUNK: Final = 2.0**-12
"""Ends of a histogram that are huge are made so much smaller, which is exact: how far they lie apart, times the bins, would be
past the largest double."""


class MetricType(StrEnum):
    """Which values count, and what is said of them."""

    CONTINUOUS = "numeric/continuous"
    DISCRETE = "numeric/discrete"
    BINARY = "binary"
    SINGLE = "categorical/single"
    MULTIPLE = "categorical/multiple"
    STRING = "string"
    JSON = "json"
    NONE = "none"
    ANY = "*"


class MetricSpec(BaseModel):
    """Statistics of one value of spans."""

    model_config = ConfigDict(frozen=True)

    type: MetricType = Field(MetricType.NONE, description="`none` and `*` are legal and say nothing.")
    path: str = Field(
        "*",
        max_length=PATH_CHARS_MAX,
        description="Dotted path in the attributes, with `attributes.` before it or not.",
    )
    bins: int | None = Field(
        None, ge=1, le=BINS_MAX, description="Bins of the histogram; default the root of the count, rounded up."
    )
    vmin: float | None = Field(
        None, allow_inf_nan=False, description="Where the histogram begins; default the smallest value."
    )
    vmax: float | None = Field(
        None, allow_inf_nan=False, description="Where the histogram ends; default the largest value."
    )
    edge: bool | None = Field(
        None, description="Whether it begins and ends with the edge of a bin (default), or its middle."
    )

    @model_validator(mode="after")
    def _is_a_range(self) -> MetricSpec:
        if self.vmin is not None and self.vmax is not None and self.vmin > self.vmax:
            raise ValueError("vmin is above vmax")
        return self

    @field_validator("path")
    @classmethod
    def _is_not_too_deep(cls, path: str) -> str:
        if (segments_count := path.count(".") + 1) > PATH_SEGMENTS_MAX:
            raise ValueError(f"a path of {segments_count} segments; {PATH_SEGMENTS_MAX} are legal")
        return path

    @property
    def key(self) -> str:
        """The path without ``attributes.`` before it."""
        return self.path.removeprefix(ATTRIBUTES)


DEFAULT_SPECS: Final = (
    MetricSpec(type=MetricType.CONTINUOUS, path="attributes.ag.metrics.duration.cumulative"),
    MetricSpec(type=MetricType.CONTINUOUS, path="attributes.ag.metrics.errors.cumulative"),
    MetricSpec(type=MetricType.CONTINUOUS, path="attributes.ag.metrics.costs.cumulative.total"),
    MetricSpec(type=MetricType.CONTINUOUS, path="attributes.ag.metrics.tokens.cumulative.total"),
    MetricSpec(type=MetricType.SINGLE, path="attributes.ag.type.trace"),
    MetricSpec(type=MetricType.SINGLE, path="attributes.ag.type.span"),
)


class Bins:
    """The bins of one histogram: of ``count`` values between ``low`` and ``high``."""

    def __init__(self, spec: MetricSpec, *, count: int, low: float, high: float) -> None:
        self.low = low if spec.vmin is None else spec.vmin
        self.high = high if spec.vmax is None else spec.vmax
        self._is_edge_aligned = spec.edge is not False
        asked = spec.bins or min(math.ceil(math.sqrt(count)), BINS_MAX)
        self.count = 0 if self.low > self.high else 1 if self.low == self.high or count == 1 else asked

    def interval(self, index: int) -> list[float]:
        """Where a bin begins and ends; indexes from 0. The first begins at ``low``, the last ends at ``high``."""
        return [
            self.low if index == 0 else self._edge(index),
            self.high if index == self.count - 1 else self._edge(index + 1),
        ]

    def _edge(self, index: int) -> float:
        scale = SHRUNK if max(abs(self.low), abs(self.high)) > HUGE else 1.0
        low, high = self.low * scale, self.high * scale
        if self._is_edge_aligned:
            return (low + index * (high - low) / self.count) / scale
        return (low + (index - 0.5) * (high - low) / (self.count - 1)) / scale
