"""What the trace routes take and give, as pydantic models."""

from __future__ import annotations

from typing import Any

from pydantic import BaseModel, Field

from query_api.pages.spans_models import SpanModel, SpansQuery
from query_api.request.body_models import Strict
from query_api.spans.windowing import WindowingResponse


class TracesQuery(SpansQuery):
    """A question about traces: those of which a span matches. Everything may be absent: then it is the newest page of all."""


class TraceIds(Strict):
    """Traces by their ids."""

    trace_id: list[str] = Field(default_factory=list, description="A trace id; may be repeated.")
    trace_ids: list[str] = Field(default_factory=list, description="Trace ids with commas between them.")


class NodeModel(SpanModel):
    """A span and the spans below it, by name."""

    spans: dict[str, NodeModel | list[NodeModel]] | None = None


class TraceModel(BaseModel):
    """A trace: its roots, and what has no parent in it, by name."""

    trace_id: str
    spans: dict[str, NodeModel | list[NodeModel]]


class TraceResponse(BaseModel):
    """One trace, or none."""

    count: int
    trace: TraceModel | None = None


class TracesResponse(BaseModel):
    """Traces in order."""

    count: int
    traces: list[TraceModel]
    windowing: WindowingResponse | None = None
    complete: bool | None = Field(
        None, description="False when the query's budget ended before the page was full; absent otherwise."
    )
    explain: dict[str, Any] | None = Field(None, description="How the answer was found, where that was asked.")


class TraceDeleted(BaseModel):
    """The trace that was deleted, or none."""

    count: int
    trace_id: str | None = None
