"""Spans of one project that retention deletes, and a model of what should be left."""

from __future__ import annotations

import random
from collections.abc import Iterator, Sequence
from contextlib import asynccontextmanager, contextmanager
from dataclasses import dataclass, field, replace
from datetime import timedelta
from typing import Any, Final, NamedTuple
from uuid import UUID, uuid4

from common.clickhouse.event_columns import EVENTS_TABLE, LateEvent, event_rows, rows_of_events
from common.clickhouse.span_columns import SPANS_TABLE, SpanColumns, stamped
from common.clickhouse.store import ColumnStore, Statement
from common.postgres.pool import Database
from common.postgres.projects import Projects
from common.span import Event, LogMembers, Span
from ingest.normalize import normalize
from jobs.retention.expire import RetentionLimits
from jobs.retention.run import Retention
from query_api.retention.rules import KeepRules, RetentionRecords
from tests.fakes.clock import ManualClock
from tests.support.feed import settle

DAY_US: Final = 24 * 3_600_000_000
NOW_US: Final = ManualClock().now_ns() // 1_000
PARTITIONS: Final = ("cluster/spans/0", "cluster/spans/1")


LOGS = "cluster/otlp_logs/0"


class SentSpan(NamedTuple):
    """One span of a record, and its size in responses."""

    trace: int
    span: int
    start_us: int
    bytes_count: int = 0

    @property
    def key(self) -> tuple[int, int]:
        return self.trace, self.span


class SentRecord(NamedTuple):
    """One record."""

    partition_id: str
    offset: int
    record_ms: int
    spans: tuple[SentSpan, ...]


class ModelVersion(NamedTuple):
    """The latest version of a span in one partition. The order is that of versions across partitions."""

    record_ms: int
    offset: int
    partition_id: str
    sent: SentSpan


@dataclass
class RetentionModel:
    """What is visible, by the rules of the contract: a dictionary instead of an engine."""

    latest: dict[tuple[int, int, str], ModelVersion] = field(default_factory=dict)
    deleted_through: dict[tuple[int, int, str], int] = field(default_factory=dict)

    def store(self, record: SentRecord) -> None:
        """A record arrives, for the first time or again."""
        for sent in record.spans:
            place = (*sent.key, record.partition_id)
            version = ModelVersion(record.record_ms, record.offset, record.partition_id, sent)
            if place not in self.latest or self.latest[place].offset <= record.offset:
                self.latest[place] = version

    def visible(self) -> dict[tuple[int, int], ModelVersion]:
        """The latest version of each span that is not deleted."""
        found: dict[tuple[int, int], ModelVersion] = {}
        for place, version in self.latest.items():
            if version.offset > self.deleted_through.get(place, -1):
                key = version.sent.key
                found[key] = max(found.get(key, version), version)
        return found

    def delete(self, traces: set[int]) -> None:
        """Every span of some traces is deleted."""
        for place, version in self.latest.items():
            if place[0] in traces:
                self.deleted_through[place] = version.offset

    def expired(self, rules: KeepRules) -> list[int]:
        """The traces that the rules do not keep, oldest first."""
        ends: dict[int, int] = {}
        sizes: dict[int, int] = {}
        for version in self.visible().values():
            trace = version.sent.trace
            ends[trace] = max(ends.get(trace, version.sent.start_us), version.sent.start_us)
            sizes[trace] = sizes.get(trace, 0) + version.sent.bytes_count
        oldest_first = sorted(ends, key=lambda trace: ends[trace])
        expired = set()
        if rules.max_age_days is not None:
            before_us = NOW_US - round(rules.max_age_days * DAY_US)
            expired |= {trace for trace in ends if ends[trace] < before_us}
        left = sum(sizes[trace] for trace in ends if trace not in expired)
        for trace in oldest_first:
            is_at_last_end = any(ends[trace] == ends[other] for other in expired)
            if rules.max_bytes is not None and trace not in expired and (left > rules.max_bytes or is_at_last_end):
                expired.add(trace)
                left -= sizes[trace]
        return [trace for trace in oldest_first if trace in expired]


def span_of(sent: SentSpan, *, version: str) -> Span:
    """A span that says which record it came in."""
    return Span(
        trace_id=sent.trace.to_bytes(16, "big"),
        span_id=sent.span.to_bytes(8, "big") * 2,
        parent_id=None,
        name="s",
        kind=1,
        start_ns=sent.start_us * 1_000,
        end_ns=sent.start_us * 1_000,
        status_code=0,
        status_message=None,
        attributes={"version": version, "filler": "x" * (sent.span % 7 * 50)},
    )


@dataclass
class RetentionWorld:
    """A project in an engine, and its model."""

    store: ColumnStore
    records: RetentionRecords
    project_id: UUID
    clock: ManualClock
    limits: RetentionLimits = field(default=RetentionLimits(rest=0.0))
    model: RetentionModel = field(default_factory=RetentionModel)
    sent: list[SentRecord] = field(default_factory=list)
    ahead_us: int = DAY_US
    inserts_count: int = 0
    events_count: int = 0

    @property
    def retention(self) -> Retention:
        """Retention that does not rest."""
        return Retention(self.store, self.records, self.clock, 3_600.0, self.limits, self.ahead_us)

    @contextmanager
    def freeing_at_once(self) -> Iterator[None]:
        """Let every run inside free all dead rows."""
        before = self.limits
        self.limits = replace(before, due_after=timedelta(0), rewrite_poll_s=0.02)
        yield
        self.limits = before

    async def send(
        self, spans: Sequence[SentSpan], *, partition_id: str = PARTITIONS[0], is_settled: bool = True
    ) -> None:
        """Store the next record of a partition, as a worker does."""
        offset = sum(record.partition_id == partition_id for record in self.sent)
        record = await self.store_record(SentRecord(partition_id, offset, len(self.sent), tuple(spans)))
        self.sent.append(record)
        if is_settled:
            await settle(self.store, offset=offset, partition_id=partition_id, project_id=self.project_id)

    async def store_record(self, record: SentRecord) -> SentRecord:
        """Store a record, for the first time or again; return it with the sizes of its spans."""
        version = f"{record.partition_id[-1]}-{record.offset}"
        spans = [span_of(sent, version=version) for sent in record.spans]
        columns = SpanColumns()
        columns.append_record(
            project_ids=self.project_id,
            partition_id=record.partition_id,
            record_offset=record.offset,
            record_ms=record.record_ms,
            spans=spans,
            span_indexes=range(len(spans)),
            normalized_spans=normalize(spans),
        )
        self.inserts_count += 1
        rows = stamped(columns.rows(), stored_us=self.inserts_count)
        await self.store.insert(SPANS_TABLE, rows, dedup_token=str(uuid4()), deadline_s=60.0)
        sizes = rows.column("response_bytes").to_pylist()
        sized = tuple(sent._replace(bytes_count=size) for sent, size in zip(record.spans, sizes, strict=True))
        record = record._replace(spans=sized)
        self.model.store(record)
        return record

    async def send_event(self, trace: int, at_us: int) -> None:
        """Store a log record that names a span of a trace, as a worker does."""
        self.events_count += 1
        event = Event("e", at_us * 1_000, {}, log=LogMembers())
        late = LateEvent(self.project_id, trace.to_bytes(16, "big"), trace.to_bytes(8, "big") * 2, event, 0)
        of_record = rows_of_events([late], partition_id=LOGS, record_offset=self.events_count, record_ms=1)
        rows = stamped(event_rows(list(of_record)), stored_us=self.events_count)
        await self.store.insert(EVENTS_TABLE, rows, dedup_token=str(uuid4()), deadline_s=60.0)
        await settle(self.store, offset=self.events_count, partition_id=LOGS, project_id=self.project_id)

    async def run(self, rules: KeepRules | None = None) -> None:
        """Run retention once, with these rules of the project."""
        if rules is not None:
            await self.records.set_rules(self.project_id, rules, user_id=UUID(int=7))
            self.model.delete(set(self.model.expired(rules)))
        await self.retention.run()
        result = await self.records.find_result(self.project_id)
        assert result is None or result.failure is None, result

    async def rows(self, table: str = SPANS_TABLE, condition: str = "1") -> int:
        """How many rows of the project a table has."""
        sql = f"SELECT count() AS rows_count FROM {table} WHERE project_id = {{project:UUID}} AND {condition}"
        found = await self.store.select(Statement(sql, {"project": str(self.project_id)}), deadline_s=60.0)
        count: int = found["rows_count"][0].as_py()
        return count

    def random_spans(self, source: random.Random) -> list[SentSpan]:
        """Some spans of few traces, so that many are sent again; within ten days before now."""
        return [
            SentSpan(trace, trace * 10 + source.randrange(4), NOW_US - source.randrange(10 * DAY_US))
            for trace in source.choices(range(1, 13), k=source.randrange(1, 6))
        ]


@asynccontextmanager
async def retention_world(store: ColumnStore, database: Database) -> Any:
    """A new project without rules."""
    clock = ManualClock()
    project = await Projects(database, clock).create("kept")
    yield RetentionWorld(store, RetentionRecords(database), project.id, clock)


def visible_versions(pages: Sequence[dict[str, Any]]) -> dict[tuple[int, int], str]:
    """The version of each span of some pages."""
    return {key_of(span): span["attributes"]["version"] for page in pages for span in page["spans"]}


def key_of(span: dict[str, Any]) -> tuple[int, int]:
    """The identity of a span of a response, as in the model."""
    return int(span["trace_id"], 16), int(span["span_id"], 16)


def expected_versions(model: RetentionModel) -> dict[tuple[int, int], str]:
    """The same of the model."""
    return {key: f"{version.partition_id[-1]}-{version.offset}" for key, version in model.visible().items()}
