"""What the session and user routes take and give, as pydantic models (reference §10.3)."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Annotated, Any, Final, TypeAlias

from pydantic import AfterValidator, BaseModel, Field, field_validator

from query_api.request.body_models import Strict, refuse_boolean
from query_api.request.references import Time
from query_api.spans.windowing import Filtering, Order

_FIRST: Final = datetime.min.replace(tzinfo=UTC)
_LAST: Final = datetime.max.replace(tzinfo=UTC)


def _in_utc(moment: datetime) -> datetime:
    """The moment in UTC; the first or the last that there is where its zone leads out of the calendar."""
    zoned = moment if moment.tzinfo else moment.replace(tzinfo=UTC)
    try:
        return zoned.astimezone(UTC)
    except OverflowError:
        return _FIRST if zoned.year == _FIRST.year else _LAST


Moment: TypeAlias = Annotated[Time, AfterValidator(_in_utc)]
"""A bound that answers give back, so that it must be one that they can show."""


class ActivityWindowing(Strict):
    """Which part of the ids, and in which order. What an answer gives as ``windowing`` can be sent back as it is."""

    newest: Moment | None = Field(None, description="Bound of start_time: excluded when descending.")
    oldest: Moment | None = Field(None, description="Bound of start_time: excluded when ascending.")
    next: str | None = Field(None, max_length=131_072, description="The cursor that the last page gave.")
    limit: int | None = Field(None, ge=1, description="Ids on a page; default 100, at most 10,000.")
    order: Order | None = Field(None, description="Default descending: latest activity first.")
    rate: float | None = Field(None, ge=0, le=1, description="Which part of all traces is looked at.")

    interval: int | None = Field(None, gt=0, description="No effect here.")

    _are_numbers = field_validator("limit", "rate", "interval", mode="before")(refuse_boolean)


class ActivityQuery(Strict):
    """A question for ids. Everything may be absent: then it is the first page of all."""

    realtime: bool | None = Field(
        None, description="Whether the activity of an id is its latest span in the window, instead of its earliest."
    )
    windowing: ActivityWindowing | None = Field(None, description="Which page of them.")
    filtering: Filtering = Field(None, description="Which spans.")
    explain: bool | None = Field(None, description="Whether the answer says how it was found.")


class ActivityWindowingResponse(BaseModel):
    """Present exactly when more can follow. Send it back as ``windowing``, or put ``next`` into the one that was sent."""

    newest: str | None = Field(None, description="Descending: the activity of the last id on this page.")
    oldest: str | None = Field(None, description="Ascending: the activity of the last id on this page.")
    next: str
    limit: int
    order: Order
    rate: float | None = None


class SessionIds(BaseModel):
    """Sessions in the order of their activity."""

    count: int
    session_ids: list[str]
    windowing: ActivityWindowingResponse | None = None
    explain: dict[str, Any] | None = Field(None, description="How the answer was found, where that was asked.")


class UserIds(BaseModel):
    """Users in the order of their activity."""

    count: int
    user_ids: list[str]
    windowing: ActivityWindowingResponse | None = None
    explain: dict[str, Any] | None = Field(None, description="How the answer was found, where that was asked.")
