"""``clearspan audit --verify``: compare what Kafka still holds with what is stored, partition by partition.

Every record from the first that Kafka has to the stored position is decoded as the worker does, and the API is asked
for its spans by id. Spans that are not stored are looked for among the dead letters. At most ``SUSPECTS_MAX`` of them
and one batch of records are in memory.
"""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from contextlib import aclosing
from typing import Any, Final
from uuid import UUID

from clearspan.client.connection import ApiClient, RequestFailed, WrongUsage, open_connection
from clearspan.client.output import ProgressLine, TableColumn, note, print_table, show_progress
from clearspan.client.suspects import PartitionReport, Suspect, Suspects
from clearspan.console import NOT_MADE, at_running_stack, fail, print_json
from clearspan.options import ServerOptions
from common.errors import ServiceError
from common.kafka.log import KafkaLog
from common.kafka.record import Record
from common.settings import Settings
from common.times import SystemClock
from ingest.decode import DecodedRecord, Rules, attributed, decode_record
from ingest.policy import Policy

ASKED_TOGETHER: Final = 1_000
"""Spans of one request to the API."""

RECHECKS: Final = 5
"""How often a span is looked for again before it is missing: it may have been replaced at that moment."""

RECHECK_S: Final = 0.5

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
            await verifying.resolve()
    return reports


class Verifying:
    """Compares partitions one after another. Raises ``RequestFailed`` and ``ServiceError``."""

    def __init__(self, settings: Settings, api: ApiClient) -> None:
        self.log = KafkaLog(settings.kafka)
        self._api = api
        self._rules: Rules = Policy.of(settings).rules
        self._dead_letter_topic = settings.kafka.dead_letter_topic
        self._suspects = Suspects()
        self._clock = SystemClock()

    async def compare(self, report: PartitionReport, progress: ProgressLine) -> None:
        """Compare the records of one partition; spans that are not stored become suspects."""
        # Closed at once if the command is interrupted, and with it the connection to Kafka.
        async with aclosing(self.log.read_ranges(report.topic, {report.partition: report.offsets})) as reading:
            async for records in reading:
                await self._compare(records, report, progress)

    async def _compare(self, records: Sequence[Record], report: PartitionReport, progress: ProgressLine) -> None:
        report.records += len(records)
        by_project: dict[UUID, list[Suspect]] = {}
        for decoded in self._decoded(records):
            for suspect in _spans_of(decoded, report):
                report.spans += suspect.spans_count
                if suspect.project_id is None:
                    self._suspects.add(suspect)
                else:
                    by_project.setdefault(suspect.project_id, []).append(suspect)
        for project_id, spans in by_project.items():
            for first in range(0, len(spans), ASKED_TOGETHER):
                await self._ask(project_id, spans[first : first + ASKED_TOGETHER])
        progress.advance(sum(map(len, by_project.values())))
        if self._suspects.are_many:
            await self.resolve()

    async def resolve(self) -> None:
        """Count the suspects: dead-lettered, of a deleted project, or missing."""
        if not len(self._suspects):
            return
        is_whole = await self._suspects.strike_out_dead_letters(self.log, self._dead_letter_topic)
        for _ in range(RECHECKS):
            again = self._suspects.to_recheck()
            if not again:
                break
            await asyncio.sleep(RECHECK_S)
            for (project_id, *_), spans in again.items():
                for first in range(0, len(spans), ASKED_TOGETHER):
                    await self._ask(project_id, spans[first : first + ASKED_TOGETHER])
        self._suspects.settle(is_whole_topic=is_whole)

    def _decoded(self, records: Sequence[Record]) -> list[DecodedRecord]:
        now_ns = self._clock.now_ns()
        return [decode_record(record, self._rules, now_ns=now_ns) for record in attributed(records, self._rules)]

    async def _ask(self, project_id: UUID, spans: Sequence[Suspect]) -> None:
        """Count what is stored or deleted; what is missing becomes a suspect."""
        asked = [{"trace_id": span.trace_id, "span_id": span.span_id, "offset": span.offset} for span in spans]
        report = spans[0].report
        where = {"topic": report.topic, "partition": report.partition}
        body = {"project_id": str(project_id), **where, "spans": asked}
        answer = await self._api.post("/admin/presence/query", body)
        reasons = {(each["trace_id"], each["span_id"], each["offset"]): each["reason"] for each in answer["missing"]}
        report.stored += answer["stored"]
        report.deleted += answer["deleted"]
        for span in spans:
            reason = reasons.get((span.trace_id, span.span_id, span.offset))
            if reason is None:
                self._suspects.discard(span)
            else:
                self._suspects.add(span.because(reason, project_exists=answer["project_exists"]))


def _spans_of(decoded: DecodedRecord, report: PartitionReport) -> list[Suspect]:
    """Return the spans of a record, also those that the decoder rejects; a record that it rejects counts as one."""
    record, projects, rejections = decoded.record, decoded.projects, decoded.rejections
    where = (report, record.offset, record.timestamp_ms)
    found = [
        Suspect(
            *where,
            index,
            span.trace_id.hex(),
            span.span_id.hex(),
            projects if isinstance(projects, UUID) else projects[at],
        )
        for at, (span, index) in enumerate(zip(decoded.spans, decoded.span_indexes, strict=True))
    ]
    found += [
        Suspect(*where, rejection.span_index, reason=f"It is rejected: {rejection.reason}")
        for rejection in rejections.in_full
    ]
    if further_count := len(rejections.further_indexes):
        found.append(Suspect(*where, None, reason="They are rejected.", spans_count=further_count))
    return found


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
        **({"missing_spans": [suspect.members() for suspect in report.named]} if report.named else {}),
    }


def _print(reports: Sequence[PartitionReport]) -> None:
    print_table(_COLUMNS, map(_row, reports))
    for report in reports:
        where = f"missing: {report.topic}/{report.partition}"
        for suspect in report.named:
            span = "" if suspect.span_index is None else f", span {suspect.span_index}"
            ids = f" {suspect.trace_id} {suspect.span_id}" if suspect.span_id else ""
            note(f"{where}/{suspect.offset}{span}{ids}: {suspect.reason}")
        if (more := report.missing - sum(suspect.spans_count for suspect in report.named)) > 0:
            note(f"{where}: and {more:,} more")


def _row(report: PartitionReport) -> Sequence[object]:
    offsets = f"{report.offsets.start} – {report.offsets.stop - 1}" if report.offsets else "none"
    counts = (report.records, report.spans, report.stored, report.deleted, report.dead_lettered, report.missing)
    return f"{report.topic}/{report.partition}", offsets, *(f"{n:,}" for n in (*counts, report.behind_count))
