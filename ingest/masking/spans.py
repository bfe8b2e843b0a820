"""Mask the spans of a record, before anything is derived from them (ADR 0021)."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import partial
from operator import is_
from typing import Any, Final
from uuid import UUID

from common.clickhouse.event_columns import LateEvent
from common.codec.decoded import Rejection
from common.errors import RejectionCode
from common.masking import MaskPlace
from common.score import Score
from common.span import PROMOTED_TEXTS, Event, Link, LogMembers, Resource, Scope, Span
from ingest.decode import DecodedRecord, only, without_events
from ingest.masking.planned import PlannedMask
from ingest.masking.repaired_places import masked_place
from ingest.semconv.evaluations import SCORE_KEYS, score_of
from ingest.semconv.logfire import with_readable_name

_FAILED: Final = "Clearspan failed to mask it, which is a defect of Clearspan. Replay it once the defect is fixed."


def masked_record(decoded: DecodedRecord, masks: Mapping[UUID, PlannedMask]) -> DecodedRecord:
    """Return the record with its spans and events masked; one of which that fails is rejected. Raises only
    ``MemoryError``.
    """
    return _with_masked_events(_with_masked_spans(decoded, masks), masks)


def _with_masked_events(decoded: DecodedRecord, masks: Mapping[UUID, PlannedMask]) -> DecodedRecord:
    events: list[LateEvent] = []
    failed: dict[int, str] = {}
    for late in decoded.events:
        mask = masks.get(late.project_id)
        try:
            events.append(late if mask is None else late._replace(event=_masked_event(late.event, mask)))
        except MemoryError:
            raise
        except Exception:  # noqa: BLE001 - a defect of ours: the event is not stored as it was sent
            failed[late.span_index] = _FAILED
    return without_events(decoded._replace(events=events), failed, RejectionCode.OUR_FAILURE)


def _with_masked_spans(decoded: DecodedRecord, masks: Mapping[UUID, PlannedMask]) -> DecodedRecord:
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
    rejections = decoded.rejections.plus(
        Rejection(decoded.span_indexes[at], RejectionCode.OUR_FAILURE, _FAILED) for at in failed
    )
    gone = frozenset(failed)
    return only(masked, [at for at in range(len(spans)) if at not in gone])._replace(rejections=rejections)


def _masked(span: Span, mask: PlannedMask, project: UUID, sources: dict[tuple[int, UUID], Any]) -> Span:
    """Return the span, masked; the same object if nothing changes. Resources and scopes are shared between spans,
    before and after.
    """
    changed: dict[str, Any] = {}
    for index, name, masked_field in _MASKED:
        value = span[index]
        if value is not None and (masked := masked_field(mask, value)) is not value:
            changed[name] = masked
    for name, masked_shared in _SHARED.items():
        value = getattr(span, name)
        key = (id(value), project)
        masked = sources.get(key)
        if masked is None:
            masked = sources[key] = masked_shared(mask, value)
        if masked is not value:
            changed[name] = masked
    masked_span = span._replace(**changed) if changed else span
    named = with_readable_name(masked_span)
    if named is masked_span:
        return masked_span
    return named._replace(name=mask.text(MaskPlace.SPAN_NAME, named.name) or "")


def _masked_resource(mask: PlannedMask, sent: Resource) -> Resource:
    attributes = mask.attributes(MaskPlace.RESOURCE, sent.attributes)
    schema_url = mask.text(MaskPlace.RESOURCE, sent.schema_url) or ""
    if attributes is sent.attributes and schema_url == sent.schema_url:
        return sent
    return sent._replace(attributes=attributes, schema_url=schema_url)


def _masked_scope(mask: PlannedMask, sent: Scope) -> Scope:
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


def masked_events(mask: PlannedMask, events: tuple[Event, ...]) -> tuple[Event, ...]:
    """Return events masked; the same object if nothing changes."""
    masked = tuple(_masked_event(event, mask) for event in events)
    return events if all(map(is_, masked, events)) else masked


def _masked_links(mask: PlannedMask, links: tuple[Link, ...]) -> tuple[Link, ...]:
    masked = tuple(_masked_link(link, mask) for link in links)
    return links if all(map(is_, masked, links)) else masked


def _masked_event(event: Event, mask: PlannedMask) -> Event:
    name = mask.text(MaskPlace.EVENTS, event.name) or ""
    attributes = mask.attributes(MaskPlace.EVENTS, event.attributes)
    log = event.log and _masked_log(mask, event.log)
    if attributes is event.attributes and name == event.name and log == event.log:
        return event
    return event._replace(name=name, attributes=attributes, log=log)


def _masked_log(mask: PlannedMask, log: LogMembers) -> LogMembers:
    masked = mask.attributes(MaskPlace.EVENTS, {"body": log.body})
    return log._replace(body=masked.get("body"), severity_text=mask.text(MaskPlace.EVENTS, log.severity_text) or "")


def _masked_link(link: Link, mask: PlannedMask) -> Link:
    trace_state = mask.text(MaskPlace.LINKS, link.trace_state) or ""
    attributes = mask.attributes(MaskPlace.LINKS, link.attributes)
    if attributes is link.attributes and trace_state == link.trace_state:
        return link
    return link._replace(trace_state=trace_state, attributes=attributes)


def masked_scores(mask: PlannedMask, scores: tuple[Score, ...]) -> tuple[Score, ...]:
    """Return scores masked, by the rules for the attributes of an evaluation; one without a name, or with nothing
    left, is dropped. The same object if nothing changes.
    """
    masked = tuple(_masked_score(score, mask) for score in scores)
    return scores if all(map(is_, masked, scores)) else tuple(filter(None, masked))


def _masked_score(score: Score, mask: PlannedMask) -> Score | None:
    evaluator = score.source.evaluator
    said = {key: value for name, key in SCORE_KEYS.items() if (value := getattr(score, name)) is not None}
    masked = mask.attributes(MaskPlace.EVENTS, said)
    shown = evaluator and mask.text(MaskPlace.EVENTS, evaluator)
    if masked is said and shown == evaluator:
        return score
    return score_of(masked, score.source._replace(evaluator=shown), score.at_ns)


def _masked_places(mask: PlannedMask, places: tuple[str, ...]) -> tuple[str, ...]:
    return places and tuple(filter(None, (masked_place(place, mask) for place in places)))


def _masked_objects(key: str, mask: PlannedMask, objects: list[dict[str, Any]]) -> list[dict[str, Any]] | None:
    masked = objects and mask.member(MaskPlace.ATTRIBUTES, key, objects)
    return [each for each in masked if isinstance(each, dict)] if isinstance(masked, list) else None


def _masked_value(key: str, mask: PlannedMask, value: Any) -> Any:
    """Return what rules for a key leave of the value of a field; ``None`` if they remove it or change its type."""
    masked = mask.member(MaskPlace.ATTRIBUTES, key, value)
    return masked if isinstance(masked, type(value)) else None


UNMASKED: Final = frozenset({
    "trace_id", "span_id", "parent_id", "kind", "start_ns", "end_ns", "status_code", "flags",
    "dropped_attributes_count", "dropped_events_count", "dropped_links_count", "dropped_scores_count", "is_running",
})  # fmt: skip
"""The fields of a span without content: ids, times, enums and counts. All others are masked."""

_SHARED: Final[Mapping[str, Callable[[PlannedMask, Any], Any]]] = {
    "resource": _masked_resource,
    "scope": _masked_scope,
}
_OF_FIELD: Final[Mapping[str, Callable[[PlannedMask, Any], Any]]] = {
    "name": lambda mask, name: mask.text(MaskPlace.SPAN_NAME, name) or "",
    "status_message": lambda mask, message: mask.text(MaskPlace.STATUS_MESSAGE, message),
    "attributes": lambda mask, attributes: mask.attributes(MaskPlace.ATTRIBUTES, attributes),
    "events": masked_events,
    "links": _masked_links,
    "trace_state": lambda mask, state: mask.text(MaskPlace.ATTRIBUTES, state) or "",
    "repaired": _masked_places,
    "scores": masked_scores,
    "references": partial(_masked_objects, "ag.references"),
    "hashes": partial(_masked_objects, "ag.hashes"),
    **{name: partial(_masked_value, promoted.mask_key) for name, promoted in PROMOTED_TEXTS.items()},
}
_MASKED: Final = tuple(
    (index, name, _OF_FIELD.get(name) or partial(_masked_value, name))
    for index, name in enumerate(Span._fields)
    if name not in UNMASKED and name not in _SHARED
)
"""Position, name and mask of each field that is masked. One that is named nowhere above is masked by its name."""
