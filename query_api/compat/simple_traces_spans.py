"""Convert simple traces to spans and back, and prepare them for Kafka (reference §1.6).

A span is span JSON here, the form of responses and of what intake publishes, so that an edited span keeps everything
else. The functions are pure: for large bodies they run in another process.

Origin, kind and channel are flags of the span, in ``ag.flags``. One value of each is the absence of every flag. The
reference has flags for only some of the others, so there ``play`` is returned as ``adhoc`` and ``otlp`` as ``api``;
two more flags distinguish them.
"""

from __future__ import annotations

import secrets
from collections.abc import Mapping
from typing import Any, Final

import orjson

from common.ids import parse_span_id, parse_trace_id, span_id_hex, trace_id_hex
from query_api.compat.simple_traces_models import (
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
    SimpleTraceResponse,
    TraceKind,
)
from query_api.intake.prepare import PlacedSpan, to_records, with_response
from query_api.intake.publish import PreparedIntake
from query_api.request.route import PrepareContext
from query_api.spans.render import Rendered

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
    ag = {name: value for name, value in _ag(span).items() if name != "unsupported"}
    unsupported = {name: value for name, value in _ag(span).get("unsupported", {}).items() if name != "data"}
    ag |= {"data": edit.data, **_given(tags=edit.tags, meta=edit.meta, unsupported=unsupported or None)}
    kept = {name: value for name, value in span.items() if name not in _DERIVED}
    if edit.references is not None:
        ag = {name: value for name, value in ag.items() if name not in ("references", "selector")}
        ag |= _ag_of(edit.references)
        kept = {name: value for name, value in kept.items() if name != "references"}
    if edit.links is not None:
        kept = {name: value for name, value in kept.items() if name != "links"}
        kept |= _given(links=_written_links(edit.links))
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
        name: {member: value for member, value in reference.items() if member != "attributes"}
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
