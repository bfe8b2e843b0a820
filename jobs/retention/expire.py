"""Delete the traces of a project that its rules do not keep (ADR 0018).

A trace is deleted as ``DELETE /traces/{trace_id}`` does it: each of its versions gets a deletion in ``span_versions``,
and from then on no route returns it. A redelivery of a record stays below the deletion, a new record is above it. The
rows are freed later (``free.py``).

The work is done in steps of a chunk of traces, with a rest after each, so that queries get most of the processor. A run
that ends in between loses nothing: the next one finds what is left.
"""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import timedelta
from typing import Any, Final
from uuid import UUID

from common.clickhouse.select import Select, Table
from common.clickhouse.store import ColumnStore
from common.clickhouse.stored_through import read_positions_of
from common.span_version import OFFSET_SQL
from common.telemetry import RETENTION_DELETED_BYTES, RETENTION_DELETED_SPANS, RETENTION_DELETED_TRACES
from common.times import Clock
from query_api.retention.rules import KeepRules, RetentionRecords
from query_api.retention.survey import (
    CHUNK_VERSIONS,
    HOUR_US,
    IN_CHUNK,
    NOTHING,
    ONE_THREAD,
    Figures,
    MakeSpans,
    Survey,
    TraceChunk,
    chunks_of,
    stored_traces,
    survey,
)
from query_api.spans.late_events import DELETION_COLUMNS as EVENT_DELETION_COLUMNS
from query_api.spans.late_events import deletions_of_old
from query_api.spans.project_spans import ProjectSpans
from query_api.spans.versions import DELETION_COLUMNS, deletions

STEP_S: Final = 60.0
"""Time budget of a statement of a step."""

REST: Final = 3.0
"""The rest after a step, in multiples of its duration: a run uses a quarter of one processor."""

PASSES_MAX: Final = 4
PASS_SPANS_MIN: Final = 5_000_000
"""Passes over all traces of a project, each deletes at least this many spans."""

IS_SETTLED: Final = (
    f"toInt64({OFFSET_SQL}) <= transform("
    "toString(partition_id), {partitions:Array(String)}, {settled:Array(Int64)}, toInt64(-1))"
)
"""Whether a version was surely visible when the run began (ADR 0007)."""

_DELETED: Final = (
    *("min(earliest_us) AS oldest_us", "count() AS traces_count"),
    *("sum(settled_count) AS spans_sum", "sum(settled_bytes) AS bytes_sum"),
)


DUE_AFTER: Final = timedelta(days=1)
"""Rows that are deleted are freed after this time even if they are few."""

REWRITE_POLL_S: Final = 0.5


@dataclass(frozen=True, slots=True)
class RetentionLimits:
    """What paces a run. ``rest`` is the rest after a step, in multiples of its duration."""

    rest: float = REST
    chunk_versions: int = CHUNK_VERSIONS
    due_after: timedelta = DUE_AFTER
    rewrite_poll_s: float = REWRITE_POLL_S


LIMITS: Final = RetentionLimits()


@dataclass(frozen=True, slots=True)
class Expiring:
    """Deletes the traces of one project."""

    store: ColumnStore
    records: RetentionRecords
    clock: Clock
    limits: RetentionLimits = LIMITS

    async def expire(self, project_id: UUID, rules: KeepRules) -> Figures:
        """Delete what the rules do not keep now; return what was deleted.

        Raises ``DeadlineExceeded``, ``Unavailable`` and ``Overloaded``; what was deleted by then stays deleted.
        """
        positions = await read_positions_of(self.store, project_id, deadline_s=STEP_S)
        settled = {position.partition_id: position.through_offset for position in positions}

        def make_spans() -> ProjectSpans:
            return ProjectSpans(self.store, project_id, clock=self.clock, budget_s=STEP_S)

        versions_max = self.limits.chunk_versions
        found = await survey(make_spans, rules, now_us=self.clock.now_ns() // 1_000, versions_max=versions_max)
        deleted = NOTHING
        await self.records.raise_before(project_id, found.before_us)
        if found.expired.traces_count:
            for before_us in passes(found):
                async for chunk in chunks_of(make_spans, versions_max):
                    deleted += await self._delete_chunk(make_spans, chunk, before_us, settled)
        async for chunk in chunks_of(make_spans, versions_max, Table.EVENTS):
            await self._delete_events(make_spans, chunk, found.before_us, settled)
        return deleted

    async def _delete_chunk(
        self, make_spans: MakeSpans, chunk: TraceChunk, before_us: int, settled: Mapping[str, int]
    ) -> Figures:
        began_s = self.clock.monotonic_s()
        spans = make_spans()
        values = {**chunk.parameters, **_values_of(before_us, settled)}
        project_id = spans.project_id
        traces = stored_traces(project_id, values, is_settled=IS_SETTLED)
        old = Select(project_id, traces, _DELETED, where=["latest_us < {before_us:Int64}", "settled_count > 0"])
        rows = await spans.select(old, step="old traces", settings=ONE_THREAD)
        figures = Figures.of(rows.to_pylist()[0])
        if figures.traces_count:
            # Only settled versions: a span that arrives meanwhile may move its trace to a later time.
            too_old = Select(project_id, traces, ["trace_id"], where=["latest_us < {before_us:Int64}"])
            conditions = [*IN_CHUNK, IS_SETTLED, f"trace_id IN ({too_old})"]
            deleted = deletions(project_id, conditions, values)
            await spans.insert(Table.VERSIONS, DELETION_COLUMNS, deleted, settings=ONE_THREAD)
            await self._count(spans.project_id, figures)
        await asyncio.sleep((self.clock.monotonic_s() - began_s) * self.limits.rest)
        return figures

    async def _delete_events(
        self, make_spans: MakeSpans, chunk: TraceChunk, before_us: int, settled: Mapping[str, int]
    ) -> None:
        """Delete the old events of log records whose traces have no span: not any more, or not yet."""
        began_s = self.clock.monotonic_s()
        spans = make_spans()
        values = {**chunk.parameters, **_values_of(before_us, settled)}
        old = deletions_of_old(spans.project_id, [*IN_CHUNK, IS_SETTLED], values)
        await spans.insert(Table.EVENTS, EVENT_DELETION_COLUMNS, old, settings=ONE_THREAD)
        await asyncio.sleep((self.clock.monotonic_s() - began_s) * self.limits.rest)

    async def _count(self, project_id: UUID, deleted: Figures) -> None:
        RETENTION_DELETED_TRACES.inc(deleted.traces_count)
        RETENTION_DELETED_SPANS.inc(deleted.spans_count)
        RETENTION_DELETED_BYTES.inc(deleted.bytes_count)
        await self.records.add_to_result(
            project_id, traces=deleted.traces_count, spans=deleted.spans_count, bytes_=deleted.bytes_count
        )


def _values_of(before_us: int, settled: Mapping[str, int]) -> dict[str, Any]:
    return {"before_us": before_us, "partitions": list(settled), "settled": list(settled.values())}


def passes(found: Survey) -> list[int]:
    """Return the times up to which traces are deleted one after the other; the last is ``before_us``.

    So the oldest traces are deleted first, also if a run ends early. Each pass reads all traces, so there are few.
    """
    pass_spans = max(PASS_SPANS_MIN, found.expired.spans_count / PASSES_MAX)
    ends: list[int] = []
    spans_count = 0
    for hour in sorted(found.old_hours):
        spans_count += found.old_hours[hour]
        if spans_count >= pass_spans:
            ends.append((hour + 1) * HOUR_US)
            spans_count = 0
    return [*(end for end in ends if end < found.before_us), found.before_us]
