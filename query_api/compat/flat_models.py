"""The older, flat form of a question about traces or spans: one object, or the query string (reference §1.4)."""

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
    """A time as filters read it: the count of its digits tells the unit (reference §1.4)."""
    if isinstance(value, float):
        raise ValueError(f"{value} is no time: numbers of time are whole")  # noqa: TRY004 - pydantic makes problems of these
    if isinstance(value, bool) or not isinstance(value, str | int):
        return value
    try:
        return _EPOCH + timedelta(microseconds=parse_time_ns(value) // 1_000)
    except OverflowError as exc:
        raise ValueError("a time outside the years 1 to 9999") from exc


def _filter(value: Any) -> Any:
    """A filter that may be text holding JSON, not nested too deep."""
    loaded = parse_json_text(value) if isinstance(value, str) else value
    check_groups(loaded, path="filter")
    return loaded


Moment: TypeAlias = Annotated[datetime, BeforeValidator(_moment, json_schema_input_type=str | int)]
Filter: TypeAlias = Annotated[
    FilteringModel | None, BeforeValidator(_filter, json_schema_input_type=FilteringModel | str | None)
]


class FlatQuery(Strict):
    """A question in the older form. Everything may be absent: then it is the newest page of all traces."""

    focus: Focus | None = Field(None, description="Default trace.")
    format: Format | None = Field(None, description="Default agenta; opentelemetry gives the spans as a list.")
    newest: Moment | None = Field(None, description="Bound of start_time: ISO 8601, or s, ms, µs or ns since 1970.")
    oldest: Moment | None = Field(None, description="Bound of start_time: ISO 8601, or s, ms, µs or ns since 1970.")
    limit: int | None = Field(None, ge=1, description="On a page; default 100, at most 10,000.")
    next: str | None = Field(None, max_length=131_072, description="The cursor that the last page gave.")
    order: Order | None = Field(None, description="Default descending.")
    rate: float | None = Field(None, ge=0, le=1, description="Which part of all traces is looked at.")
    interval: int | None = Field(None, gt=0, description="Minutes of a bucket; analytics alone.")
    filter: Filter = Field(None, description="Which spans; as an object, or as text that holds one.")
    explain: bool | None = Field(None, description="Whether the answer says how it was found.")

    _are_numbers = field_validator("limit", "rate", "interval", mode="before")(refuse_boolean)

    @property
    def windowing(self) -> Windowing:
        """The same page in the form of the newer routes."""
        names = ("newest", "oldest", "next", "limit", "order", "rate")
        return Windowing.model_construct(**{name: getattr(self, name) for name in names})

    def or_else(self, other: FlatQuery) -> FlatQuery:
        """This question; where it does not say, what the other says."""
        said = {name: value for name in type(self).model_fields if (value := getattr(self, name)) is not None}
        return other.model_copy(update=said)


class FlatTraceModel(BaseModel):
    """The spans of a trace by name, each with those below it."""

    spans: dict[str, NodeModel | list[NodeModel]]


class FlatResponse(BaseModel):
    """Traces by their ids, or a list of spans. Without spans the list is absent."""

    count: int
    traces: dict[str, FlatTraceModel] | None = None
    spans: list[SpanModel] | None = None
    windowing: WindowingResponse | None = None
    complete: bool | None = Field(
        None, description="False when the query's budget ended before the page was full; absent otherwise."
    )
    explain: dict[str, Any] | None = Field(None, description="How the answer was found, where that was asked.")


class FlatTraceResponse(BaseModel):
    """One trace by its id, or none."""

    count: int
    traces: dict[str, FlatTraceModel] | None = None
