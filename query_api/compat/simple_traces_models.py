"""Request and response models of the simple trace routes, and their conversion to spans and back (reference §1.6).

A span is span JSON here, the form of responses and of what intake publishes, so that an edited span keeps everything
else. The functions are pure: for large bodies they run in another process.

Origin, kind and channel are flags of the span, in ``ag.flags``. One value of each is the absence of every flag. The
reference has flags for only some of the others, so there ``play`` is returned as ``adhoc`` and ``otlp`` as ``api``;
two more flags distinguish them.
"""

from __future__ import annotations

import secrets
from collections.abc import Mapping
from enum import StrEnum
from typing import Annotated, Any, Final, Generic, TypeAlias, TypeVar

import orjson
from pydantic import ConfigDict, Field, Tag

from common.ids import parse_span_id, parse_trace_id, span_id_hex, trace_id_hex
from query_api.intake.prepare import PlacedSpan, to_records, with_response
from query_api.intake.publish import PreparedIntake
from query_api.registry.kinds import LooseReferenceIn
from query_api.request.json_body import BY_FORM, LISTED, UNLISTED, ApiModel, Listed, Named, Strict
from query_api.request.references import ReferenceIn
from query_api.request.route import PrepareContext
from query_api.spans.rows import Rendered
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

    count: int = Field(description="1, or 0 if there is no such trace.")
    trace: SimpleTrace | None = Field(None, description="The trace.")


class SimpleTracesResponse(ApiModel):
    """A page of simple traces, the latest match first."""

    count: int = Field(description="The number of traces.")
    traces: list[SimpleTrace] = Field(description="The traces.")
    windowing: WindowingResponse | None = Field(None, description="The cursor of the next page, if more may follow.")
    complete: bool | None = Field(
        None, description="False when the query's budget ended before the page was full; absent otherwise."
    )


class SimpleTraceDeleted(ApiModel):
    """The deleted simple trace, or none."""

    count: int = Field(description="1, or 0 if there is no such trace.")
    link: SimpleLink | None = Field(None, description="The ids of the root span.")


_FLAGS: Final[tuple[Mapping[str, str], ...]] = (
    {Origin.CUSTOM: "is_custom", Origin.HUMAN: "is_feedback"},
    {TraceKind.EVAL: "is_evaluation", TraceKind.PLAY: "is_play"},
    {Channel.SDK: "is_sdk", Channel.WEB: "is_web", Channel.OTLP: "is_otlp"},
)


def flags_of(origin: Origin, kind: TraceKind, channel: Channel) -> dict[str, bool]:
    """Return the flags of the values."""
    return {flag: True for flags in _FLAGS for value, flag in flags.items() if value in (origin, kind, channel)}


def read_flags(flags: Mapping[str, Any]) -> tuple[Origin, TraceKind, Channel]:
    """Return the values of the flags."""
    origin, kind, channel = (
        next((value for value, flag in flags_by_value.items() if flags.get(flag) is True), None)
        for flags_by_value in _FLAGS
    )
    return Origin(origin or Origin.AUTO), TraceKind(kind or TraceKind.ADHOC), Channel(channel or Channel.API)


def wanted_flags(origin: Origin | None, kind: TraceKind | None, channel: Channel | None) -> dict[str, bool]:
    """Return whether each flag must be set or unset for the given values."""
    wanted: dict[str, bool] = {}
    for flags_by_value, value in zip(_FLAGS, (origin, kind, channel), strict=True):
        if value is not None and value in flags_by_value:
            wanted[flags_by_value[value]] = True
        elif value is not None:
            wanted |= dict.fromkeys(flags_by_value.values(), False)
    return wanted


LIST_KEY: Final = "key"
"""The name of every link of a list."""

_DERIVED: Final = ("hashes", "created_at", "trace_type")
"""Members that the worker derives again."""


def new_span(trace: SimpleTraceCreate, *, trace_id: str, span_id: str) -> Json:
    """Return the span of a new trace."""
    ag = {
        "type": {"span": "task"},
        "flags": flags_of(trace.origin, trace.kind, trace.channel),
        "data": trace.data,
        **_given(tags=trace.tags, meta=trace.meta),
        **_ag_of(trace.references),
    }
    evaluator = trace.references.evaluator
    name = evaluator.slug if evaluator is not None and evaluator.slug else "trace"
    span = {"trace_id": trace_id, "span_id": span_id, "span_name": name, "attributes": {"ag": ag}}
    return span | _given(links=_written_links(trace.links))


def edited_span(span: Json, edit: SimpleTraceEdit) -> Json:
    """Return the span with the changes; members that the edit does not name are kept."""
    unsupported = _without(_ag(span).get("unsupported", {}), "data") or None
    ag = _without(_ag(span), "unsupported") | {"data": edit.data}
    ag |= _given(tags=edit.tags, meta=edit.meta, unsupported=unsupported)
    kept = _without(span, *_DERIVED)
    if edit.references is not None:
        ag = _without(ag, "references", "selector") | _ag_of(edit.references)
        kept = _without(kept, "references")
    if edit.links is not None:
        kept = _without(kept, "links") | _given(links=_written_links(edit.links))
    return kept | {"attributes": {**span["attributes"], "ag": ag}}


def simple_trace_of(span: Json) -> SimpleTrace:
    """Return the simple trace of a root span."""
    ag = _ag(span)
    origin, kind, channel = read_flags(ag.get("flags", {}))
    return SimpleTrace(
        trace_id=span["trace_id"],
        span_id=span["span_id"],
        created_at=span.get("created_at"),
        origin=origin,
        kind=kind,
        channel=channel,
        tags=ag.get("tags"),
        meta=ag.get("meta"),
        data={**ag.get("data", {}), **_object(_object(ag.get("unsupported")).get("data"))},
        references=_read_references(span, ag),
        links=_read_links(span.get("links") or []),
    )


def _ag(span: Json) -> Json:
    ag: Json = span["attributes"]["ag"]
    return ag


def _object(value: Any) -> Json:
    return value if isinstance(value, dict) else {}


def _without(members: Mapping[str, Any], *names: str) -> Json:
    return {name: value for name, value in members.items() if name not in names}


def _given(**members: Any) -> Json:
    return {name: value for name, value in members.items() if value is not None}


def _ag_of(references: SimpleReferences) -> Json:
    return _given(references=references.named or None, selector=references.selector)


def _written_links(links: SimpleLinks) -> list[Json] | None:
    """Return links as spans have them; ``None`` without links, because an empty list would also mark an annotation."""
    named = links.items() if isinstance(links, dict) else ((LIST_KEY, link) for link in links)
    return [{**link.model_dump(), "attributes": {"key": name}} for name, link in named] or None


def _read_links(links: list[Json]) -> SimpleLinks:
    """Return links by name if the names are distinct, else as a list; also a single link with the name of a list's
    links."""
    names = [_object(link.get("attributes")).get("key") for link in links]
    read = [_read_link(link["trace_id"], link["span_id"]) for link in links]
    if names != [LIST_KEY] and all(isinstance(name, str) for name in names) and len(set(names)) == len(names):
        return {str(name): link for name, link in zip(names, read, strict=True)}
    return read


def _read_link(trace_id: str, span_id: str) -> SimpleLink:
    """Return a link with ids in the form of stored spans."""
    try:
        return SimpleLink(trace_id=trace_id_hex(parse_trace_id(trace_id)), span_id=span_id_hex(parse_span_id(span_id)))
    except ValueError:  # half of an id of 128 bits, which may be all zeros
        return SimpleLink(trace_id=trace_id, span_id=span_id)


def _read_references(span: Json, ag: Mapping[str, Any]) -> Json:
    named = ag.get("references") or {
        name: _without(reference, "attributes")
        for reference in span.get("references") or []
        if isinstance(name := _object(reference.get("attributes")).get("key"), str)
    }
    return {**named, **_given(selector=ag.get("selector"))}


def spans_of_new(body: CreateSimpleTrace, context: PrepareContext) -> PreparedIntake:
    """Prepare a new trace of one span."""
    span = new_span(body.trace, trace_id=secrets.token_hex(16), span_id=secrets.token_hex(8))
    return _prepared(span, span, context)


def spans_of_edited(root: Rendered, edit: SimpleTraceEdit, context: PrepareContext) -> PreparedIntake:
    """Prepare the root span of a stored trace with changes."""
    span = edited_span(orjson.loads(root.json), edit)
    return _prepared(span | _full_ids(root), span, context)


def _prepared(written: Json, returned: Json, context: PrepareContext) -> PreparedIntake:
    traces = to_records([PlacedSpan("trace", written, is_top=True)], context)
    return with_response(traces, SimpleTraceResponse(count=1, trace=simple_trace_of(returned)))


def _full_ids(span: Rendered) -> Json:
    """Return the ids with all of their digits; responses contain only the last 16."""
    parent = {} if span.parent_id is None else {"parent_id": span.parent_id.hex()}
    return {"span_id": span.key.span_id.hex(), **parent}
