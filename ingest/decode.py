"""From a Kafka record to spans with their projects: content, project, rejections (contract §2, §4).

What records hold is read by ``codecs.py``. Pure, so that it runs in any process (``ingest/decoding``).

The project of a span is, in this order: the header ``project-id`` of its record, the resource attribute ``project.id``,
the project of the topic, the default project. Records of a topic with ``trust_project: false`` get the header of its
project before anything else sees them (``attributed``). Whether a project exists takes I/O, so the worker asks;
``without_projects`` then removes the spans of projects that do not exist.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final, NamedTuple, Protocol
from uuid import UUID

from common.clickhouse.event_columns import LateEvent
from common.codec.decoded import Decoded, Rejection, Rejections, last_of_each
from common.codec.layout import Layout
from common.errors import Rejected, RejectionCode
from common.kafka.record import PROJECT_HEADER, Encoding, Record, Signal
from common.limits import KIB, SpanLimits
from common.log_record import LogRecord, event_of
from common.log_refusals import LogRefusal
from common.prices.file import list_prices
from common.prices.table import PriceTable
from common.span import Resource, Span
from ingest.codecs import count_logs, decode, decode_logs
from ingest.semconv.logfire import announced

_UNDECODABLE: Final = frozenset({RejectionCode.UNDECODABLE, RejectionCode.UNSUPPORTED_CONTENT_TYPE})


class DecodedRecord(NamedTuple):
    """One record, decoded: the spans that can be kept so far, and the rejections.

    ``spans``, ``span_indexes`` and ``projects``, if it is a list, are parallel. ``layout`` is set if it was needed to
    decode the record. ``events`` are log records that name a span; ``refused`` counts those that are neither kept nor
    rejected.
    """

    record: Record
    encoding: Encoding
    spans: list[Span]
    span_indexes: list[int]
    projects: UUID | list[UUID]
    rejections: Rejections
    base64_ids_count: int = 0
    layout: Layout | None = None
    signal: Signal = Signal.TRACES
    refused: Mapping[LogRefusal, int] = {}
    events: Sequence[LateEvent] = ()

    @property
    def claimed(self) -> Collection[UUID]:
        """The projects that the spans and the events claim to belong to."""
        of_events = {event.project_id for event in self.events}
        if not self.spans:
            return of_events
        return of_events.union((self.projects,) if isinstance(self.projects, UUID) else self.projects)


class ReadTopic(Protocol):
    """What decoding depends on of a topic, such as ``TopicSettings``."""

    @property
    def encoding(self) -> Encoding:
        """How values are encoded unless a header says otherwise."""
        ...

    @property
    def signal(self) -> Signal:
        """What records hold."""
        ...

    @property
    def project_id(self) -> UUID | None:
        """The project of records that name none."""
        ...

    @property
    def trust_project(self) -> bool:
        """Whether records may name their project."""
        ...


class PlainTopic(NamedTuple):
    """A topic that a child process can read without the settings and what they import, which is 20 MiB."""

    encoding: Encoding
    project_id: UUID | None = None
    trust_project: bool = True
    signal: Signal = Signal.TRACES


@dataclass(frozen=True, slots=True)
class Rules:
    """What decoding depends on: the settings of topics, the limits, the default project, the prices of models, and how
    attributes are stored (``SpanColumns``).

    Fewer bytes of records than ``together_bytes_min`` are read one by one: reading them together takes as much as 70
    plain spans, however few there are. If there are others, fewer plain spans than ``plain_spans_min`` are values, too:
    a table of their rows, in one order with the others, takes longer than that (of 500 spans of instrumentations, of
    which 13 are plain, 120 µs each instead of 111).
    """

    topics: Mapping[str, ReadTopic]
    limits: SpanLimits
    default_project_id: UUID
    prices: PriceTable = field(default_factory=list_prices)
    together_bytes_min: int = 64 * KIB
    plain_spans_min: int = 64
    takes_logs: bool = True
    """Whether log records are kept; otherwise all are refused."""

    def signal_of(self, record: Record) -> Signal:
        """Return what the record holds."""
        return self.topics[record.topic].signal

    def encoding_of(self, record: Record) -> Encoding:
        """Return the encoding of the record's value if its headers do not name one."""
        return self.topics[record.topic].encoding

    def project_of(self, record: Record) -> UUID:
        """Return the project of the record's spans if neither header nor resource name one."""
        return self.topics[record.topic].project_id or self.default_project_id


def attributed(records: Sequence[Record], rules: Rules) -> Sequence[Record]:
    """Return the records; those of topics that may not name a project name the project of the topic.

    The header wins over every attribute and stays with dead letters, so nothing that follows need know about trust.
    """
    untrusted = {name: topic.project_id for name, topic in rules.topics.items() if not topic.trust_project}
    if not untrusted:
        return records
    return [_named(record, untrusted[record.topic]) if record.topic in untrusted else record for record in records]


def _named(record: Record, project: UUID | None) -> Record:
    others = (header for header in record.headers if header[0] != PROJECT_HEADER)
    return record._replace(headers=(*others, (PROJECT_HEADER, str(project).encode())))


def decode_record(record: Record, rules: Rules, *, now_ns: int) -> DecodedRecord:
    """Return the content of a record. Never raises for it: what cannot be kept is in ``rejections``.

    A tombstone and an empty value hold no span and no fault: they only advance the offset.
    """
    empty = empty_record(record, rules)
    if not record.value:
        return empty
    if empty.signal is Signal.LOGS and not rules.takes_logs:
        return empty._replace(refused={LogRefusal.LOGS_OFF: count_logs(record, empty.encoding)})
    try:
        if empty.signal is Signal.LOGS:
            logs = decode_logs(record, encoding=empty.encoding, limits=rules.limits, now_ns=now_ns)
            decoded = with_projects(record, logs.spans, rules)._replace(refused=logs.refused)
            return decoded if decoded.rejections.is_of_record else _with_events(decoded, logs.events, rules)
        return with_projects(record, decode(record, encoding=empty.encoding, limits=rules.limits, now_ns=now_ns), rules)
    except Rejected as exc:
        return empty._replace(rejections=Rejections.of_record(exc.rejection, exc.detail))


def _with_events(decoded: DecodedRecord, logs: Sequence[tuple[LogRecord, int]], rules: Rules) -> DecodedRecord:
    """Add the log records that name a span, each with its project, or reject those whose resource names none."""
    of_header = _project_of_header(decoded.record)
    fallback = rules.project_of(decoded.record)
    events: list[LateEvent] = []
    rejections: list[Rejection] = []
    for log, index in logs:
        claim = None if of_header is not None else _claim(log.resource)
        project = of_header or (fallback if claim is None else _parsed(claim))
        if isinstance(project, UUID) and (about := log.about):
            events.append(LateEvent(project, *about, event_of(log), index))
        else:
            rejections.append(Rejection(index, RejectionCode.UNKNOWN_PROJECT, str(project)))
    return decoded._replace(events=events, rejections=decoded.rejections.plus(rejections))


def with_projects(record: Record, decoded: Decoded, rules: Rules) -> DecodedRecord:
    """Return the spans of a record with their projects. Never raises: the record is rejected if its header names none,
    and so is a span whose resource names none.
    """
    empty = empty_record(record, rules)
    decoded = decoded._replace(spans=list(map(announced, decoded.spans)))
    try:
        project = _project_of_header(record)
    except Rejected as exc:
        return empty._replace(rejections=Rejections.of_record(exc.rejection, exc.detail))
    if project is not None:
        return _with_content(empty, decoded.without_repeats(), project)
    return _by_resource(empty, decoded, rules.project_of(record))


def is_undecodable(decoded: DecodedRecord, rules: Rules) -> bool:
    """Return whether nothing of the record can be read and it names no project: the sign of a wrong encoding of its
    topic.
    """
    record, rejections = decoded.record, decoded.rejections
    if not rejections.in_full or not rejections.is_of_record or rejections.in_full[0].code not in _UNDECODABLE:
        return False
    return record.header(PROJECT_HEADER) is None and rules.topics[record.topic].project_id is None


def empty_record(record: Record, rules: Rules) -> DecodedRecord:
    """Return the record without any content."""
    return DecodedRecord(
        record,
        rules.encoding_of(record),
        [],
        [],
        rules.default_project_id,
        Rejections(),
        signal=rules.signal_of(record),
    )


def only(decoded: DecodedRecord, positions: Sequence[int]) -> DecodedRecord:
    """Return the same record with only the spans at these positions."""
    projects = decoded.projects
    return decoded._replace(
        spans=[decoded.spans[at] for at in positions],
        span_indexes=[decoded.span_indexes[at] for at in positions],
        projects=projects if isinstance(projects, UUID) else [projects[at] for at in positions],
    )


def without_projects(decoded: DecodedRecord, unknown: frozenset[UUID]) -> DecodedRecord:
    """Reject the spans of projects that do not exist; reject the whole record if a header or a setting named the
    project.
    """
    if not unknown or unknown.isdisjoint(decoded.claimed):
        return decoded
    projects = decoded.projects
    if isinstance(projects, UUID) and projects in unknown and decoded.claimed == {projects}:
        rejections = Rejections.of_record(RejectionCode.UNKNOWN_PROJECT, _no_such(projects))
        return decoded._replace(spans=[], span_indexes=[], events=(), rejections=rejections)
    of_spans = [projects] * len(decoded.spans) if isinstance(projects, UUID) else projects
    kept = _rejecting(decoded, [_no_such(project) if project in unknown else None for project in of_spans])
    return without_events(
        kept, {event.span_index: _no_such(event.project_id) for event in decoded.events if event.project_id in unknown}
    )


def without_events(
    decoded: DecodedRecord, reasons: Mapping[int, str], code: RejectionCode = RejectionCode.UNKNOWN_PROJECT
) -> DecodedRecord:
    """Reject the events whose index has a reason."""
    if not reasons:
        return decoded
    return decoded._replace(
        events=[event for event in decoded.events if event.span_index not in reasons],
        rejections=decoded.rejections.plus(Rejection(index, code, reason) for index, reason in reasons.items()),
    )


def _project_of_header(record: Record) -> UUID | None:
    header = record.header(PROJECT_HEADER)
    if header is None:
        return None
    text = header.decode("utf-8", "replace")
    try:
        return UUID(text)
    except ValueError:
        raise Rejected(
            RejectionCode.UNKNOWN_PROJECT,
            f"The header {PROJECT_HEADER} is {text[:100]!r}, which is not the id of a project.",
        ) from None


def _with_content(empty: DecodedRecord, decoded: Decoded, projects: UUID | list[UUID]) -> DecodedRecord:
    """Return the record with what was decoded; ``projects`` is one for all spans, or one for each."""
    return empty._replace(
        spans=decoded.spans,
        span_indexes=decoded.span_indexes,
        rejections=decoded.rejections,
        projects=projects,
        base64_ids_count=decoded.base64_ids_count,
        layout=decoded.layout,
    )


def _by_resource(empty: DecodedRecord, decoded: Decoded, fallback: UUID) -> DecodedRecord:
    """Give each span the project of its resource, else ``fallback``. Only within a project is a later span with the
    same ids a repeat.
    """
    resources = {id(resource): resource for resource in (span.resource for span in decoded.spans)}
    claims = {key: claim for key, resource in resources.items() if (claim := _claim(resource)) is not None}
    if not claims:
        return _with_content(empty, decoded.without_repeats(), fallback)
    parsed = {key: _parsed(claim) for key, claim in claims.items()}
    per_span = [parsed.get(id(span.resource), fallback) for span in decoded.spans]
    projects = [project if isinstance(project, UUID) else fallback for project in per_span]
    reasons = [None if isinstance(project, UUID) else project for project in per_span]
    kept = _rejecting(_with_content(empty, decoded, projects), reasons)
    assert isinstance(kept.projects, list)  # noqa: S101 - narrows the type: a list was passed
    return only(kept, last_of_each(kept.spans, kept.projects))


def project_of_resources(record: Record, rules: Rules, resources: Iterable[Resource]) -> UUID | None:
    """Return the project of all spans of a record, which have these resources; ``None`` if there is not exactly one."""
    try:
        project = _project_of_header(record)
    except Rejected:
        return None
    if project is not None:
        return project
    fallback = rules.project_of(record)
    claims = map(_claim, resources)
    projects = {fallback if claim is None else _parsed(claim) for claim in claims}
    found = projects.pop() if len(projects) == 1 else None
    return found if isinstance(found, UUID) else None


def _claim(resource: Resource) -> Any:
    project = resource.attributes.get("project")
    if isinstance(project, dict):
        return project.get("id")
    return resource.attributes.get("project.id")  # it stays dotted next to a “project” that is not an object


def _parsed(claim: Any) -> UUID | str:
    """Return the project, or the reason why it cannot be one."""
    try:
        return UUID(claim)
    except (ValueError, AttributeError, TypeError):
        return f"The resource attribute project.id is {str(claim)[:100]!r}, which is not the id of a project."


def _no_such(project: UUID) -> str:
    return f"There is no project {project}."


def _rejecting(decoded: DecodedRecord, reasons: list[str | None]) -> DecodedRecord:
    """Reject the spans that have a reason; keep the others."""
    if not any(reasons):
        return decoded
    kept = [position for position, reason in enumerate(reasons) if reason is None]
    rejections = decoded.rejections.plus(
        Rejection(decoded.span_indexes[position], RejectionCode.UNKNOWN_PROJECT, reason)
        for position, reason in enumerate(reasons)
        if reason is not None
    )
    return only(decoded, kept)._replace(rejections=rejections)
