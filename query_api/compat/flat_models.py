"""The older, flat form of a query of traces or spans: one object, or the query string (reference §1.4)."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Annotated, Any, Final, TypeAlias

from pydantic import BaseModel, BeforeValidator, Field, field_validator

from common.times import parse_time_ns
from query_api.filter.models import FilteringModel
from query_api.filter.parse import check_groups
from query_api.pages.spans import SpanModel
from query_api.pages.traces import NodeModel
from query_api.request.body_models import Strict, refuse_boolean
from query_api.request.json_body import parse_json_text
from query_api.spans.windowing import Focus, Format, Order, Windowing, WindowingResponse

_EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)


def _moment(value: Any) -> Any:
    """Parse a time as filters do: the number of its digits implies the unit (reference §1.4)."""
    if isinstance(value, float):
        raise ValueError(f"{value} is not a whole number of time")  # noqa: TRY004 - pydantic reports only this
    if isinstance(value, bool) or not isinstance(value, str | int):
        return value
    try:
        return _EPOCH + timedelta(microseconds=parse_time_ns(value) // 1_000)
    except OverflowError as exc:
        raise ValueError("a time outside the years 1 to 9999") from exc


def _filter(value: Any) -> Any:
    """Parse a filter that may be JSON in a text, and check its nesting."""
    loaded = parse_json_text(value) if isinstance(value, str) else value
    check_groups(loaded, path="filter")
    return loaded


Moment: TypeAlias = Annotated[datetime, BeforeValidator(_moment, json_schema_input_type=str | int)]
Filter: TypeAlias = Annotated[
    FilteringModel | None, BeforeValidator(_filter, json_schema_input_type=FilteringModel | str | None)
]


class FlatQuery(Strict):
    """A query in the older form. Without any member it returns the newest page of all traces."""

    focus: Focus | None = Field(None, description="Return traces or spans; the default is `trace`.")
    format: Format | None = Field(
        None, description="The form of traces: trees with `agenta`, the default; a list of spans with `opentelemetry`."
    )
    newest: Moment | None = Field(
        None, description="The upper bound of `start_time`: ISO 8601, or s, ms, µs or ns since 1970."
    )
    oldest: Moment | None = Field(
        None, description="The lower bound of `start_time`: ISO 8601, or s, ms, µs or ns since 1970."
    )
    limit: int | None = Field(None, ge=1, description="The size of the page; 100 by default, at most 10,000.")
    next: str | None = Field(None, max_length=131_072, description="The cursor of the previous page.")
    order: Order | None = Field(None, description="The order by time; descending by default.")
    rate: float | None = Field(None, ge=0, le=1, description="The share of traces that is sampled, from 0 to 1.")
    interval: int | None = Field(None, gt=0, description="The minutes of a bucket; only for analytics.")
    filter: Filter = Field(None, description="The filter, as an object or as JSON text.")
    explain: bool | None = Field(None, description="Whether the response explains how it was found.")

    _are_numbers = field_validator("limit", "rate", "interval", mode="before")(refuse_boolean)

    @property
    def windowing(self) -> Windowing:
        """Return the same window in the form of the newer routes."""
        names = ("newest", "oldest", "next", "limit", "order", "rate")
        return Windowing.model_construct(**{name: getattr(self, name) for name in names})

    def or_else(self, other: FlatQuery) -> FlatQuery:
        """Return this query, with the members of ``other`` that it lacks."""
        given = {name: value for name in type(self).model_fields if (value := getattr(self, name)) is not None}
        return other.model_copy(update=given)


class FlatTraceModel(BaseModel):
    """A trace as a tree."""

    spans: dict[str, NodeModel | list[NodeModel]] = Field(description="The roots of the trace by name.")


class FlatResponse(BaseModel):
    """A page of traces by their ids, or of spans as a list, which is absent if it is empty."""

    count: int = Field(description="The number of traces or spans.")
    traces: dict[str, FlatTraceModel] | None = Field(None, description="The traces by their ids.")
    spans: list[SpanModel] | None = Field(None, description="The spans.")
    windowing: WindowingResponse | None = Field(None, description="The cursor of the next page, if more may follow.")
    complete: bool | None = Field(
        None, description="False when the query's budget ended before the page was full; absent otherwise."
    )
    explain: dict[str, Any] | None = Field(None, description="How the response was found, if that was requested.")


class FlatTraceResponse(BaseModel):
    """One trace by its id, or none."""

    count: int = Field(description="1, or 0 if there is no such trace.")
    traces: dict[str, FlatTraceModel] | None = Field(None, description="The trace by its id.")
