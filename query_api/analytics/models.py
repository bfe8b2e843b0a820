"""What the analytics routes take and give, as pydantic models (reference §1.4, §10.1, §10.2).

Members stand flat in the query string or the body; the body wins, member by member. ``windowing`` and ``filtering`` in the body, as
on ``/spans/query``, are taken too, for what does not stand flat.
"""

from __future__ import annotations

from typing import Annotated, Any, Literal, TypeAlias

from pydantic import BaseModel, BeforeValidator, Field, field_validator

from common.times import parse_time_ns
from query_api.analytics.specs import MetricSpec
from query_api.filter.models import FilteringModel
from query_api.filter.parse import check_groups
from query_api.request.body_models import Listed, Strict, refuse_boolean
from query_api.request.json_body import parse_json_text
from query_api.spans.windowing import Filtering, Focus, Format, WindowBy, Windowing

SPECS_MAX = 64


def _microseconds(value: Any) -> int | None:
    if value is None:
        return None
    if isinstance(value, bool) or not isinstance(value, str | int):
        raise ValueError(  # noqa: TRY004 - pydantic makes problems of these alone
            "a time is ISO 8601 text, or a whole number of 10, 13, 16 or 19 digits since 1970"
        )
    try:
        return parse_time_ns(value) // 1000
    except OverflowError as exc:
        raise ValueError(str(exc)) from exc


def _json_or_value(value: Any) -> Any:
    """A member that may be text holding JSON."""
    if isinstance(value, list) and value and all(isinstance(each, str) for each in value):
        value = value[-1]  # of a name that is repeated in the query string, the last
    return parse_json_text(value) if isinstance(value, str) else value


def _filter(value: Any) -> Any:
    loaded = _json_or_value(value)
    check_groups(loaded, path="filter")
    return loaded


Moment = Annotated[
    int | None,
    BeforeValidator(_microseconds, json_schema_input_type=str | int | None),
]
Filter = Annotated[FilteringModel | None, BeforeValidator(_filter, json_schema_input_type=FilteringModel | str | None)]
Specs = Annotated[
    Listed[MetricSpec] | None, BeforeValidator(_json_or_value, json_schema_input_type=list[MetricSpec] | str | None)
]


class AnalyticsParameters(Strict):
    """Which spans count, and in which buckets of time."""

    focus: Focus | None = Field(None, description="`trace` (default): roots; `span`: every span.")
    format: Format | None = Field(None, description="Legal, and makes no difference here.")
    by: WindowBy | None = Field(
        None, description="Which time of a span the window and its buckets are of; default start_time."
    )
    oldest: Moment = Field(None, description="Where the window begins; default 30 days before newest.")
    newest: Moment = Field(None, description="Where it ends, itself not in it; default the next midnight, UTC.")
    interval: int | None = Field(
        None, gt=0, description="Minutes of a bucket; coarser past 1,024 buckets; default one bucket."
    )
    rate: float | None = Field(None, ge=0, le=1, description="Which part of all traces is looked at.")
    filter: Filter = Field(None, description="Which spans: as filtering, or text that holds its JSON.")
    explain: bool | None = Field(None, description="Whether the answer says how it was found.")

    _are_numbers = field_validator("interval", "rate", mode="before")(refuse_boolean)


class CountsParameters(AnalyticsParameters):
    """Which spans count, and in which buckets of time."""

    limit: int | None = Field(None, description="No effect: every bucket of the window is answered.")


class MetricsParameters(AnalyticsParameters):
    """The same, and which statistics of which values."""

    specs: Specs = Field(
        None, max_length=SPECS_MAX, description="Statistics by path, or text that holds their JSON; default six of all."
    )


class _Nested(Strict):
    windowing: Windowing | None = Field(
        None, description="by, newest, oldest, interval and rate, where not given flat."
    )
    filtering: Filtering = Field(None, description="Which spans, where not given as filter.")


class CountsQuery(_Nested, CountsParameters):
    """A question for counts and sums."""


class MetricsQuery(_Nested, MetricsParameters):
    """A question for statistics."""


Sum: TypeAlias = float | Literal["Infinity", "-Infinity", "NaN"]
"""Past the largest double a text, as everywhere in answers."""


class TotalsModel(BaseModel):
    """Of the spans of a bucket; a sum of nothing is absent, and 0 where there are no spans."""

    count: int
    duration: Sum | None = Field(None, description="Milliseconds.")
    costs: Sum | None = None
    tokens: Sum | None = None


class CountsBucket(BaseModel):
    """One stretch of time."""

    timestamp: str = Field(description="Where it begins.")
    interval: int = Field(description="Minutes.")
    total: TotalsModel
    errors: TotalsModel = Field(description="Of the spans that have an event named exception.")


class CountsResponse(BaseModel):
    """Every bucket of the window, earliest first."""

    count: int = Field(description="Of buckets.")
    buckets: list[CountsBucket]
    explain: dict[str, Any] | None = Field(None, description="How the answer was found, where that was asked.")


class MetricsBucket(BaseModel):
    """One stretch of time."""

    timestamp: str = Field(description="Where it begins.")
    interval: int = Field(description="Minutes.")
    metrics: dict[str, dict[str, Any]] = Field(
        description="By path, beginning with attributes: type, and the statistics of the values that are there."
    )


class AppliedFormatting(BaseModel):
    """Whose values count."""

    focus: Focus
    format: Format


class AppliedWindowing(BaseModel):
    """What the window and the buckets came to."""

    by: WindowBy
    newest: str
    oldest: str
    interval: int = Field(description="Minutes.")
    rate: float | None = None


class AppliedQuery(BaseModel):
    """The question as it was understood."""

    formatting: AppliedFormatting
    windowing: AppliedWindowing
    filtering: FilteringModel


class MetricsResponse(BaseModel):
    """The buckets that have anything, earliest first."""

    count: int = Field(description="Of buckets.")
    buckets: list[MetricsBucket]
    query: AppliedQuery
    specs: list[MetricSpec]
    explain: dict[str, Any] | None = Field(None, description="How the answer was found, where that was asked.")
