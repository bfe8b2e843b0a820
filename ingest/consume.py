"""Records in, spans with their projects out: the first step of the way, pure, so that it runs in any process (``ingest/decoding``).

The project of a span (contract §2): the record's header ``project-id``, else the resource attribute ``project.id``,
else the topic's project, else the default one. Whether a project exists is asked by the worker, since that needs
I/O; the spans of those that do not are taken out by ``without_projects``.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final, NamedTuple
from uuid import UUID

from common.codec.decoded import Decoded, Rejection, Rejections, last_of_each
from common.codec.layout import Layout
from common.errors import Rejected, RejectionCode
from common.kafka.record import Record
from common.limits import SpanLimits
from common.record_headers import PROJECT_HEADER
from common.settings import Encoding, TopicSettings
from common.span import Resource, Span
from ingest.decode import decode
from ingest.semconv.prices import PriceTable, list_prices

_UNDECODABLE: Final = frozenset({RejectionCode.UNDECODABLE, RejectionCode.UNSUPPORTED_CONTENT_TYPE})


class DecodedRecord(NamedTuple):
    """One record, read: the spans that can be kept so far, and what cannot.

    ``spans`` and ``span_indexes`` go in parallel, and so does ``projects`` where it is a list. ``layout`` is there where it had to
    be made to read the record.
    """

    record: Record
    encoding: Encoding
    spans: list[Span]
    span_indexes: list[int]
    projects: UUID | list[UUID]
    rejections: Rejections
    base64_ids_count: int = 0
    layout: Layout | None = None

    @property
    def claimed(self) -> Collection[UUID]:
        """The projects that its spans claim to belong to."""
        if not self.spans:
            return ()
        return (self.projects,) if isinstance(self.projects, UUID) else set(self.projects)

    @property
    def is_refused(self) -> bool:
        """Whether nothing of the record can be kept."""
        return bool(self.rejections) and not self.spans


@dataclass(frozen=True, slots=True)
class Rules:
    """What a record is read by: the settings of its topic, the limits, the project of last resort, the prices of models."""

    topics: Mapping[str, TopicSettings]
    limits: SpanLimits
    default_project_id: UUID
    prices: PriceTable = field(default_factory=list_prices)

    def encoding_of(self, record: Record) -> Encoding:
        """How its value is encoded when its headers do not say."""
        return self.topics[record.topic].encoding

    def project_of(self, record: Record) -> UUID:
        """Where its spans go when neither header nor resource say."""
        return self.topics[record.topic].project_id or self.default_project_id


def decode_record(record: Record, rules: Rules, *, now_ns: int) -> DecodedRecord:
    """What is in the record. Never raises for what the record holds: what cannot be kept is in ``rejections``.

    A tombstone and an empty value hold no span and no fault: they only advance the offset.
    """
    nothing = nothing_of(record, rules)
    if not record.value:
        return nothing
    try:
        decoded = decode(record, encoding=nothing.encoding, limits=rules.limits, now_ns=now_ns)
        project = _project_of_header(record)
    except Rejected as exc:
        return nothing._replace(rejections=Rejections.of_record(exc.rejection, exc.detail))
    if project is not None:
        return _holding(nothing, decoded.without_repeats(), project)
    return _by_resource(nothing, decoded, rules.project_of(record))


def is_undecodable(decoded: DecodedRecord, rules: Rules) -> bool:
    """Whether nothing of the record can be read and it names no project: the sign of a topic whose encoding is set wrongly."""
    record, rejections = decoded.record, decoded.rejections
    if not rejections.is_of_record or rejections.refusals[0].code not in _UNDECODABLE:
        return False
    return record.header(PROJECT_HEADER) is None and rules.topics[record.topic].project_id is None


def nothing_of(record: Record, rules: Rules) -> DecodedRecord:
    """The record before anything is read of it."""
    return DecodedRecord(record, rules.encoding_of(record), [], [], rules.default_project_id, Rejections())


def only(decoded: DecodedRecord, positions: Sequence[int]) -> DecodedRecord:
    """The same with the spans at these positions alone."""
    projects = decoded.projects
    return decoded._replace(
        spans=[decoded.spans[each] for each in positions],
        span_indexes=[decoded.span_indexes[each] for each in positions],
        projects=projects if isinstance(projects, UUID) else [projects[each] for each in positions],
    )


def without_projects(decoded: DecodedRecord, unknown: Collection[UUID]) -> DecodedRecord:
    """The same without the spans of projects that do not exist: they are refused, and so is the record if a header or a setting said so."""
    if not unknown or not decoded.spans:
        return decoded
    if isinstance(decoded.projects, UUID):
        if decoded.projects not in unknown:
            return decoded
        rejection = Rejections.of_record(RejectionCode.UNKNOWN_PROJECT, _unknown(decoded.projects))
        return decoded._replace(spans=[], span_indexes=[], rejections=rejection)
    return _refusing(decoded, [_refused_project(each, unknown) for each in decoded.projects])


def _project_of_header(record: Record) -> UUID | None:
    header = record.header(PROJECT_HEADER)
    if header is None:
        return None
    text = header.decode("utf-8", "replace")
    try:
        return UUID(text)
    except ValueError:
        raise Rejected(
            RejectionCode.UNKNOWN_PROJECT, f"The header {PROJECT_HEADER} is {text[:100]!r}, not the id of a project."
        ) from None


def _holding(nothing: DecodedRecord, decoded: Decoded, projects: UUID | list[UUID]) -> DecodedRecord:
    """``nothing`` with what was decoded, of these projects: one, or one for each span."""
    return nothing._replace(
        spans=decoded.spans,
        span_indexes=decoded.span_indexes,
        rejections=decoded.rejections,
        projects=projects,
        base64_ids_count=decoded.base64_ids_count,
        layout=decoded.layout,
    )


def _by_resource(nothing: DecodedRecord, decoded: Decoded, fallback: UUID) -> DecodedRecord:
    """Spans of several projects may have the same ids: a repeat is one inside a project."""
    named = {id(each): each for each in (span.resource for span in decoded.spans)}
    claims = {key: claim for key, each in named.items() if (claim := _claim(each)) is not None}
    if not claims:
        return _holding(nothing, decoded.without_repeats(), fallback)
    parsed = {key: _parsed(claim) for key, claim in claims.items()}
    per_span = [parsed.get(id(span.resource), fallback) for span in decoded.spans]
    held = _holding(nothing, decoded, [each if isinstance(each, UUID) else fallback for each in per_span])
    kept = _refusing(held, [None if isinstance(each, UUID) else each for each in per_span])
    assert isinstance(kept.projects, list)  # noqa: S101 - narrows the type: it was made here
    return only(kept, last_of_each(kept.spans, kept.projects))


def _claim(resource: Resource) -> Any:
    project = resource.attributes.get("project")
    if isinstance(project, dict):
        return project.get("id")
    return resource.attributes.get("project.id")  # beside a “project” that is no object it stays dotted


def _parsed(claim: Any) -> UUID | str:
    """The project, or why it cannot be one."""
    try:
        return UUID(claim)
    except (ValueError, AttributeError, TypeError):
        return f"The resource attribute project.id is {str(claim)[:100]!r}, not the id of a project."


def _refused_project(project: UUID, unknown: Collection[UUID]) -> str | None:
    return _unknown(project) if project in unknown else None


def _unknown(project: UUID) -> str:
    return f"There is no project {project}."


def _refusing(decoded: DecodedRecord, reasons: list[str | None]) -> DecodedRecord:
    """The spans without a reason stay; the others are refused for theirs."""
    if not any(reasons):
        return decoded
    kept = [position for position, reason in enumerate(reasons) if reason is None]
    rejections = decoded.rejections.plus(
        Rejection(decoded.span_indexes[position], RejectionCode.UNKNOWN_PROJECT, reason)
        for position, reason in enumerate(reasons)
        if reason is not None
    )
    return only(decoded, kept)._replace(rejections=rejections)
