"""What the span routes take and give, as pydantic models: they validate, and they are the document's schemas."""

from __future__ import annotations

from typing import Any

from pydantic import BaseModel, Field

from query_api.request.body_models import PromotedTexts, Strict
from query_api.request.references import ReferenceIn
from query_api.spans.windowing import Filtering, Windowing, WindowingResponse


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


class SpanModel(PromotedTexts):
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
