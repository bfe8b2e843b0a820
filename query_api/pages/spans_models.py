"""What the span routes take and give, as pydantic models: they validate, and they are the document's schemas."""

from __future__ import annotations

from enum import StrEnum
from typing import Annotated, Any, TypeAlias

from pydantic import BaseModel, BeforeValidator, Field, field_validator

from query_api.filter.models import FilteringModel
from query_api.filter.parse import check_groups
from query_api.registry.models import ReferenceIn, Time
from query_api.request.body_models import Strict


class Order(StrEnum):
    """Which way pages go along ``start_time``."""

    ASCENDING = "ascending"
    DESCENDING = "descending"


class WindowBy(StrEnum):
    """What pages go along."""

    START_TIME = "start_time"
    CREATED_AT = "created_at"


class Focus(StrEnum):
    """What is asked for."""

    TRACE = "trace"
    SPAN = "span"


class Format(StrEnum):
    """How traces are shown: as trees, or as the list of their spans."""

    AGENTA = "agenta"
    OPENTELEMETRY = "opentelemetry"


def _not_too_much(filtering: Any) -> Any:
    check_groups(filtering)
    return filtering


Filtering: TypeAlias = Annotated[FilteringModel | None, BeforeValidator(_not_too_much)]
"""A filter whose groups are looked at before anything walks them."""


def refuse_boolean(value: Any) -> Any:
    """A number, where a boolean would be taken for 0 or 1. Raises ``ValueError``."""
    if isinstance(value, bool):
        raise ValueError("a boolean is no number")  # noqa: TRY004 - pydantic makes problems of these
    return value


class Windowing(Strict):
    """Which part of the matching spans, and in which order."""

    newest: Time | None = Field(None, description="Bound of start_time: excluded when descending.")
    oldest: Time | None = Field(None, description="Bound of start_time: excluded when ascending.")
    next: str | None = Field(None, max_length=131_072, description="The cursor that the last page gave.")
    limit: int | None = Field(None, ge=1, description="Spans on a page; default 100, at most 10,000.")
    order: Order | None = Field(None, description="Default descending.")
    by: WindowBy | None = Field(None, description="Default start_time.")
    wait_s: float | None = Field(None, ge=0, le=30, description="Feed alone: how long to wait for something new.")
    rate: float | None = Field(None, ge=0, le=1, description="Which part of all traces is looked at.")
    interval: int | None = Field(None, gt=0, description="Minutes of a bucket; analytics alone.")

    _are_numbers = field_validator("limit", "wait_s", "rate", "interval", mode="before")(refuse_boolean)


class SpansQuery(Strict):
    """A question about spans. Everything may be absent: then it is the newest page of all.

    References name a saved query: its conditions count besides those that stand here, and of its page what is not said here.
    """

    filtering: Filtering = Field(None, description="Which spans.")
    windowing: Windowing | None = Field(None, description="Which page of them.")
    query_ref: ReferenceIn | None = Field(None, description="A saved query: the newest revision of its first variant.")
    query_variant_ref: ReferenceIn | None = Field(None, description="A variant of one: its newest revision.")
    query_revision_ref: ReferenceIn | None = Field(
        None, description="A revision of one, by id or slug; or by its version, beside one of the others."
    )
    explain: bool | None = Field(None, description="Whether the answer says how it was found.")


class SpanIds(Strict):
    """Spans by their ids: those of the given traces that have one of the given ids."""

    trace_id: list[str] = Field(default_factory=list, description="A trace id; may be repeated.")
    trace_ids: list[str] = Field(default_factory=list, description="Trace ids with commas between them.")
    span_id: list[str] = Field(default_factory=list, description="A span id; may be repeated.")
    span_ids: list[str] = Field(default_factory=list, description="Span ids with commas between them.")


class SpanModel(BaseModel):
    """One span, as answers show it; absent members are omitted."""

    created_at: str = Field(description="When the version that is shown was stored.")
    trace_id: str
    span_id: str
    parent_id: str | None = None
    trace_type: str
    span_type: str
    span_kind: str
    span_name: str
    start_time: str
    end_time: str
    start_time_unix_nano: str
    end_time_unix_nano: str
    status_code: str
    status_message: str | None = None
    session_id: str | None = None
    user_id: str | None = None
    agent_id: str | None = None
    attributes: dict[str, Any]
    events: list[dict[str, Any]] | None = None
    links: list[dict[str, Any]] | None = None
    references: list[dict[str, Any]] | None = None
    hashes: list[dict[str, Any]] | None = None
    resource: dict[str, Any] | None = None
    scope: dict[str, Any] | None = None
    trace_state: str | None = None
    flags: int | None = None
    dropped_attributes_count: int | None = None
    dropped_events_count: int | None = None
    dropped_links_count: int | None = None


class WindowingResponse(BaseModel):
    """Present exactly when more can follow."""

    next: str = Field(description="Put it into windowing.next, leave the rest of the query as it is.")


class SpansResponse(BaseModel):
    """Spans in order."""

    count: int
    spans: list[SpanModel]
    windowing: WindowingResponse | None = None
    complete: bool | None = Field(
        None, description="False when the query's budget ended before the page was full; absent otherwise."
    )
    explain: dict[str, Any] | None = Field(None, description="How the answer was found, where that was asked.")


class SpanResponse(BaseModel):
    """One span, or none."""

    count: int
    span: SpanModel | None = None
