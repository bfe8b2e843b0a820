"""What is asked of a value: which of its kinds counts, and how its histogram is cut (reference §10.1; definitions: docs/analytics.md)."""

from __future__ import annotations

from enum import StrEnum
from typing import Final

from pydantic import Field, field_validator, model_validator

from query_api.filter.parse import PATH_SEGMENTS_MAX
from query_api.request.body_models import Strict, refuse_boolean

BINS_MAX: Final = 1_024
PATH_CHARS_MAX: Final = 4_096
ATTRIBUTES: Final = "attributes."


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


class MetricSpec(Strict):
    """One value of spans, and what is to be said of it."""

    type: MetricType = Field(description="Which values count. `*`: any; `none`: nothing is said.")
    path: str = Field(
        max_length=PATH_CHARS_MAX,
        description="Dotted path in the attributes, with `attributes.` before it or not.",
    )
    bins: int | None = Field(
        None, ge=1, le=BINS_MAX, description="Bins of the histogram; default the square root of the count, rounded up."
    )
    vmin: float | None = Field(
        None, allow_inf_nan=False, description="Where the histogram begins; default the smallest value."
    )
    vmax: float | None = Field(
        None, allow_inf_nan=False, description="Where the histogram ends; default the largest value."
    )
    edge: bool | None = Field(None, description="Whether a value of exactly vmax lies in the last bin; default true.")

    _are_numbers = field_validator("bins", "vmin", "vmax", mode="before")(refuse_boolean)

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
