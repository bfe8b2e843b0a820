"""Request and response models of simple traces (reference ``spans-api`` §1.6)."""

from __future__ import annotations

from enum import StrEnum
from typing import Annotated, Any, Final, Generic, TypeAlias, TypeVar

from pydantic import ConfigDict, Field, Tag

from query_api.registry.kinds import LooseReferenceIn
from query_api.request.json_body import BY_FORM, LISTED, UNLISTED, ApiModel, Listed, Named, Strict
from query_api.request.references import ReferenceIn
from query_api.spans.windowing import Windowing, WindowingResponse

Json: TypeAlias = dict[str, Any]


class Origin(StrEnum):
    """Who created a simple trace."""

    CUSTOM = "custom"
    HUMAN = "human"
    AUTO = "auto"


class TraceKind(StrEnum):
    """The purpose of a simple trace."""

    ADHOC = "adhoc"
    EVAL = "eval"
    PLAY = "play"


class Channel(StrEnum):
    """The channel by which a simple trace was created."""

    OTLP = "otlp"
    WEB = "web"
    SDK = "sdk"
    API = "api"


Referring = TypeVar("Referring", bound=ReferenceIn)


class _References(ApiModel, Generic[Referring]):
    query: Referring | None = Field(None, description="The query.")
    query_variant: Referring | None = Field(None, description="The query variant.")
    query_revision: Referring | None = Field(None, description="The query revision.")
    testset: Referring | None = Field(None, description="The testset.")
    testset_variant: Referring | None = Field(None, description="The testset variant.")
    testset_revision: Referring | None = Field(None, description="The testset revision.")
    application: Referring | None = Field(None, description="The application.")
    application_variant: Referring | None = Field(None, description="The application variant.")
    application_revision: Referring | None = Field(None, description="The application revision.")
    evaluator: Referring | None = Field(None, description="The evaluator.")
    evaluator_variant: Referring | None = Field(None, description="The evaluator variant.")
    evaluator_revision: Referring | None = Field(None, description="The evaluator revision.")
    environment: Referring | None = Field(None, description="The environment.")
    environment_variant: Referring | None = Field(None, description="The environment variant.")
    environment_revision: Referring | None = Field(None, description="The environment revision.")
    testcase: Referring | None = Field(None, description="The testcase.")
    selector: Named[str, str] | None = Field(None, description="A selector of data inside the entities.")

    @property
    def named(self) -> dict[str, Json]:
        """Return the references by name, as JSON."""
        return self.model_dump(mode="json", exclude_none=True, exclude={"selector"})


class SimpleReferences(_References[LooseReferenceIn]):
    """References from a trace to applications, variants, revisions and other entities, by name."""


class ReferencesFilter(_References[ReferenceIn], Strict):
    """References that the traces must have, by name."""


class SimpleLink(ApiModel):
    """A link to a span."""

    trace_id: str = Field(description="The id of the trace: 32 hexadecimal digits or a UUID.")
    span_id: str = Field(description="The id of the span: 16 hexadecimal digits or a UUID.")


class LinkFilter(SimpleLink, Strict):
    """A link to a span, in a query."""


SimpleLinks: TypeAlias = Annotated[
    Annotated[Named[str, SimpleLink], Tag(UNLISTED)] | Annotated[Listed[SimpleLink], Tag(LISTED)], BY_FORM
]
LinksFilter: TypeAlias = Annotated[
    Annotated[Named[str, LinkFilter], Tag(UNLISTED)] | Annotated[Listed[LinkFilter], Tag(LISTED)], BY_FORM
]

_CREATE_EXAMPLE: Final[Json] = {
    "trace": {
        "origin": "human",
        "tags": {"reviewer": "ada"},
        "data": {"outputs": {"score": 0.9}},
        "references": {"evaluator": {"slug": "helpfulness"}},
        "links": {"invocation": {"trace_id": "5b8efff798038103d269b633813fc60c", "span_id": "eee19b7ec3c1b174"}},
    }
}


class SimpleTraceCreate(ApiModel):
    """The simple trace to create: a trace of one span."""

    origin: Origin = Field(Origin.CUSTOM, description="Who created the trace.")
    kind: TraceKind = Field(TraceKind.ADHOC, description="The purpose of the trace.")
    channel: Channel = Field(Channel.API, description="The channel by which it was created.")
    tags: Json | None = Field(None, description="Tags of the trace.")
    meta: Json | None = Field(None, description="Metadata of the trace.")
    data: Json = Field(description="The data, usually `inputs`, `outputs`, `parameters` and `internals`.")
    references: SimpleReferences = Field(description="References to entities.")
    links: SimpleLinks = Field(description="Links to the spans that the trace belongs to, by name or as a list.")


class SimpleTraceEdit(ApiModel):
    """The changes of a simple trace. Absent members are kept."""

    data: Json = Field(description="The new data.")
    tags: Json | None = Field(None, description="The new tags.")
    meta: Json | None = Field(None, description="The new metadata.")
    references: SimpleReferences | None = Field(None, description="The new references.")
    links: SimpleLinks | None = Field(None, description="The new links.")


class SimpleTraceFilter(Strict):
    """A filter of simple traces. Every given member must match."""

    origin: Origin | None = Field(None, description="Who created the trace.")
    kind: TraceKind | None = Field(None, description="The purpose of the trace.")
    channel: Channel | None = Field(None, description="The channel by which it was created.")
    tags: Json | None = Field(None, description="Tags that the trace has.")
    meta: Json | None = Field(None, description="Metadata that the trace has.")
    references: ReferencesFilter | None = Field(None, description="References that the trace has.")
    links: LinksFilter | None = Field(
        None, description="Links that the trace has: all of them if given by name, one of them if given as a list."
    )


class CreateSimpleTrace(ApiModel):
    """The request to create a simple trace."""

    model_config = ConfigDict(json_schema_extra={"examples": [_CREATE_EXAMPLE]})

    trace: SimpleTraceCreate = Field(description="The trace to create.")


class EditSimpleTrace(ApiModel):
    """The request to edit a simple trace."""

    trace: SimpleTraceEdit = Field(description="The changes of the trace.")


class QuerySimpleTraces(Strict):
    """A query for simple traces. Without members it returns the newest page of all simple traces."""

    trace: SimpleTraceFilter | None = Field(None, description="The filter of the traces.")
    links: Listed[LinkFilter] | None = Field(None, description="The ids of the traces themselves.")
    windowing: Windowing | None = Field(None, description="The page to return.")


class SimpleTrace(ApiModel):
    """A simple trace, read from the root span of a trace."""

    trace_id: str = Field(description="The id of the trace.")
    span_id: str = Field(description="The id of the root span.")
    created_at: str | None = Field(None, description="The time at which the span was stored.")
    origin: Origin = Field(description="Who created the trace.")
    kind: TraceKind = Field(description="The purpose of the trace.")
    channel: Channel = Field(description="The channel by which it was created.")
    tags: Json | None = Field(None, description="Tags of the trace.")
    meta: Json | None = Field(None, description="Metadata of the trace.")
    data: Json = Field(description="The data of the trace.")
    references: Json = Field(description="References to entities, by name.")
    links: dict[str, SimpleLink] | list[SimpleLink] = Field(description="Links to spans, by name or as a list.")


class SimpleTraceResponse(ApiModel):
    """One simple trace, or none."""

    model_config = ConfigDict(populate_by_name=True)

    count: int = Field(description="1, or 0 if there is no such trace.")
    trace: SimpleTrace | None = Field(None, description="The trace.")


class SimpleTracesResponse(ApiModel):
    """A page of simple traces, the latest match first."""

    model_config = ConfigDict(populate_by_name=True)

    count: int = Field(description="The number of traces.")
    traces: list[SimpleTrace] = Field(description="The traces.")
    windowing: WindowingResponse | None = Field(None, description="The cursor of the next page, if more may follow.")
    complete: bool | None = Field(
        None, description="False when the query's budget ended before the page was full; absent otherwise."
    )


class SimpleTraceDeleted(ApiModel):
    """The deleted simple trace, or none."""

    model_config = ConfigDict(populate_by_name=True)

    count: int = Field(description="1, or 0 if there is no such trace.")
    link: SimpleLink | None = Field(None, description="The ids of the root span.")
