"""Requests and responses of the routes of alerts (contract §9)."""

from __future__ import annotations

import re
from datetime import datetime
from typing import Annotated, Any, ClassVar, Final, TypeAlias
from uuid import UUID

from pydantic import AfterValidator, ConfigDict, Discriminator, Field, Tag, field_validator

from query_api.analytics.groups_models import GROUP_BY_MAX, Aggregate, GroupBy, GroupValue, Measured
from query_api.delivery.schemas import NAME_LENGTH_MAX, LastError, SpanSelection, State, TargetOut
from query_api.delivery.targets.models import TargetIn
from query_api.filter.parse import FilteringModel
from query_api.registry.kinds import Slug
from query_api.request.json_body import ApiModel, Listed, Strict, refuse_boolean
from query_api.request.references import Text

WINDOW_S_MAX: Final = 31 * 86_400
EVERY_S_MAX: Final = 86_400
EVERY_DEFAULT: Final = "1m"
_SECONDS: Final = {"s": 1, "m": 60, "h": 3_600, "d": 86_400}
_DURATION: Final = re.compile(r"([1-9][0-9]{0,6})([smhd])")


def duration_s(text: str) -> int:
    """Return the seconds of a duration such as ``10m``. Raises ``ValueError``."""
    found = _DURATION.fullmatch(text)
    if found is None:
        raise ValueError("must be a number and a unit of s m h d, such as 10m")
    return int(found[1]) * _SECONDS[found[2]]


def _at_most(seconds_max: int, shown: str) -> AfterValidator:
    def check(text: str) -> str:
        if duration_s(text) > seconds_max:
            raise ValueError(f"must be at most {shown}")
        return text

    return AfterValidator(check)


class AlertMeasure(Strict):
    """A value of spans, and what to compute of it."""

    model_config = ConfigDict(populate_by_name=True)

    of: Measured = Field(
        description="`count`, `errors`, `duration` (milliseconds), `tokens`, `cost`, another field, or the path of an"
        " attribute, as in the measures of groups."
    )
    statistic: Aggregate | None = Field(
        None, alias="as", description="What to compute of its values; not for `count` and `errors`."
    )


class AlertRatio(Strict):
    """One measure divided by another, such as errors by count. Without a divisor there is no value."""

    ratio: Listed[AlertMeasure] = Field(min_length=2, max_length=2, description="The dividend and the divisor.")


def _measure_tag(value: Any) -> str:
    return "quotient" if isinstance(value, AlertRatio) or (isinstance(value, dict) and "ratio" in value) else "single"


Measure: TypeAlias = Annotated[
    Annotated[AlertMeasure, Tag("single")] | Annotated[AlertRatio, Tag("quotient")], Discriminator(_measure_tag)
]
_Bound: TypeAlias = Annotated[float, Field(allow_inf_nan=False)]
_SHAPE: Final[dict[str, Any]] = {"pattern": f"^{_DURATION.pattern}$"}
_Window: TypeAlias = Annotated[str, _at_most(WINDOW_S_MAX, "31d"), Field(json_schema_extra=_SHAPE)]
_Every: TypeAlias = Annotated[str, _at_most(EVERY_S_MAX, "1d"), Field(json_schema_extra=_SHAPE)]


class AlertDefinition(ApiModel):
    """What is measured and when it is a breach, as it is stored."""

    measure: Measure
    above: float | None = None
    below: float | None = None
    window: str
    every: str = EVERY_DEFAULT
    group_by: list[GroupBy] = Field([])

    @property
    def window_s(self) -> int:
        """The length of the window in seconds."""
        return duration_s(self.window)

    @property
    def every_s(self) -> int:
        """The seconds between two evaluations."""
        return duration_s(self.every)

    @property
    def measures(self) -> list[AlertMeasure]:
        """The measure, or the two of the ratio."""
        return self.measure.ratio if isinstance(self.measure, AlertRatio) else [self.measure]


class _AlertSelection(SpanSelection):
    filtering_at: ClassVar[str] = "alert.filtering"

    filtering: FilteringModel | None = Field(
        None, description="The filter, as in /spans/query. Relative times count from each evaluation."
    )

    @field_validator("above", "below", mode="before", check_fields=False)
    @classmethod
    def _is_a_number(cls, value: Any) -> Any:
        return refuse_boolean(value)


class AlertCreate(_AlertSelection):
    """The alert to create."""

    slug: Slug = Field(max_length=NAME_LENGTH_MAX, description="Unique in the project. Never changes.")
    name: Text | None = Field(None, max_length=NAME_LENGTH_MAX, description="A name for people.")
    measure: Measure = Field(description="What is measured.")
    above: _Bound | None = Field(None, description="A value above this is a breach. Either this or `below`.")
    below: _Bound | None = Field(None, description="A value below this is a breach. No data is not a breach.")
    window: _Window = Field(description="Spans that started in this time before an evaluation count, such as `10m`.")
    every: _Every = Field(EVERY_DEFAULT, description="The time between two evaluations.")
    group_by: Listed[GroupBy] | None = Field(
        None, max_length=GROUP_BY_MAX, description="Each group is watched on its own. As in /spans/groups/query."
    )
    target: TargetIn = Field(description="Where messages are sent: a webhook or a Kafka topic.")


class CreateAlert(Strict):
    """Creates an alert."""

    alert: AlertCreate

    model_config = ConfigDict(
        json_schema_extra={
            "examples": [
                {
                    "alert": {
                        "slug": "failing-models",
                        "measure": {"ratio": [{"of": "errors"}, {"of": "count"}]},
                        "above": 0.05,
                        "window": "10m",
                        "every": "1m",
                        "group_by": ["model"],
                        "target": {"kind": "webhook", "url": "https://hooks.example.org/alerts"},
                    }
                }
            ]
        }
    )


class AlertEdit(_AlertSelection):
    """The members to change; absent members keep their values."""

    id: UUID | None = Field(None, description="The same id as in the path.")
    name: Text | None = Field(None, max_length=NAME_LENGTH_MAX, description="A name for people.")
    measure: Measure | None = Field(None, description="What is measured.")
    above: _Bound | None = Field(None, description="A value above this is a breach. Replaces `below`.")
    below: _Bound | None = Field(None, description="A value below this is a breach. Replaces `above`.")
    window: _Window | None = Field(None, description="Spans that started in this time before an evaluation count.")
    every: _Every | None = Field(None, description="The time between two evaluations.")
    group_by: Listed[GroupBy] | None = Field(None, max_length=GROUP_BY_MAX, description="What makes a group.")
    target: TargetIn | None = Field(
        None, description="Where messages are sent. A target of the same kind keeps its secret unless one is given."
    )


class EditAlert(Strict):
    """Changes an alert."""

    alert: AlertEdit


class AlertFilter(Strict):
    """Which alerts. Every member that is given must match."""

    slug: str | None = Field(None, description="The slug.")
    status: State | None = Field(None, description="What the alert does.")
    breaching: bool | None = Field(None, description="Whether a group is in breach now.")


class QueryAlerts(Strict):
    """Finds alerts; all of them by default."""

    alert: AlertFilter | None = None


class Breach(ApiModel):
    """A group that is in breach."""

    by: dict[str, GroupValue] = Field(description="The values that its spans share; empty without `group_by`.")
    value: float | str | None = Field(None, description="The value at the last evaluation.")
    since: datetime = Field(description="The evaluation at which the breach began.")


class Evaluated(ApiModel):
    """The last evaluation."""

    at: datetime = Field(description="The end of its window.")
    groups: int = Field(description="Groups with data.")
    left_out: int | None = Field(
        None, description="Groups that were not examined, because there are more than an alert may have."
    )


class Messages(ApiModel):
    """Messages of the alert."""

    delivered: int = Field(description="Messages that the target has acknowledged.")
    at: datetime | None = Field(None, description="The time of the last acknowledgement.")
    waiting: int = Field(description="Messages that are not acknowledged yet.")
    attempts: int = Field(description="Tries of the first waiting message that have failed.")
    retry_at: datetime | None = Field(None, description="The time of the next try.")


class AlertOut(ApiModel):
    """An alert and its state."""

    id: UUID
    slug: str
    name: str | None = None
    measure: dict[str, Any] = Field(description="What is measured.")
    above: float | None = None
    below: float | None = None
    window: str
    every: str
    group_by: list[Any] | None = None
    filtering: dict[str, Any] | None = Field(None, description="The filter.")
    query_ref: dict[str, str] | None = Field(None, description="The saved query that it follows.")
    query_revision_ref: dict[str, str] | None = Field(None, description="The revision that it is pinned to.")
    target: TargetOut = Field(description="Where messages are sent.")
    status: State = Field(description="`retrying` while a message cannot be delivered.")
    reason: str | None = Field(None, description="Why it is paused.")
    evaluated: Evaluated | None = Field(None, description="The last evaluation that succeeded.")
    next_at: datetime | None = Field(None, description="The time of the next evaluation.")
    breaches: list[Breach] = Field(description="The groups that are in breach, the oldest first; at most 100.")
    breaches_count: int = Field(description="The number of groups that are in breach.")
    messages: Messages
    last_error: LastError | None = Field(None, description="The last failure, of an evaluation or of a delivery.")
    created_at: datetime
    created_by_id: UUID
    updated_at: datetime | None = None
    updated_by_id: UUID | None = None


class AlertResponse(ApiModel):
    """One alert."""

    count: int = Field(description="Always 1.")
    alert: AlertOut
    warning: str | None = Field(None, description="Why the target cannot be reached now.")


class AlertsResponse(ApiModel):
    """Alerts, oldest first."""

    count: int = Field(description="The number of alerts in this response.")
    alerts: list[AlertOut]
