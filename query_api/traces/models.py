"""What the trace routes take and give, as pydantic models."""

from __future__ import annotations

from pydantic import BaseModel, Field

from query_api.spans.models import SpanModel


class TraceIds(BaseModel):
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


class TraceAnswer(BaseModel):
    """One trace, or none."""

    count: int
    trace: TraceModel | None = None


class TracesAnswer(BaseModel):
    """Traces in the order in which they were asked for."""

    count: int
    traces: list[TraceModel]
