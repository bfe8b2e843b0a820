"""The span object of responses (reference §2), as the OpenAPI document describes it.

Responses are written from stored JSON (``spans/rows.py``); these models only document them.
"""

from __future__ import annotations

from typing import Annotated, Any, Literal, TypeAlias

from pydantic import Field

from query_api.request.json_body import ApiModel, PromotedTexts, ShownTime

Json: TypeAlias = dict[str, Any]
UnixNano: TypeAlias = Annotated[str, Field(description="Nanoseconds since 1970, in decimal digits.")]
DroppedCount: TypeAlias = Annotated[int | None, Field(description="How many the producer dropped; absent if none.")]


class EventModel(ApiModel):
    """An event that happened during a span."""

    name: str = Field(description="The name of the event.")
    timestamp: ShownTime = Field(description="The time of the event.")
    time_unix_nano: UnixNano
    attributes: Json | None = Field(None, description="Attributes of the event.")
    dropped_attributes_count: DroppedCount = None
    body: Any = Field(None, description="The body of the log record that the event came as.")
    severity_text: str | None = Field(None, description="The severity of the log record, as it was sent.")
    severity_number: int | None = Field(None, description="The severity of the log record: 1 to 24, as in OTLP.")
    source: Literal["log"] | None = Field(
        None, description="`log` if the event came as a log record; absent if it came with its span."
    )


class LinkModel(ApiModel):
    """A link from a span to another span."""

    trace_id: str = Field(description="The trace of the other span.")
    span_id: str = Field(description="The id of the other span.")
    attributes: Json | None = Field(None, description="Attributes of the link.")
    trace_state: str | None = Field(None, description="The W3C trace state of the link.")
    flags: int | None = Field(None, description="The W3C trace flags of the link.")
    dropped_attributes_count: DroppedCount = None


class ReferenceModel(ApiModel):
    """A reference from a span to an application, a variant, a revision or another entity."""

    id: str | None = Field(None, description="The id of the entity.")
    slug: str | None = Field(None, description="The slug of the entity.")
    version: str | None = Field(None, description="The version of a revision.")
    attributes: Json | None = Field(None, description="Attributes of the reference; `key` names its kind.")


class HashModel(ApiModel):
    """A hash of a span's references and links."""

    id: str | None = Field(None, description="The hash as a UUID.")
    attributes: Json | None = Field(None, description="Attributes of the hash.")


class ResourceModel(ApiModel):
    """The producer of a span."""

    attributes: Json | None = Field(None, description="Attributes of the resource; dotted names are nested.")
    schema_url: str | None = Field(None, description="The schema of the attributes.")
    dropped_attributes_count: DroppedCount = None


class ScopeModel(ApiModel):
    """The instrumentation that made a span."""

    name: str | None = Field(None, description="The name of the instrumentation.")
    version: str | None = Field(None, description="The version of the instrumentation.")
    attributes: Json | None = Field(None, description="Attributes of the scope; dotted names are nested.")
    schema_url: str | None = Field(None, description="The schema of the attributes.")
    dropped_attributes_count: DroppedCount = None


class ScoreSourceModel(ApiModel):
    """Where a score comes from."""

    kind: Literal["event", "annotation"] = Field(
        description="`event`: an event `gen_ai.evaluation.result` of the span; `annotation`: a trace that links to it."
    )
    trace_id: str | None = Field(None, description="The trace of the annotation.")
    span_id: str | None = Field(None, description="The span of the annotation that links to this span.")
    evaluator: str | None = Field(None, description="The evaluator that gave the score.")


class ScoreModel(ApiModel):
    """What an evaluation or an annotation says about a span: a value, a label, or both."""

    name: str = Field(description="What was judged, such as `Relevance`.")
    value: float | None = Field(None, description="The number; 1 or 0 if a boolean was sent.")
    label: str | None = Field(None, description="The text; `true` or `false` if a boolean was sent.")
    explanation: str | None = Field(None, description="Why the score was given.")
    source: ScoreSourceModel = Field(description="Where the score comes from.")
    at: ShownTime = Field(description="When the score was given.")


class SpanModel(PromotedTexts):
    """One span. Members without a value are omitted."""

    created_at: ShownTime = Field(description="When this version of the span was stored.")
    trace_id: str = Field(description="The id of the trace: 32 hexadecimal digits.")
    span_id: str = Field(description="The id of the span: 16 hexadecimal digits.")
    parent_id: str | None = Field(None, description="The id of the parent span; absent on a root.")
    trace_type: str = Field(description="`invocation`, `annotation` or `unknown`.")
    span_type: str = Field(description="What the span does, such as `agent`, `chat`, `tool` or `unknown`.")
    span_kind: str = Field(description="The OpenTelemetry kind, such as `SPAN_KIND_SERVER`.")
    span_name: str = Field(description="The name of the span.")
    start_time: ShownTime = Field(description="The start, to the microsecond.")
    end_time: ShownTime | None = Field(
        None, description="The end, to the microsecond; absent while the span is running."
    )
    start_time_unix_nano: UnixNano
    end_time_unix_nano: UnixNano | None = None
    state: Literal["running"] | None = Field(
        None, description="`running` until the end of the span is stored, then absent."
    )
    status_code: str = Field(
        description="The OpenTelemetry status: `STATUS_CODE_UNSET`, `STATUS_CODE_OK` or `STATUS_CODE_ERROR`."
    )
    status_message: str | None = Field(None, description="The message of the status.")
    attributes: Json = Field(description="Attributes of the span; `ag` holds those that Clearspan interprets.")
    events: list[EventModel] | None = Field(None, description="Events during the span.")
    links: list[LinkModel] | None = Field(None, description="Links to other spans.")
    references: list[ReferenceModel] | None = Field(None, description="References to entities.")
    hashes: list[HashModel] | None = Field(None, description="Hashes of references and links.")
    resource: ResourceModel | None = Field(None, description="The producer of the span.")
    scope: ScopeModel | None = Field(None, description="The instrumentation that made the span.")
    trace_state: str | None = Field(None, description="The W3C trace state.")
    flags: int | None = Field(None, description="The W3C trace flags.")
    dropped_attributes_count: DroppedCount = None
    dropped_events_count: DroppedCount = None
    dropped_links_count: DroppedCount = None
    repaired: list[str] | None = Field(
        None,
        description="The places whose values could not be stored as they were sent: characters that no text may hold"
        " are U+FFFD there, and values nested too deep are JSON text. At most 20; absent if nothing was repaired.",
    )
    scores: list[ScoreModel] | None = Field(
        None, description="Scores of the span, newest first: the newest of each name and source. At most 1,000."
    )
    dropped_scores_count: int | None = Field(
        None, description="How many more scores the span got, at least; absent if none."
    )
