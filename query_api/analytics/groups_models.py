"""The request and the response of ``POST /spans/groups/query`` (contract §3.5)."""

from __future__ import annotations

from enum import StrEnum
from typing import Annotated, Any, Final, TypeAlias

from pydantic import BeforeValidator, ConfigDict, Field, field_validator
from typing_extensions import TypeAliasType

from query_api.explain.explain import Explain, Explanation
from query_api.filter.language import ATTRIBUTES, FIELDS
from query_api.request.json_body import ApiModel, Listed, ShownTime, Strict, refuse_boolean
from query_api.request.references import Bound, ReferenceIn
from query_api.spans.windowing import Filtering

GROUP_BY_MAX: Final = 3
MEASURES_MAX: Final = 16
LIMIT_MAX: Final = 1_000
LIMIT_DEFAULT: Final = 100
COUNT: Final = "count"
ERRORS: Final = "errors"


class Aggregate(StrEnum):
    """What is computed of the values of a group."""

    SUM = "sum"
    AVG = "avg"
    MIN = "min"
    MAX = "max"
    P50 = "p50"
    P90 = "p90"
    P95 = "p95"
    P99 = "p99"
    UNIQ = "uniq"


class Interval(StrEnum):
    """The length of a bucket of time."""

    MINUTE = "1m"
    MINUTES_5 = "5m"
    MINUTES_15 = "15m"
    MINUTES_30 = "30m"
    HOUR = "1h"
    HOURS_3 = "3h"
    HOURS_6 = "6h"
    HOURS_12 = "12h"
    DAY = "1d"

    @property
    def us(self) -> int:
        """The length in microseconds."""
        return int(self[:-1]) * {"m": 60, "h": 3_600, "d": 86_400}[self[-1]] * 1_000_000


class GroupOrder(StrEnum):
    """The direction of the order of groups."""

    ASCENDING = "ascending"
    DESCENDING = "descending"


class FieldAndKey(Strict):
    """A field, and the path of a value in it if the field holds JSON."""

    field: str = Field(
        max_length=64, description="The field: `attributes`, `resource`, `scope`, `scores` or any field."
    )
    key: str | None = Field(
        None,
        max_length=4_096,
        description="A dotted path in the field, such as `ag.session.id`; for `scores` the name of a score.",
    )


def _field_named(value: Any) -> Any:
    return {"field": value[:64]} if isinstance(value, str) else value


def _field_or_attribute(value: Any) -> Any:
    if not isinstance(value, str):
        return value
    is_field = value in FIELDS or value in (COUNT, ERRORS)
    return {"field": value} if is_field else {"field": ATTRIBUTES, "key": value}


GroupBy: TypeAlias = Annotated[FieldAndKey, BeforeValidator(_field_named, json_schema_input_type=FieldAndKey | str)]
Measured: TypeAlias = Annotated[
    FieldAndKey, BeforeValidator(_field_or_attribute, json_schema_input_type=FieldAndKey | str)
]
_OF: Final = (
    "`count`, `errors` (spans with the status ERROR), `duration` (milliseconds), `tokens`, `cost`, another field, or"
    " the path of an attribute; `{field, key}` for values of `resource` and `scope` and for scores."
)


class MeasureModel(Strict):
    """A value of spans, and what to compute of it."""

    model_config = ConfigDict(populate_by_name=True)

    of: Measured = Field(description=_OF)
    statistics: Listed[Aggregate] | None = Field(
        None,
        alias="as",
        max_length=len(Aggregate),
        description="What to compute; not for `count` and `errors`. Times have `min`, `max` and `uniq`, other values"
        " that are not numbers `uniq`.",
    )


class OrderByModel(Strict):
    """The measure by which groups are ordered and chosen."""

    model_config = ConfigDict(populate_by_name=True)

    of: Measured = Field(description=_OF)
    statistic: Aggregate | None = Field(None, alias="as", description="The statistic; not for `count` and `errors`.")
    order: GroupOrder = Field(
        GroupOrder.DESCENDING, description="Default descending. Groups without a value are always last."
    )


class GroupsWindowing(Strict):
    """The spans that count, by their start_time."""

    oldest: Bound | None = Field(None, description="The start of the window, included.")
    newest: Bound | None = Field(None, description="The end of the window, excluded.")
    rate: float | None = Field(
        None, ge=0, le=1, description="The share of traces that is sampled, from 0 to 1; default 1, all of them."
    )

    _is_number = field_validator("rate", mode="before")(refuse_boolean)


class GroupsQuery(Strict):
    """Groups of spans and what to compute of each. Without members: the number of all spans.

    References name a saved query. Its conditions apply in addition to those of the request, and its window supplies
    `oldest`, `newest` and `rate` if the request does not set them.
    """

    model_config = ConfigDict(
        json_schema_extra={
            "examples": [
                {
                    "windowing": {"oldest": "2026-01-02T00:00:00Z", "newest": "2026-01-03T00:00:00Z"},
                    "group_by": ["model", {"field": "attributes", "key": "customer"}],
                    "measures": [{"of": "count"}, {"of": "cost", "as": ["sum", "p95"]}],
                    "order_by": {"of": "cost", "as": "sum"},
                    "interval": "1h",
                    "limit": 5,
                }
            ]
        }
    )

    filtering: Filtering = Field(None, description="The filter of the spans.")
    windowing: GroupsWindowing | None = Field(None, description="The spans that count, by their start_time.")
    query_ref: ReferenceIn | None = Field(None, description="A saved query: the newest revision of its first variant.")
    query_variant_ref: ReferenceIn | None = Field(None, description="A variant of a saved query: its newest revision.")
    query_revision_ref: ReferenceIn | None = Field(
        None, description="A revision of a saved query, by id or slug; or by version, with one of the other references."
    )
    group_by: Listed[GroupBy] | None = Field(
        None,
        max_length=GROUP_BY_MAX,
        description="Up to 3 fields, or `{field, key}` for a value in JSON or the label of a score."
        " Spans with the same values are a group; a"
        " value that is absent, an object or an array is null. Default: all spans are one group.",
    )
    measures: Listed[MeasureModel] | None = Field(
        None, max_length=MEASURES_MAX, description="What to compute of each group. Default: `count`."
    )
    interval: Interval | None = Field(
        None, description="Make a time series: split each group into buckets of start_time, aligned to UTC."
    )
    totals: bool = Field(
        False,  # noqa: FBT003 - the default of a field
        description="In a time series: return the values of each group over the whole window, too.",
    )
    order_by: OrderByModel | None = Field(None, description="Default: `count`, descending.")
    limit: int | None = Field(
        None, ge=1, le=LIMIT_MAX, description="Groups over the whole window; default 100. `others` has the rest."
    )
    explain: Explain = None

    _is_number = field_validator("limit", mode="before")(refuse_boolean)


GroupValue: TypeAlias = str | int | float | bool | None
Statistics = TypeAliasType("Statistics", dict[str, float | str])
"""Values by statistic: numbers, and times as text. A sum past the largest double is the text `Infinity`."""

MeasuredValues = TypeAliasType("MeasuredValues", dict[str, float | str | Statistics])
"""By measure: a count, or values by statistic. Named, so that generated clients have these names, too."""


class GroupModel(ApiModel):
    """A group; in a time series one bucket of it."""

    by: dict[str, GroupValue] = Field(description="The values that its spans have, by the key or name of the field.")
    values: MeasuredValues = Field(
        description="By measure: a number for `count` and `errors`, else by statistic. A statistic to which no span"
        " adds is absent."
    )
    at: ShownTime | None = Field(
        None, description="In a time series: the start of the bucket. Empty buckets are omitted."
    )


class GroupTotals(ApiModel):
    """A group over the whole window."""

    by: dict[str, GroupValue] = Field(description="The values that its spans have, by the key or name of the field.")
    values: MeasuredValues = Field(description="By measure, as in `groups`.")


class OthersBucket(ApiModel):
    """One bucket of the spans that are in no group of the response."""

    values: MeasuredValues
    at: ShownTime


class OthersModel(ApiModel):
    """The spans that are in no group of the response."""

    groups_count: int = Field(description="The number of their groups.")
    values: MeasuredValues = Field(description="Computed over these spans, not from their groups.")
    series: list[OthersBucket] | None = Field(None, description="In a time series: their buckets.")


class ExaminedModel(ApiModel):
    """The part of the window that was examined."""

    oldest: ShownTime = Field(description="Its start, included.")
    newest: ShownTime = Field(description="Its end, excluded.")


class GroupsResponse(ApiModel):
    """Groups in the requested order; in a time series, the buckets of a group follow each other."""

    model_config = ConfigDict(
        json_schema_extra={
            "examples": [
                {
                    "count": 1,
                    "groups": [
                        {
                            "by": {"model": "gpt-4o", "customer": None},
                            "values": {"count": 3, "cost": {"sum": 0.5, "p95": 0.25}},
                            "at": "2026-01-02T03:00:00Z",
                        }
                    ],
                    "complete": True,
                }
            ]
        }
    )

    count: int = Field(description="The number of elements of `groups`.")
    groups: list[GroupModel]
    totals: list[GroupTotals] | None = Field(
        None, description="If `totals` was set: each group over the whole window, in the order of the groups."
    )
    others: OthersModel | None = Field(None, description="Present if there are more groups than `limit`.")
    complete: bool = Field(description="False if the budget ended before the whole window was examined.")
    examined: ExaminedModel | None = Field(
        None, description="Present if `complete` is false: the newest part of the window, to which all numbers refer."
    )
    explain: Explanation = None
