"""Simple traces as spans, and back.

A span is span JSON here, the form of responses and of what intake publishes, so that an edited span keeps everything
else. The functions are pure: for large bodies they run in another process.

Origin, kind and channel are flags of the span, in ``ag.flags``. One value of each is the absence of every flag. The
reference has flags for only some of the others, so there ``play`` is returned as ``adhoc`` and ``otlp`` as ``api``;
two more flags distinguish them. Source: reference ``spans-api`` §1.6, ``workflows-evaluators-testsets`` §5 to §7.
"""

from __future__ import annotations

import secrets
from collections.abc import Mapping
from typing import Any, Final, NamedTuple

import orjson
from pydantic import BaseModel

from common.ids import parse_span_id, parse_trace_id, span_id_hex, trace_id_hex
from query_api.compat.simple_traces.annotation_models import CreateAnnotation, CreateInvocation
from query_api.compat.simple_traces.families import ANNOTATIONS, BY_NAME, INVOCATIONS, SIMPLE_TRACES, TraceFamily
from query_api.compat.simple_traces.models import (
    Channel,
    CreateSimpleTrace,
    Json,
    Origin,
    SimpleLink,
    SimpleLinks,
    SimpleReferences,
    SimpleTrace,
    SimpleTraceCreate,
    SimpleTraceEdit,
    TraceKind,
)
from query_api.intake.prepare import PlacedSpan, to_records
from query_api.intake.publish import PreparedIntake
from query_api.intake.records import IntakeRecords
from query_api.registry.json_schemas import inferred_schema
from query_api.registry.kinds import json_text
from query_api.request.route import PrepareContext
from query_api.spans.rows import Rendered

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


def new_span(family: TraceFamily, trace: SimpleTraceCreate, *, trace_id: str, span_id: str) -> Json:
    """Return the span of a new trace."""
    ag = {
        "type": {"span": "task"},
        "flags": {**flags_of(trace.origin, trace.kind, trace.channel), **family.flags},
        "data": trace.data,
        **_given(tags=trace.tags, meta=trace.meta),
        **ag_of(trace.references),
    }
    entity = getattr(trace.references, family.entity.labels.artifact)
    name = entity.slug if entity is not None and entity.slug else family.default_name
    span = {"trace_id": trace_id, "span_id": span_id, "span_name": name, "attributes": {"ag": ag}}
    return span | _given(links=_written_links(trace.links))


def edited_span(span: Json, edit: SimpleTraceEdit, references: Json | None = None) -> Json:
    """Return the span with the changes; members that the edit does not name are kept.

    ``references`` are those of the edit, with what they were found to name.
    """
    unsupported = _without(_ag(span).get("unsupported", {}), "data") or None
    ag = _without(_ag(span), "unsupported") | {"data": edit.data}
    ag |= _given(tags=edit.tags, meta=edit.meta, unsupported=unsupported)
    kept = _without(span, *_DERIVED)
    if edit.references is not None:
        ag = _without(ag, "references", "selector") | ag_of(edit.references) | _given(references=references)
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


def ag_of(references: SimpleReferences) -> Json:
    """Return the members of ``ag`` that hold references."""
    return _given(references=references.named or None, selector=references.selector)


def _written_links(links: SimpleLinks | None) -> list[Json] | None:
    """Return links as spans have them; ``None`` without links, because an empty list would also mark an annotation."""
    named = links.items() if isinstance(links, dict) else ((LIST_KEY, link) for link in links or ())
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


class TraceDraft(NamedTuple):
    """A new trace of one span, before it is known what its references name."""

    family: str
    prepared: PreparedIntake
    """What is published if no entity has to be found."""

    needs_entity: bool
    """Whether the entity is found or created first."""

    span: bytes
    """The span as JSON."""

    data: str
    """Its data as JSON; empty unless the entity is needed."""

    schema: Json
    """A schema that follows from the data; empty unless the entity is needed."""

    references: SimpleReferences
    context: PrepareContext


def draft_of_trace(body: CreateSimpleTrace, context: PrepareContext) -> TraceDraft:
    """Prepare a new simple trace."""
    return _draft(SIMPLE_TRACES, body, context)


def draft_of_annotation(body: CreateAnnotation, context: PrepareContext) -> TraceDraft:
    """Prepare a new annotation."""
    return _draft(ANNOTATIONS, body, context)


def draft_of_invocation(body: CreateInvocation, context: PrepareContext) -> TraceDraft:
    """Prepare a new invocation."""
    return _draft(INVOCATIONS, body, context)


def _draft(family: TraceFamily, body: CreateSimpleTrace, context: PrepareContext) -> TraceDraft:
    trace = body.trace
    span = new_span(family, trace, trace_id=secrets.token_hex(16), span_id=secrets.token_hex(8))
    prepared = _prepared(family, span, span, context)
    names_one = getattr(trace.references, family.entity.labels.artifact) is not None
    needs_entity = family.needs_entity or (names_one and bool(trace.links))
    data, schema = (json_text(trace.data), inferred_schema(trace.data)) if needs_entity else ("", {})
    return TraceDraft(family.one, prepared, needs_entity, orjson.dumps(span), data, schema, trace.references, context)


def finished(draft: TraceDraft, references: Json, name: str) -> PreparedIntake:
    """Prepare a new trace with the references that were found, and the name of its span."""
    span = orjson.loads(draft.span) | {"span_name": name}
    span["attributes"]["ag"]["references"] = references
    return _prepared(BY_NAME[draft.family], span, span, draft.context)


def spans_of_edited(
    family: TraceFamily, root: Rendered, edit: SimpleTraceEdit, references: Json | None, context: PrepareContext
) -> PreparedIntake:
    """Prepare the root span of a stored trace with changes."""
    span = edited_span(orjson.loads(root.json), edit, references)
    return _prepared(family, span | _full_ids(root), span, context)


def response_body(response: BaseModel) -> bytes:
    """Return a response as JSON, under the names of its family."""
    return response.model_dump_json(exclude_none=True, by_alias=True).encode()


def _prepared(family: TraceFamily, written: Json, returned: Json, context: PrepareContext) -> PreparedIntake:
    traces = to_records([PlacedSpan(family.one, written, is_top=True)], context)
    body = response_body(family.response(count=1, trace=simple_trace_of(returned)))
    return PreparedIntake(IntakeRecords.of(traces.records), len(traces.links), body)


def _full_ids(span: Rendered) -> Json:
    """Return the ids with all of their digits; responses contain only the last 16."""
    parent = {} if span.parent_id is None else {"parent_id": span.parent_id.hex()}
    return {"span_id": span.key.span_id.hex(), **parent}
