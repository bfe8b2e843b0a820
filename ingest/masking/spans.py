"""Mask the spans of a record, before anything is derived from them (ADR 0021)."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, Final, TypeAlias, TypeVar
from uuid import UUID

from common.codec.decoded import Rejection
from common.errors import RejectionCode
from common.masking import MaskPlace
from common.span import PROMOTED_TEXTS, Event, Link, Resource, Scope, Span
from ingest.decode import DecodedRecord, only
from ingest.masking.planned import PlannedMask
from ingest.masking.repaired_places import masked_place

Source: TypeAlias = Resource | Scope
Part = TypeVar("Part", Event, Link)
_NOT_SENT: Final = (None,) * len(("references", "hashes", *PROMOTED_TEXTS))
"""The last members of a span, which only ``span_json`` sends."""


def masked_record(decoded: DecodedRecord, masks: Mapping[UUID, PlannedMask]) -> DecodedRecord:
    """Return the record with its spans masked; a span of which that fails is rejected. Raises only ``MemoryError``."""
    projects = decoded.projects
    if not decoded.spans or (isinstance(projects, UUID) and projects not in masks):
        return decoded
    of_span = [projects] * len(decoded.spans) if isinstance(projects, UUID) else projects
    sources: dict[tuple[int, UUID], Any] = {}
    spans: list[Span] = []
    failed: list[int] = []
    for at, (span, project) in enumerate(zip(decoded.spans, of_span, strict=True)):
        mask = masks.get(project)
        try:
            spans.append(span if mask is None else _masked(span, mask, project, sources))
        except MemoryError:
            raise
        except Exception:  # noqa: BLE001 - a defect of ours: the span is not stored as it was sent
            spans.append(span)
            failed.append(at)
    masked = decoded._replace(spans=spans)
    if not failed:
        return masked
    reason = "Clearspan failed to mask it, which is a defect of Clearspan. Replay it once the defect is fixed."
    rejections = decoded.rejections.plus(
        Rejection(decoded.span_indexes[at], RejectionCode.OUR_FAILURE, reason) for at in failed
    )
    gone = frozenset(failed)
    return only(masked, [at for at in range(len(spans)) if at not in gone])._replace(rejections=rejections)


def _masked(span: Span, mask: PlannedMask, project: UUID, sources: dict[tuple[int, UUID], Any]) -> Span:
    """Return the span, masked; the same object if nothing changes. Resources and scopes are shared between spans,
    before and after.
    """
    name = mask.text(MaskPlace.SPAN_NAME, span.name) or ""
    status_message = _optional(mask, MaskPlace.STATUS_MESSAGE, span.status_message)
    attributes = mask.attributes(MaskPlace.ATTRIBUTES, span.attributes)
    events = span.events and _masked_all(span.events, _masked_event, mask)
    links = span.links and _masked_all(span.links, _masked_link, mask)
    trace_state = mask.text(MaskPlace.ATTRIBUTES, span.trace_state) or ""
    resource = _masked_source(span.resource, mask, project, sources)
    scope = _masked_source(span.scope, mask, project, sources)
    repaired = span.repaired and tuple(filter(None, (masked_place(place, mask) for place in span.repaired)))
    if (
        attributes is not span.attributes
        or name is not span.name
        or events is not span.events
        or resource is not span.resource
        or scope is not span.scope
        or status_message is not span.status_message
        or links is not span.links
        or trace_state is not span.trace_state
        or repaired is not span.repaired
    ):
        span = span._replace(
            name=name,
            status_message=status_message,
            attributes=attributes,
            events=events,
            links=links,
            trace_state=trace_state,
            resource=resource,
            scope=scope,
            repaired=repaired,
        )
    return span if span[-len(_NOT_SENT) :] == _NOT_SENT else _masked_members(span, mask)


def _masked_members(span: Span, mask: PlannedMask) -> Span:
    """Return the span with the members masked that only ``span_json`` has."""
    return span._replace(
        references=_masked_list(span.references, mask, "ag.references"),
        hashes=_masked_list(span.hashes, mask, "ag.hashes"),
        session_id=_promoted(mask, "session_id", span.session_id),
        user_id=_promoted(mask, "user_id", span.user_id),
        agent_id=_promoted(mask, "agent_id", span.agent_id),
    )


def _masked_source(sent: Source, mask: PlannedMask, project: UUID, sources: dict[tuple[int, UUID], Any]) -> Any:
    key = (id(sent), project)
    masked = sources.get(key)
    if masked is None:
        masked = sources[key] = (
            _masked_resource(sent, mask) if isinstance(sent, Resource) else _masked_scope(sent, mask)
        )
    return masked


def _masked_resource(sent: Resource, mask: PlannedMask) -> Resource:
    attributes = mask.attributes(MaskPlace.RESOURCE, sent.attributes)
    schema_url = mask.text(MaskPlace.RESOURCE, sent.schema_url) or ""
    if attributes is sent.attributes and schema_url == sent.schema_url:
        return sent
    return sent._replace(attributes=attributes, schema_url=schema_url)


def _masked_scope(sent: Scope, mask: PlannedMask) -> Scope:
    attributes = mask.attributes(MaskPlace.SCOPE, sent.attributes)
    texts = {text: mask.text(MaskPlace.SCOPE, text) or "" for text in (sent.name, sent.version, sent.schema_url)}
    if attributes is sent.attributes and all(text == masked for text, masked in texts.items()):
        return sent
    return sent._replace(
        attributes=attributes,
        name=texts[sent.name],
        version=texts[sent.version],
        schema_url=texts[sent.schema_url],
    )


def _masked_all(sent: tuple[Part, ...], masked_one: Callable[[Part, PlannedMask], Part], mask: PlannedMask) -> Any:
    masked = tuple(masked_one(each, mask) for each in sent)
    return sent if all(kept is each for kept, each in zip(masked, sent, strict=True)) else masked


def _masked_event(event: Event, mask: PlannedMask) -> Event:
    name = mask.text(MaskPlace.EVENTS, event.name) or ""
    attributes = mask.attributes(MaskPlace.EVENTS, event.attributes)
    if attributes is event.attributes and name == event.name:
        return event
    return event._replace(name=name, attributes=attributes)


def _masked_link(link: Link, mask: PlannedMask) -> Link:
    trace_state = mask.text(MaskPlace.LINKS, link.trace_state) or ""
    attributes = mask.attributes(MaskPlace.LINKS, link.attributes)
    if attributes is link.attributes and trace_state == link.trace_state:
        return link
    return link._replace(trace_state=trace_state, attributes=attributes)


def _masked_list(objects: list[dict[str, Any]] | None, mask: PlannedMask, path: str) -> list[dict[str, Any]] | None:
    masked = objects and mask.member(MaskPlace.ATTRIBUTES, path, objects)
    return [each for each in masked if isinstance(each, dict)] if isinstance(masked, list) else None


def _promoted(mask: PlannedMask, name: str, text: str | None) -> str | None:
    masked = None if text is None else mask.member(MaskPlace.ATTRIBUTES, f"ag.{name.removesuffix('_id')}.id", text)
    return masked if isinstance(masked, str) else None


def _optional(mask: PlannedMask, place: MaskPlace, text: str | None) -> str | None:
    return None if text is None else mask.text(place, text)
