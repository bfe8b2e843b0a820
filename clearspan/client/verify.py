"""``clearspan audit --verify``: compare what Kafka still holds with what is stored, partition by partition.

Every record from the first that Kafka has to the stored position is decoded as the worker does, and the API says of its
spans whether they are stored, deleted or dead-lettered. One batch of records is in memory.
"""

from __future__ import annotations

import asyncio
from collections import defaultdict
from collections.abc import Sequence
from contextlib import aclosing
from dataclasses import dataclass, field
from typing import Any, Final, NamedTuple
from uuid import UUID

from clearspan.client.connection import ApiClient, RequestFailed, WrongUsage, open_connection
from clearspan.client.output import ProgressLine, TableColumn, note, print_table, show_progress
from clearspan.console import NOT_MADE, at_running_stack, fail, print_json
from clearspan.options import ServerOptions
from common.errors import ServiceError
from common.kafka.log import KafkaLog
from common.kafka.record import PROJECT_HEADER, Record
from common.settings import Settings
from common.times import SystemClock
from ingest.decode import DecodedRecord, Rules, attributed, decode_record
from ingest.policy import Policy

ASKED_TOGETHER: Final = 1_000
"""Spans of one request to the API."""

RECHECKS: Final = 5
"""How often a span is looked for again before it is missing: it may have been replaced at that moment. None is looked
for again once as many of its partition are missing as a report names.
"""

RECHECK_S: Final = 0.5

NAMED_MAX: Final = 20
"""Missing spans of a partition that a report names."""

_COLUMNS: Final = (
    TableColumn("partition", is_whole=True),
    TableColumn("offsets", is_whole=True),
    TableColumn("records", "right", is_whole=True),
    TableColumn("spans", "right", is_whole=True),
    TableColumn("stored", "right", is_whole=True),
    TableColumn("deleted", "right", is_whole=True),
    TableColumn("dead-lettered", "right", is_whole=True),
    TableColumn("missing", "right", is_whole=True),
    TableColumn("not stored yet", "right", is_whole=True, is_optional=True),
)


@dataclass(slots=True)
class PartitionReport:
    """The result for one partition. Its spans are the sum of stored, deleted, dead-lettered and missing ones."""

    topic: str
    partition: int
    offsets: range
    behind_count: int
    """Records after the stored position: they are on their way."""

    records: int = 0
    spans: int = 0
    stored: int = 0
    deleted: int = 0
    dead_lettered: int = 0
    missing: int = 0
    named: list[SentSpan] = field(default_factory=list)
    """The first of the missing ones."""


class SentSpan(NamedTuple):
    """A span of a record, or all further ones of a record that the decoder rejects."""

    project_id: UUID
    offset: int
    record_ms: int
    span_index: int | None
    """``None`` if it is about the whole record, or about several spans."""

    trace_id: str | None = None
    span_id: str | None = None
    """``None`` if the decoder rejects it."""

    reason: str = ""
    spans_count: int = 1
    project_exists: bool = True
    running: bool = False

    def members(self) -> dict[str, Any]:
        """Return the span for programs."""
        return {
            "offset": self.offset,
            "span_index": self.span_index,
            "spans_count": self.spans_count,
            "trace_id": self.trace_id,
            "span_id": self.span_id,
            "project_id": str(self.project_id),
            "reason": self.reason,
        }


def verify(
    settings: Settings, *, server: ServerOptions, admin_key: str | None, topic: str | None, as_json: bool
) -> int:
    """Compare; print one line for each partition; return the exit code."""
    if topic is not None and topic not in settings.kafka.topics:
        return fail(f"--topic: the worker reads {', '.join(settings.kafka.topics)}, not {topic!r}.", code=2)
    key = settings.admin_key.get_secret_value() if admin_key is None else admin_key
    topics = [*settings.kafka.topics] if topic is None else [topic]
    try:
        reports = asyncio.run(_verify(at_running_stack(settings), server._replace(key=key), topics))
    except WrongUsage as exc:
        return fail(str(exc), code=2)
    except RequestFailed as exc:
        if exc.status == 401:
            hint = "the API does not accept the admin key: give it with --admin-key or CLEARSPAN_ADMIN_KEY."
            return fail(f"the audit could not be made: {hint}", code=NOT_MADE)
        return fail(f"the audit could not be made: {exc}", code=NOT_MADE)
    except ServiceError as exc:
        return fail(f"the audit could not be made: {exc.detail}", code=NOT_MADE)
    missing_count = sum(report.missing for report in reports)
    not_compared = describe_not_compared(topics, reports)
    if as_json:
        is_good = not missing_count and not_compared is None
        print_json({"is_good": is_good, "partitions": [_members(report) for report in reports]})
    else:
        _print(reports)
    if missing_count:
        return 1
    return 0 if not_compared is None else fail(f"the audit could not be made: {not_compared}", code=NOT_MADE)


def describe_not_compared(topics: Sequence[str], reports: Sequence[PartitionReport]) -> str | None:
    """Return why the reports prove nothing about some topic or partition; ``None`` if they prove something about each.

    A partition without records proves nothing, but has nothing to lose, unless all are like that.
    """
    for topic in topics:
        if not any(report.topic == topic for report in reports):
            return f"Kafka has no topic {topic}."
    for report in reports:
        if report.behind_count and not report.offsets:
            place = f"{report.topic}/{report.partition}"
            return f"no record that Kafka holds of {place} is stored yet. Does the API read the same Kafka?"
    return None if any(report.offsets for report in reports) else "Kafka holds no record that is stored."


async def _verify(settings: Settings, server: ServerOptions, topics: Sequence[str]) -> list[PartitionReport]:
    async with open_connection(settings, server, scheme="Access") as api:
        status = await api.get("/admin/status")
        if not status["partitions"]:
            raise RequestFailed(f"the API does not know how far partitions are stored: {status.get('reason')}")
        through = {(each["topic"], each["partition"]): each for each in status["partitions"]}
        verifying = Verifying(settings, api)
        reports = []
        with show_progress("Comparing") as progress:
            for topic in topics:
                extent = await verifying.log.extent(topic)
                for partition, offsets in sorted(extent.items()):
                    known = through.get((topic, partition), {})
                    stored = known.get("stored_offset", -1)
                    compared = range(offsets.start, max(offsets.start, min(stored + 1, offsets.stop)))
                    report = PartitionReport(topic, partition, compared, offsets.stop - compared.stop)
                    reports.append(report)
                    await verifying.compare(report, progress)
    return reports


class Verifying:
    """Compares partitions one after another. Raises ``RequestFailed`` and ``ServiceError``."""

    def __init__(self, settings: Settings, api: ApiClient) -> None:
        self.log = KafkaLog(settings.kafka)
        self._api = api
        self._rules: Rules = Policy.of(settings).rules
        self._clock = SystemClock()

    async def compare(self, report: PartitionReport, progress: ProgressLine) -> None:
        """Compare the records of one partition."""
        # Closed at once if the command is interrupted, and with it the connection to Kafka.
        async with aclosing(self.log.read_ranges(report.topic, {report.partition: report.offsets})) as reading:
            async for records in reading:
                report.records += len(records)
                spans = self._spans_of(records)
                report.spans += _count(spans)
                await self._explain(spans, report)
                progress.advance(len(spans))

    def _spans_of(self, records: Sequence[Record]) -> list[SentSpan]:
        now_ns = self._clock.now_ns()
        return [
            span
            for record in attributed(records, self._rules)
            for span in _spans_of(decode_record(record, self._rules, now_ns=now_ns), _project_of(record, self._rules))
        ]

    async def _explain(self, spans: Sequence[SentSpan], report: PartitionReport) -> None:
        """Count the spans of some records as stored, deleted, dead-lettered or missing."""
        shared_left: dict[int, int] = {}
        spans = await self._unexplained(spans, report, shared_left)
        for _ in range(RECHECKS):
            if not spans or report.missing >= NAMED_MAX:
                break
            await asyncio.sleep(RECHECK_S)
            spans = await self._unexplained(spans, report, shared_left)
        report.missing += _count(spans)
        report.named += spans[: NAMED_MAX - len(report.named)]

    async def _unexplained(
        self, spans: Sequence[SentSpan], report: PartitionReport, shared_left: dict[int, int]
    ) -> list[SentSpan]:
        """Count what the API says of spans; return those that are missing.

        ``shared_left`` is, by the offset of a record, how many further spans its shared dead letter can explain.
        """
        by_project: dict[UUID, list[SentSpan]] = defaultdict(list)
        for span in spans:
            by_project[span.project_id].append(span)
        missing: list[SentSpan] = []
        for of_project in by_project.values():
            for first in range(0, len(of_project), ASKED_TOGETHER):
                missing += await self._ask(of_project[first : first + ASKED_TOGETHER], report, shared_left)
        unexplained: list[SentSpan] = []
        for span in sorted(missing, key=lambda span: (span.offset, span.trace_id is not None)):  # rejected ones first
            if span.spans_count <= shared_left.get(span.offset, 0):
                shared_left[span.offset] -= span.spans_count
                report.dead_lettered += span.spans_count
            elif not span.project_exists:
                report.deleted += span.spans_count
            else:
                unexplained.append(span)
        return unexplained

    async def _ask(
        self, spans: Sequence[SentSpan], report: PartitionReport, shared_left: dict[int, int]
    ) -> list[SentSpan]:
        """Ask the API for spans of one project; return those that are missing."""
        names = ("offset", "record_ms", "span_index", "trace_id", "span_id", "running")
        body = {
            "project_id": str(spans[0].project_id),
            "topic": report.topic,
            "partition": report.partition,
            "spans": [{name: getattr(span, name) for name in names} for span in spans],
        }
        answer = await self._api.post("/admin/presence/query", body)
        exists = answer["project_exists"]
        reasons = {(each["offset"], each.get("span_index")): each["reason"] for each in answer["missing"]}
        places = [(span.offset, span.span_index) for span in spans]
        missing = [
            span._replace(reason=span.reason or reasons[place], project_exists=exists)
            for span, place in zip(spans, places, strict=True)
            if place in reasons
        ]
        report.stored += answer["stored"]
        report.deleted += answer["deleted"]
        explained_count = _count(spans) - _count(missing)
        report.dead_lettered += explained_count - answer["stored"] - answer["deleted"]
        for each in answer["shared_dead_letters"]:
            shared_left.setdefault(each["offset"], each["span_count"])
        return missing


def _count(spans: Sequence[SentSpan]) -> int:
    return sum(span.spans_count for span in spans)


def _project_of(record: Record, rules: Rules) -> UUID:
    """Return the project of the dead letters of a record."""
    try:
        return UUID((record.header(PROJECT_HEADER) or b"").decode("utf-8", "replace"))
    except ValueError:
        return rules.project_of(record)


def _spans_of(decoded: DecodedRecord, project_id: UUID) -> list[SentSpan]:
    """Return the spans of a record, also those that the decoder rejects, which are of ``project_id``; a record that it
    rejects counts as one.
    """
    record, projects, rejections = decoded.record, decoded.projects, decoded.rejections
    where = (record.offset, record.timestamp_ms)
    spans = [
        SentSpan(
            projects if isinstance(projects, UUID) else projects[place],
            *where,
            index,
            span.trace_id.hex(),
            span.span_id.hex(),
            running=span.is_running,
        )
        for place, (span, index) in enumerate(zip(decoded.spans, decoded.span_indexes, strict=True))
    ]
    spans += [
        SentSpan(project_id, *where, rejection.span_index, reason=f"It is rejected: {rejection.reason}")
        for rejection in rejections.in_full
    ]
    if further_count := len(rejections.further_indexes):
        spans.append(SentSpan(project_id, *where, None, reason="They are rejected.", spans_count=further_count))
    return spans


def _members(report: PartitionReport) -> dict[str, Any]:
    """Return a report for programs."""
    return {
        "topic": report.topic,
        "partition": report.partition,
        "first_offset": report.offsets.start,
        "through_offset": report.offsets.stop - 1,
        "records": report.records,
        "spans": report.spans,
        "stored": report.stored,
        "deleted": report.deleted,
        "dead_lettered": report.dead_lettered,
        "missing": report.missing,
        "not_stored_yet": report.behind_count,
        **({"missing_spans": [span.members() for span in report.named]} if report.named else {}),
    }


def _print(reports: Sequence[PartitionReport]) -> None:
    print_table(_COLUMNS, map(_row, reports))
    for report in reports:
        where = f"missing: {report.topic}/{report.partition}"
        for span in report.named:
            place = f"{span.offset}" if span.span_index is None else f"{span.offset}, span {span.span_index}"
            ids = f" {span.trace_id} {span.span_id}" if span.span_id else ""
            note(f"{where}/{place}{ids}: {span.reason}")
        if (more := report.missing - _count(report.named)) > 0:
            note(f"{where}: and {more:,} more")


def _row(report: PartitionReport) -> Sequence[object]:
    offsets = f"{report.offsets.start} – {report.offsets.stop - 1}" if report.offsets else "none"
    counts = (report.records, report.spans, report.stored, report.deleted, report.dead_lettered, report.missing)
    return f"{report.topic}/{report.partition}", offsets, *(f"{n:,}" for n in (*counts, report.behind_count))
