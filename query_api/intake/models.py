"""The request and response models of intake as JSON (reference §4).

Validation is structural and changes nothing: the members are published as they were sent. Their values (ids, times,
limits) are checked by ``common/codec/span_json.py``, the code that also reads them from Kafka.
"""

from __future__ import annotations

from datetime import datetime
from enum import StrEnum
from typing import Annotated, Any, Final, Literal, TypeAlias
from uuid import UUID

from pydantic import BaseModel, ConfigDict, Field, GetPydanticSchema, Tag
from pydantic_core import core_schema

from common.span import SPAN_TYPES, TRACE_TYPES, SpanKind, StatusCode
from query_api.request.json_body import BY_FORM, LISTED, UNLISTED, ApiModel, ListedSpans, NamedSpans, PromotedTexts

Json: TypeAlias = dict[str, Any]

# Names and values are defined in common/span.py; mypy ("misc") knows only enums that are written out.
TraceType = StrEnum("TraceType", {name.upper(): name for name in TRACE_TYPES})  # type: ignore[misc]
SpanType = StrEnum("SpanType", {name.upper(): name for name in SPAN_TYPES})  # type: ignore[misc]
SpanKindName = StrEnum("SpanKindName", {kind.name: kind.name for kind in SpanKind})  # type: ignore[misc]
StatusCodeName = StrEnum("StatusCodeName", {code.name: code.name for code in StatusCode})  # type: ignore[misc]


class _Sent(ApiModel):
    """A model that keeps unknown members."""

    model_config = ConfigDict(extra="allow")


def _as_sent(model: type[BaseModel]) -> GetPydanticSchema:
    """Annotate JSON that is validated by a model and passed on as it was sent."""

    def validated(value: Any, validate: core_schema.ValidatorFunctionWrapHandler) -> Any:
        validate(value)
        return value

    return GetPydanticSchema(
        lambda _, handler: core_schema.no_info_wrap_validator_function(validated, handler.generate_schema(model))
    )


Time: TypeAlias = datetime | int | float


class ReferenceInput(_Sent):
    """A reference from a span to an application, a variant, a revision or another entity."""

    id: UUID | None = Field(None, description="The id of the entity.")
    slug: str | None = Field(None, description="The slug of the entity.")
    version: str | None = Field(None, description="The version of a revision.")
    attributes: Json | None = Field(None, description="Attributes of the reference; `key` names its kind.")


class LinkInput(_Sent):
    """A link from a span to another span."""

    trace_id: str | None = Field(None, description="The trace of the other span.")
    span_id: str | None = Field(None, description="The id of the other span.")
    attributes: Json | None = Field(None, description="Attributes of the link.")


class HashInput(_Sent):
    """A hash of a span's references and links."""

    id: UUID | None = Field(None, description="The hash as a UUID.")
    attributes: Json | None = Field(None, description="Attributes of the hash.")


class EventInput(_Sent):
    """An event that happened during a span."""

    name: str | None = Field(None, description="The name of the event.")
    timestamp: Time | None = Field(None, description="The time of the event.")
    attributes: Json | None = Field(None, description="Attributes of the event.")


SpanNodes: TypeAlias = Annotated[
    Annotated["SpanInput", Tag(UNLISTED)] | Annotated[ListedSpans["SpanInput"], Tag(LISTED)], BY_FORM
]


class SpanInput(PromotedTexts, _Sent):
    """A span as `/spans/query` returns it; children may be nested in `spans`, by name."""

    trace_id: str = Field(description="The id of the trace: 32 hexadecimal digits or a UUID.")
    span_id: str = Field(description="The id of the span: 16 hexadecimal digits or a UUID.")
    parent_id: str | None = Field(None, description="The id of the parent span. Absent for roots and nested spans.")
    trace_type: TraceType | None = Field(None, description="The type of the trace.")
    span_type: SpanType | None = Field(None, description="The type of the span.")
    span_kind: SpanKindName | None = Field(None, description="The OpenTelemetry kind of the span.")
    span_name: str | None = Field(None, description="The name of the span.")
    start_time: Time | None = Field(None, description="The start: RFC 3339, or a number of s, ms, µs or ns since 1970.")
    end_time: Time | None = Field(None, description="The end, in the same forms as the start.")
    running: bool | None = Field(
        None, description="`true` on a span that has not ended yet, without `end_time`. Send it again when it ends."
    )
    state: Literal["running"] | None = Field(None, description="As responses show it: the same as `running`.")
    status_code: StatusCodeName | None = Field(None, description="The OpenTelemetry status of the span.")
    status_message: str | None = Field(None, description="The message of the status.")
    attributes: Json | None = Field(
        None, description="Attributes of the span; `ag` holds those that Clearspan interprets."
    )
    references: ListedSpans[ReferenceInput] | None = Field(None, description="References to entities.")
    links: ListedSpans[LinkInput] | None = Field(None, description="Links to other spans.")
    hashes: ListedSpans[HashInput] | None = Field(None, description="Hashes of references and links.")
    events: ListedSpans[EventInput] | None = Field(None, description="Events of the span.")
    scores: ListedSpans[Json] | None = Field(None, description="Scores of the span, as responses have them.")
    spans: NamedSpans[str, SpanNodes] | None = Field(None, description="Child spans by name.")


class TraceInput(_Sent):
    """A trace as a tree: its roots by name; several roots of one name are a list."""

    trace_id: str | None = Field(None, description="The id of the trace.")
    spans: NamedSpans[str, SpanNodes] | None = Field(None, description="The roots of the trace by name.")


SpanJson: TypeAlias = Annotated[Json, _as_sent(SpanInput)]
TraceJson: TypeAlias = Annotated[Json, _as_sent(TraceInput)]


_SPAN_EXAMPLE: Final[Json] = {
    "trace_id": "5b8efff798038103d269b633813fc60c",
    "span_id": "eee19b7ec3c1b174",
    "span_name": "answer the question",
    "start_time": "2026-01-02T03:04:05.678901Z",
    "end_time": "2026-01-02T03:04:06Z",
    "attributes": {"ag": {"type": {"span": "agent"}, "data": {"inputs": {"question": "Why?"}}}},
}
_TRACE_EXAMPLE: Final[Json] = {"spans": {"answer the question": _SPAN_EXAMPLE}}


class SpansIngest(ApiModel):
    """Spans to store: as a list, as trees by trace id, or both."""

    model_config = ConfigDict(json_schema_extra={"examples": [{"spans": [_SPAN_EXAMPLE]}]})

    spans: ListedSpans[SpanJson] | None = Field(None, description="Spans as a list.")
    traces: NamedSpans[str, TraceJson] | None = Field(None, description="Traces as trees, by trace id.")


class TracesIngest(ApiModel):
    """Traces to store, as trees."""

    model_config = ConfigDict(json_schema_extra={"examples": [{"traces": [_TRACE_EXAMPLE]}]})

    traces: ListedSpans[TraceJson] | None = Field(None, description="The traces.")


class TraceIngest(ApiModel):
    """One trace to store, as a tree."""

    model_config = ConfigDict(json_schema_extra={"examples": [{"trace": _TRACE_EXAMPLE}]})

    trace: TraceJson | None = Field(None, description="The trace.")


class SpanLink(ApiModel):
    """The ids of one span."""

    trace_id: str = Field(description="The id of the trace.")
    span_id: str = Field(description="The id of the span.")


class LinksResponse(ApiModel):
    """The accepted spans."""

    count: int = Field(description="The number of spans.")
    links: list[SpanLink] = Field(description="The ids of the spans.")


class TraceIdResponse(ApiModel):
    """The accepted trace."""

    count: int = Field(description="The number of traces.")
    trace_id: str | None = Field(None, description="The id of the trace.")


class TraceIdsResponse(ApiModel):
    """The accepted traces."""

    count: int = Field(description="The number of traces.")
    trace_ids: list[str] = Field(description="The ids of the traces.")


class IntakeReady(ApiModel):
    """OTLP is accepted here."""

    status: str = Field("ready", description="Always `ready`.")
