"""Requests and responses of the analytics routes as pydantic models (reference §1.4, §10.1, §10.2).

Members are flat in the query string or the body; the body takes precedence, member by member. ``windowing`` and
``filtering`` in the body, as on ``/spans/query``, apply to members that are not given flat.
"""

from __future__ import annotations

from enum import StrEnum
from typing import Annotated, Any, Final, Literal, TypeAlias

from pydantic import BeforeValidator, Field, field_validator, model_validator

from query_api.filter.language import is_cost_path
from query_api.filter.parse import PATH_SEGMENTS_MAX, FilteringModel, check_groups
from query_api.request.json_body import ApiModel, Listed, ShownTime, Strict, parse_json_text, refuse_boolean
from query_api.request.references import Moment
from query_api.spans.windowing import BasicWindowing, Filtering, Focus, Format, WindowBy

SPECS_MAX: Final = 64
BINS_MAX: Final = 1_024
PATH_CHARS_MAX: Final = 4_096
ATTRIBUTES: Final = "attributes."


class MetricType(StrEnum):
    """The type of the values that count; it decides which statistics are computed."""

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
    """A value of spans, and the statistics to compute."""

    type: MetricType = Field(description="The type of the values that count. `*`: any type; `none`: no statistics.")
    path: str = Field(
        max_length=PATH_CHARS_MAX,
        description="A dotted path in the attributes, with or without a leading `attributes.`.",
    )
    bins: int | None = Field(
        None, ge=1, le=BINS_MAX, description="Bins of the histogram. Default: the square root of the count, rounded up."
    )
    vmin: float | None = Field(
        None, allow_inf_nan=False, description="The start of the histogram. Default: the smallest value."
    )
    vmax: float | None = Field(
        None, allow_inf_nan=False, description="The end of the histogram. Default: the largest value."
    )
    edge: bool | None = Field(None, description="Whether the last bin includes `vmax`. Default: true.")

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
            raise ValueError(f"the path has {segments_count} segments; at most {PATH_SEGMENTS_MAX} are allowed")
        return path

    @property
    def key(self) -> str:
        """The path without a leading ``attributes.``."""
        return self.path.removeprefix(ATTRIBUTES)

    @property
    def are_costs(self) -> bool:
        """Whether the numbers are amounts of money (``common/usage.py``)."""
        return is_cost_path(self.key.split("."))


DEFAULT_SPECS: Final = (
    MetricSpec(type=MetricType.CONTINUOUS, path="attributes.ag.metrics.duration.cumulative"),
    MetricSpec(type=MetricType.CONTINUOUS, path="attributes.ag.metrics.errors.cumulative"),
    MetricSpec(type=MetricType.CONTINUOUS, path="attributes.ag.metrics.costs.cumulative.total"),
    MetricSpec(type=MetricType.CONTINUOUS, path="attributes.ag.metrics.tokens.cumulative.total"),
    MetricSpec(type=MetricType.SINGLE, path="attributes.ag.type.trace"),
    MetricSpec(type=MetricType.SINGLE, path="attributes.ag.type.span"),
)


def _json_or_value(value: Any) -> Any:
    """Parse a member that may be JSON as a string."""
    if isinstance(value, list) and value and all(isinstance(item, str) for item in value):
        value = value[-1]  # the last of a repeated name in the query string
    return parse_json_text(value) if isinstance(value, str) else value


def _filter(value: Any) -> Any:
    loaded = _json_or_value(value)
    check_groups(loaded, path="filter")
    return loaded


Filter = Annotated[FilteringModel | None, BeforeValidator(_filter, json_schema_input_type=FilteringModel | str | None)]
Specs = Annotated[
    Listed[MetricSpec] | None, BeforeValidator(_json_or_value, json_schema_input_type=list[MetricSpec] | str | None)
]


class AnalyticsParameters(Strict):
    """The spans that count, and the buckets of time."""

    focus: Focus | None = Field(
        None, description="`trace` (default): only root spans count. `span`: every span counts."
    )
    format: Format | None = Field(None, description="Accepted, without effect.")
    by: WindowBy | None = Field(
        None, description="The time of a span that the window and its buckets follow. Default: start_time."
    )
    oldest: Moment = Field(
        None,
        description="The start of the window, included; a relative time too (`-1h`). Default: 30 days before `newest`.",
    )
    newest: Moment = Field(
        None,
        description="The end of the window, excluded; a relative time too (`now`). Default: the next midnight, UTC.",
    )
    interval: int | None = Field(
        None,
        gt=0,
        description="Minutes per bucket; coarser if there would be more than 1,024 buckets. Default: one bucket.",
    )
    rate: float | None = Field(
        None, ge=0, le=1, description="The share of traces that is sampled, from 0 to 1. Default: 1, all of them."
    )
    filter: Filter = Field(
        None, description="The filter of the spans: the same as `filtering`, or its JSON as a string."
    )
    explain: bool | None = Field(None, description="Whether to return how the response was computed.")

    _are_numbers = field_validator("interval", "rate", mode="before")(refuse_boolean)


class CountsParameters(AnalyticsParameters):
    """The spans that count, and the buckets of time."""

    limit: int | None = Field(None, description="No effect: every bucket of the window is returned.")


class MetricsParameters(AnalyticsParameters):
    """The spans that count, the buckets of time, and the statistics to compute."""

    specs: Specs = Field(
        None,
        max_length=SPECS_MAX,
        description="The statistics to compute, or their JSON as a string. Default: six of the trace, see the docs.",
    )


class _Nested(Strict):
    windowing: BasicWindowing | None = Field(
        None, description="`by`, `newest`, `oldest`, `interval` and `rate`, unless they are given at the top level."
    )
    filtering: Filtering = Field(None, description="The filter of the spans, unless `filter` is given.")


class CountsQuery(_Nested, CountsParameters):
    """A request for counts and sums."""


class MetricsQuery(_Nested, MetricsParameters):
    """A request for statistics."""


Sum: TypeAlias = float | Literal["Infinity", "-Infinity", "NaN"]
"""A number past the largest double is a text, as in all responses."""


class TotalsModel(ApiModel):
    """The sums of the spans of a bucket. A sum to which no span adds is absent, or 0 if the bucket has no spans."""

    count: int
    duration: Sum | None = Field(None, description="Milliseconds.")
    costs: Sum | None = None
    tokens: Sum | None = None


class _Bucket(ApiModel):
    timestamp: ShownTime = Field(description="The start of the bucket.")
    interval: int = Field(description="Minutes per bucket.")


class CountsBucket(_Bucket):
    """A bucket of time."""

    total: TotalsModel
    errors: TotalsModel = Field(description="The sums of the spans that have an event named `exception`.")


class CountsResponse(ApiModel):
    """Every bucket of the window, earliest first."""

    count: int = Field(description="The number of buckets.")
    buckets: list[CountsBucket]
    explain: dict[str, Any] | None = Field(None, description="How the response was computed, if `explain` was set.")


class MetricsBucket(_Bucket):
    """A bucket of time."""

    metrics: dict[str, dict[str, Any]] = Field(
        description="By path, which begins with `attributes.`: the `type` and the statistics of the values."
    )


class AppliedFormatting(ApiModel):
    """Whether traces or spans are counted."""

    focus: Focus
    format: Format


class AppliedWindowing(ApiModel):
    """The window and the buckets, with defaults filled in."""

    by: WindowBy
    newest: ShownTime
    oldest: ShownTime
    interval: int = Field(description="Minutes per bucket.")
    rate: float | None = None


class AppliedQuery(ApiModel):
    """The request with defaults filled in."""

    formatting: AppliedFormatting
    windowing: AppliedWindowing
    filtering: FilteringModel


class MetricsResponse(ApiModel):
    """The buckets that have values, earliest first."""

    count: int = Field(description="The number of buckets.")
    buckets: list[MetricsBucket]
    query: AppliedQuery
    specs: list[MetricSpec]
    explain: dict[str, Any] | None = Field(None, description="How the response was computed, if `explain` was set.")
