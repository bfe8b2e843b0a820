"""The shapes in which spans come in as JSON, and what intake answers (reference §4).

Validation here is structural and changes nothing: what is published is what was sent, member for member. What the
values mean (ids, times, limits) is checked by ``common/codec/span_json.py``, the same code that reads them again.
"""

from __future__ import annotations

from collections.abc import Callable
from datetime import datetime
from enum import StrEnum
from typing import Annotated, Any, Final, TypeAlias
from uuid import UUID

from pydantic import BaseModel, ConfigDict, Field, GetCoreSchemaHandler, Tag
from pydantic_core import CoreSchema, core_schema

from common.span import SPAN_TYPES, TRACE_TYPES, SpanKind, StatusCode
from query_api.request.body_models import BY_FORM, LISTED, UNLISTED, ListedSpans, NamedSpans

Json: TypeAlias = dict[str, Any]

# Names and values stand elsewhere; mypy knows only enums that are spelt out.
TraceType = StrEnum("TraceType", {name.upper(): name for name in TRACE_TYPES})  # type: ignore[misc] # as above
SpanType = StrEnum("SpanType", {name.upper(): name for name in SPAN_TYPES})  # type: ignore[misc] # as above
SpanKindName = StrEnum("SpanKindName", {kind.name: kind.name for kind in SpanKind})  # type: ignore[misc] # as above
StatusCodeName = StrEnum("StatusCodeName", {code.name: code.name for code in StatusCode})  # type: ignore[misc] # as above


class _Sent(BaseModel):
    """A shape that other members may stand beside: they are kept."""

    model_config = ConfigDict(extra="allow")


class AsSent:
    """Annotates JSON that must validate as a model and is passed on as it was sent."""

    def __init__(self, model: Callable[[], type[BaseModel]]) -> None:
        self._model = model

    def __get_pydantic_core_schema__(self, source: Any, handler: GetCoreSchemaHandler) -> CoreSchema:
        """The model's own schema, whose result is thrown away."""
        return core_schema.no_info_wrap_validator_function(_as_sent, handler.generate_schema(self._model()))


def _as_sent(value: Any, check: core_schema.ValidatorFunctionWrapHandler) -> Any:
    check(value)
    return value


Time: TypeAlias = datetime | int | float


class ReferenceInput(_Sent):
    """What a span points to: an application, a variant, a revision, …"""

    id: UUID | None = None
    slug: str | None = None
    version: str | None = None
    attributes: Json | None = None


class LinkInput(_Sent):
    """Another span that this one belongs to."""

    trace_id: str | None = None
    span_id: str | None = None
    attributes: Json | None = None


class HashInput(_Sent):
    """A digest of what a span points to."""

    id: UUID | None = None
    attributes: Json | None = None


class EventInput(_Sent):
    """Something that happened during a span."""

    name: str | None = None
    timestamp: Time | None = None
    attributes: Json | None = None


SpanNodes: TypeAlias = Annotated[
    Annotated["SpanInput", Tag(UNLISTED)] | Annotated[ListedSpans["SpanInput"], Tag(LISTED)], BY_FORM
]


class SpanInput(_Sent):
    """A span as ``/spans/query`` returns it; children may be nested below ``spans``, by name."""

    trace_id: str = Field(description="32 hexadecimal digits, or any spelling of a UUID.")
    span_id: str = Field(description="16 hexadecimal digits, or any spelling of a UUID.")
    parent_id: str | None = Field(None, description="Absent for roots.")
    trace_type: TraceType | None = None
    span_type: SpanType | None = None
    span_kind: SpanKindName | None = None
    span_name: str | None = None
    start_time: Time | None = Field(None, description="RFC 3339, or a number of s, ms, µs or ns since 1970.")
    end_time: Time | None = None
    status_code: StatusCodeName | None = None
    status_message: str | None = None
    session_id: str | None = None
    user_id: str | None = None
    agent_id: str | None = None
    attributes: Json | None = None
    references: ListedSpans[ReferenceInput] | None = None
    links: ListedSpans[LinkInput] | None = None
    hashes: ListedSpans[HashInput] | None = None
    events: ListedSpans[EventInput] | None = None
    spans: NamedSpans[str, SpanNodes] | None = None


class TraceInput(_Sent):
    """A trace as a tree: its roots by name, a list where several have the same."""

    trace_id: str | None = None
    spans: NamedSpans[str, SpanNodes] | None = None


SpanJson: TypeAlias = Annotated[Json, AsSent(lambda: SpanInput)]
TraceJson: TypeAlias = Annotated[Json, AsSent(lambda: TraceInput)]


_SPAN_EXAMPLE: Final[Json] = {
    "trace_id": "5b8efff798038103d269b633813fc60c",
    "span_id": "eee19b7ec3c1b174",
    "span_name": "answer the question",
    "start_time": "2026-01-02T03:04:05.678901Z",
    "end_time": "2026-01-02T03:04:06Z",
    "attributes": {"ag": {"type": {"span": "agent"}, "data": {"inputs": {"question": "Why?"}}}},
}
_TRACE_EXAMPLE: Final[Json] = {"spans": {"answer the question": _SPAN_EXAMPLE}}


class SpansIngest(BaseModel):
    """Spans as a list, or as trees by trace id."""

    model_config = ConfigDict(json_schema_extra={"examples": [{"spans": [_SPAN_EXAMPLE]}]})

    spans: ListedSpans[SpanJson] | None = None
    traces: NamedSpans[str, TraceJson] | None = None


class TracesIngest(BaseModel):
    """Traces as trees."""

    model_config = ConfigDict(json_schema_extra={"examples": [{"traces": [_TRACE_EXAMPLE]}]})

    traces: ListedSpans[TraceJson] | None = None


class TraceIngest(BaseModel):
    """One trace as a tree."""

    model_config = ConfigDict(json_schema_extra={"examples": [{"trace": _TRACE_EXAMPLE}]})

    trace: TraceJson | None = None


class SpanLink(BaseModel):
    """Where a span can be found."""

    trace_id: str
    span_id: str


class LinksResponse(BaseModel):
    """The spans that were taken in."""

    count: int
    links: list[SpanLink]


class TraceIdResponse(BaseModel):
    """The trace that was taken in."""

    count: int
    trace_id: str | None = None


class TraceIdsResponse(BaseModel):
    """The traces that were taken in."""

    count: int
    trace_ids: list[str]


class IntakeReady(BaseModel):
    """OTLP can be sent here."""

    status: str = "ready"
