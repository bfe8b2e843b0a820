"""What the simple trace routes take and give, as pydantic models (reference §1.6)."""

from __future__ import annotations

from enum import StrEnum
from typing import Annotated, Any, Final, Generic, TypeAlias, TypeVar

from pydantic import BaseModel, ConfigDict, Field, Tag

from query_api.registry.fields import LooseReferenceIn
from query_api.request.body_models import BY_FORM, LISTED, UNLISTED, Listed, Named, Strict
from query_api.request.references import ReferenceIn
from query_api.spans.windowing import Windowing, WindowingResponse

Json: TypeAlias = dict[str, Any]


class Origin(StrEnum):
    """Who wrote it."""

    CUSTOM = "custom"
    HUMAN = "human"
    AUTO = "auto"


class TraceKind(StrEnum):
    """What for."""

    ADHOC = "adhoc"
    EVAL = "eval"
    PLAY = "play"


class Channel(StrEnum):
    """By which way."""

    OTLP = "otlp"
    WEB = "web"
    SDK = "sdk"
    API = "api"


Referring = TypeVar("Referring", bound=ReferenceIn)


class _References(BaseModel, Generic[Referring]):
    query: Referring | None = None
    query_variant: Referring | None = None
    query_revision: Referring | None = None
    testset: Referring | None = None
    testset_variant: Referring | None = None
    testset_revision: Referring | None = None
    application: Referring | None = None
    application_variant: Referring | None = None
    application_revision: Referring | None = None
    evaluator: Referring | None = None
    evaluator_variant: Referring | None = None
    evaluator_revision: Referring | None = None
    environment: Referring | None = None
    environment_variant: Referring | None = None
    environment_revision: Referring | None = None
    testcase: Referring | None = None
    selector: Named[str, str] | None = None

    @property
    def named(self) -> dict[str, Json]:
        """The references alone, by their names, as JSON."""
        return self.model_dump(mode="json", exclude_none=True, exclude={"selector"})


class SimpleReferences(_References[LooseReferenceIn]):
    """What a trace is about: applications, variants, revisions, …"""


class AskedReferences(_References[ReferenceIn], Strict):
    """What the traces are about."""


class SimpleLink(BaseModel):
    """A span."""

    trace_id: str = Field(description="32 hexadecimal digits, or any spelling of a UUID.")
    span_id: str = Field(description="16 hexadecimal digits, or any spelling of a UUID.")


class AskedLink(SimpleLink, Strict):
    """A span, in a question."""


SimpleLinks: TypeAlias = Annotated[
    Annotated[Named[str, SimpleLink], Tag(UNLISTED)] | Annotated[Listed[SimpleLink], Tag(LISTED)], BY_FORM
]
AskedLinks: TypeAlias = Annotated[
    Annotated[Named[str, AskedLink], Tag(UNLISTED)] | Annotated[Listed[AskedLink], Tag(LISTED)], BY_FORM
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


class SimpleTraceCreate(BaseModel):
    """A trace of one span to be written."""

    origin: Origin = Origin.CUSTOM
    kind: TraceKind = TraceKind.ADHOC
    channel: Channel = Channel.API
    tags: Json | None = None
    meta: Json | None = None
    data: Json = Field(description="Usually inputs, outputs, parameters, internals.")
    references: SimpleReferences
    links: SimpleLinks = Field(description="Spans that it belongs to: by names, or a list.")


class SimpleTraceEdit(BaseModel):
    """What changes of a trace; what is absent stays as it is."""

    data: Json
    tags: Json | None = None
    meta: Json | None = None
    references: SimpleReferences | None = None
    links: SimpleLinks | None = None


class SimpleTraceFilter(Strict):
    """What the traces have in common; each member that is given must fit."""

    origin: Origin | None = None
    kind: TraceKind | None = None
    channel: Channel | None = None
    tags: Json | None = None
    meta: Json | None = None
    references: AskedReferences | None = None
    links: AskedLinks | None = Field(None, description="By names: all of them; a list: one of them.")


class CreateSimpleTrace(BaseModel):
    """One trace to be written."""

    model_config = ConfigDict(json_schema_extra={"examples": [_CREATE_EXAMPLE]})

    trace: SimpleTraceCreate


class EditSimpleTrace(BaseModel):
    """The changes of one trace."""

    trace: SimpleTraceEdit


class QuerySimpleTraces(Strict):
    """A question about simple traces. Everything may be absent: then it is the newest page of all."""

    trace: SimpleTraceFilter | None = None
    links: Listed[AskedLink] | None = Field(None, description="The traces themselves, by their ids.")
    windowing: Windowing | None = None


class SimpleTrace(BaseModel):
    """A trace, as its root shows it."""

    trace_id: str
    span_id: str
    created_at: str | None = None
    origin: Origin
    kind: TraceKind
    channel: Channel
    tags: Json | None = None
    meta: Json | None = None
    data: Json
    references: Json
    links: dict[str, SimpleLink] | list[SimpleLink]


class SimpleTraceResponse(BaseModel):
    """One trace, or none."""

    count: int
    trace: SimpleTrace | None = None


class SimpleTracesResponse(BaseModel):
    """Traces, the one with the latest match first."""

    count: int
    traces: list[SimpleTrace]
    windowing: WindowingResponse | None = None
    complete: bool | None = Field(
        None, description="False when the query's budget ended before the page was full; absent otherwise."
    )


class SimpleTraceDeleted(BaseModel):
    """The root of the trace that was deleted, or nothing."""

    count: int
    link: SimpleLink | None = None
