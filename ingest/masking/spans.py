"""Mask the spans of a record, before anything is derived from them (ADR 0021)."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any
from uuid import UUID

from common.codec.decoded import Rejection
from common.errors import RejectionCode
from common.masking import Mask, MaskPlace
from common.span import Event, Link, Resource, Scope, Span
from ingest.decode import DecodedRecord, only


def masked_record(decoded: DecodedRecord, masks: Mapping[UUID, Mask]) -> DecodedRecord:
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


def _masked(span: Span, mask: Mask, project: UUID, sources: dict[tuple[int, UUID], Any]) -> Span:
    """Return the span, masked. Resources and scopes are shared between spans, before and after."""

    def source(sent: Resource | Scope) -> Any:
        key = (id(sent), project)
        if key not in sources:
            sources[key] = _masked_source(sent, mask)
        return sources[key]

    return span._replace(
        name=mask.text(MaskPlace.SPAN_NAME, span.name) or "",
        status_message=_optional(mask, MaskPlace.STATUS_MESSAGE, span.status_message),
        attributes=mask.attributes(MaskPlace.ATTRIBUTES, span.attributes),
        events=tuple(_masked_event(event, mask) for event in span.events),
        links=None if span.links is None else tuple(_masked_link(link, mask) for link in span.links),
        trace_state=mask.text(MaskPlace.ATTRIBUTES, span.trace_state) or "",
        resource=source(span.resource),
        scope=source(span.scope),
        references=_masked_list(span.references, mask, "ag.references"),
        hashes=_masked_list(span.hashes, mask, "ag.hashes"),
        session_id=_promoted(mask, "session_id", span.session_id),
        user_id=_promoted(mask, "user_id", span.user_id),
        agent_id=_promoted(mask, "agent_id", span.agent_id),
    )


def _masked_source(sent: Resource | Scope, mask: Mask) -> Resource | Scope:
    place = MaskPlace.RESOURCE if isinstance(sent, Resource) else MaskPlace.SCOPE
    attributes, schema_url = mask.attributes(place, sent.attributes), mask.text(place, sent.schema_url) or ""
    if isinstance(sent, Resource):
        return sent._replace(attributes=attributes, schema_url=schema_url)
    name, version = mask.text(place, sent.name) or "", mask.text(place, sent.version) or ""
    return sent._replace(attributes=attributes, schema_url=schema_url, name=name, version=version)


def _masked_event(event: Event, mask: Mask) -> Event:
    return event._replace(
        name=mask.text(MaskPlace.EVENTS, event.name) or "",
        attributes=mask.attributes(MaskPlace.EVENTS, event.attributes),
    )


def _masked_link(link: Link, mask: Mask) -> Link:
    return link._replace(
        trace_state=mask.text(MaskPlace.LINKS, link.trace_state) or "",
        attributes=mask.attributes(MaskPlace.LINKS, link.attributes),
    )


def _masked_list(objects: list[dict[str, Any]] | None, mask: Mask, path: str) -> list[dict[str, Any]] | None:
    masked = objects and mask.member(MaskPlace.ATTRIBUTES, path, objects)
    return [each for each in masked if isinstance(each, dict)] if isinstance(masked, list) else None


def _promoted(mask: Mask, name: str, text: str | None) -> str | None:
    masked = None if text is None else mask.member(MaskPlace.ATTRIBUTES, f"ag.{name.removesuffix('_id')}.id", text)
    return masked if isinstance(masked, str) else None


def _optional(mask: Mask, place: MaskPlace, text: str | None) -> str | None:
    return None if text is None else mask.text(place, text)
