"""What a project stores, and which traces its rules delete.

A trace is as old as its last visible span. Traces are read in chunks in the order of their ids, which is the order of
``span_versions``: each statement reads a bounded number of rows of the narrow table, and all of them together read it
once. The traces of a chunk are grouped by hours, so that nothing here grows with the number of traces.

With a limit in bytes the oldest traces are deleted until the others fit. The hours say in which hour that is; the
traces of that hour are then read again by their exact times.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import AsyncIterator, Callable, Iterable, Mapping
from dataclasses import dataclass, replace
from typing import Any, Final, Literal, NamedTuple, TypeAlias
from uuid import UUID

from common.clickhouse.select import Select, Table
from query_api.retention.rules import KeepRules
from query_api.spans.project_spans import ProjectSpans
from query_api.spans.versions import latest_versions

CHUNK_VERSIONS: Final = 100_000
"""Versions of a chunk of traces; a larger trace is a chunk of its own. A statement about it takes 0.1 s."""

ONE_THREAD: Final = {"max_threads": 1}
"""Settings of all statements: the other processors are for queries."""

HOUR_US: Final = 3_600_000_000
DAY_US: Final = 24 * HOUR_US
FIRST_ID: Final = bytes(16)
LAST_ID: Final = b"\xff" * 16
NEVER_US: Final = -(2**63)
"""Before every span."""

_AFTER: Final = "trace_id > toFixedString(unhex({after:String}), 16)"
IN_CHUNK: Final = (_AFTER, "trace_id <= toFixedString(unhex({through:String}), 16)")
_SIZES: Final = (
    *("min(earliest_us) AS oldest_us", "count() AS traces_count"),
    *("sum(spans_count) AS spans_sum", "sum(bytes_count) AS bytes_sum"),
)

Limit: TypeAlias = Literal["max_age_days", "max_bytes"]
MakeSpans: TypeAlias = Callable[[], ProjectSpans]
"""Returns the spans of the project with a new time budget."""


class TraceChunk(NamedTuple):
    """The traces after one id, up to and including another."""

    after: bytes
    through: bytes

    @property
    def parameters(self) -> dict[str, str]:
        """Return the values of the statements about a chunk."""
        return {"after": self.after.hex(), "through": self.through.hex()}


@dataclass(frozen=True, slots=True)
class Figures:
    """How many traces and spans there are, their estimated size in bytes, and the start of the first span."""

    traces_count: int = 0
    spans_count: int = 0
    bytes_count: int = 0
    oldest_us: int | None = None

    def __add__(self, other: Figures) -> Figures:
        starts = [start for start in (self.oldest_us, other.oldest_us) if start is not None]
        return Figures(
            self.traces_count + other.traces_count,
            self.spans_count + other.spans_count,
            self.bytes_count + other.bytes_count,
            min(starts, default=None),
        )

    @classmethod
    def of(cls, row: Mapping[str, Any]) -> Figures:
        """Read a row of the statements about traces."""
        traces_count = int(row["traces_count"])
        oldest_us = int(row["oldest_us"]) if traces_count else None
        return cls(traces_count, int(row["spans_sum"]), int(row["bytes_sum"]), oldest_us)


NOTHING: Final = Figures()


@dataclass(frozen=True, slots=True)
class Survey:
    """What is stored, and what the rules delete of it: every trace whose last span starts before ``before_us``."""

    stored: Figures
    expired: Figures
    before_us: int
    limit: Limit | None
    """The rule that decides ``before_us``; ``None`` if there is no rule."""

    old_hours: Mapping[int, int]
    """How many spans the expired traces have, by the hour in which their last span starts."""


async def survey(make_spans: MakeSpans, rules: KeepRules, *, now_us: int, versions_max: int = CHUNK_VERSIONS) -> Survey:
    """Return what is stored and what the rules delete of it now. Raises the errors of ``ProjectSpans``."""
    old_us = NEVER_US if rules.max_age_days is None else now_us - round(rules.max_age_days * DAY_US)
    young: dict[int, Figures] = {}
    old_hours: dict[int, int] = defaultdict(int)
    old = NOTHING
    async for chunk in chunks_of(make_spans, versions_max):
        rows = await _hours(make_spans(), chunk, before_us=old_us)
        for row in rows:
            if row["is_old"]:
                old += Figures.of(row)
                old_hours[row["hour"]] += int(row["spans_sum"])
            else:
                young[row["hour"]] = young.get(row["hour"], NOTHING) + Figures.of(row)
    found = Survey(
        stored=_total([old, *young.values()]),
        expired=old,
        before_us=old_us,
        limit=None if rules.max_age_days is None else "max_age_days",
        old_hours=old_hours,
    )
    if rules.max_bytes is None or found.stored.bytes_count - old.bytes_count <= rules.max_bytes:
        return found
    return await _within_bytes(make_spans, found, young, bytes_max=rules.max_bytes, versions_max=versions_max)


async def _within_bytes(
    make_spans: MakeSpans, found: Survey, young: Mapping[int, Figures], *, bytes_max: int, versions_max: int
) -> Survey:
    """Return the survey with the oldest of the young traces among the expired, as many as necessary."""
    expired = found.expired
    excess = found.stored.bytes_count - expired.bytes_count - bytes_max
    old_hours = defaultdict(int, found.old_hours)
    hours = sorted(young)
    for hour in hours:
        old_hours[hour] += young[hour].spans_count
        if young[hour].bytes_count >= excess:
            break
        expired += young[hour]
        excess -= young[hour].bytes_count
    bounds = {"from_us": max(hour * HOUR_US, found.before_us), "to_us": (hour + 1) * HOUR_US}
    moments: dict[int, Figures] = {}
    async for chunk in chunks_of(make_spans, versions_max):
        for row in await _moments(make_spans(), chunk, bounds):
            moments[row["latest_us"]] = moments.get(row["latest_us"], NOTHING) + Figures.of(row)
    before_us = bounds["from_us"]
    for moment in sorted(moments):
        if excess <= 0:
            break
        expired += moments[moment]
        excess -= moments[moment].bytes_count
        before_us = moment + 1
    return replace(found, expired=expired, before_us=before_us, limit="max_bytes", old_hours=old_hours)


async def chunks_of(
    make_spans: MakeSpans, versions_max: int, table: Table = Table.VERSIONS
) -> AsyncIterator[TraceChunk]:
    """Yield the chunks of all traces of the project in a table, in the order of their ids."""
    after = FIRST_ID
    while after != LAST_ID:
        spans = make_spans()
        following = Select(
            spans.project_id,
            table,
            ["trace_id"],
            where=[_AFTER],
            order_by=["trace_id"],  # that of the table
            limit=f"1 OFFSET {versions_max}",
            parameters={"after": after.hex()},
        )
        rows = await spans.select(following, step="chunk of traces", settings=ONE_THREAD)
        through = bytes(rows.column("trace_id")[0].as_py()) if rows.num_rows else LAST_ID
        yield TraceChunk(after, through)
        after = through


def stored_traces(project_id: UUID, values: Mapping[str, Any], *, is_settled: str = "1") -> Select:
    """Return the query of the traces of a chunk: when the first and the last of their visible spans start, how many
    these are and their size, and how many of them ``is_settled``, a condition on a version, is true of.
    """
    keys = ("trace_id", "span_id", "start_us", "response_bytes", f"{is_settled} AS is_settled")
    return Select(
        project_id,
        latest_versions(project_id, IN_CHUNK, values, columns=keys),
        [
            *("trace_id", "min(start_us) AS earliest_us", "max(start_us) AS latest_us"),
            *("count() AS spans_count", "sum(response_bytes) AS bytes_count"),
            *("sum(is_settled) AS settled_count", "sumIf(response_bytes, is_settled) AS settled_bytes"),
        ],
        group_by=["trace_id"],
    )


async def _hours(spans: ProjectSpans, chunk: TraceChunk, *, before_us: int) -> list[dict[str, Any]]:
    """Return the traces of a chunk by the hour in which their last span starts, those that are too old apart."""
    keys = ["intDiv(latest_us, 3600000000) AS hour", "latest_us < {before_us:Int64} AS is_old"]
    traces = stored_traces(spans.project_id, {**chunk.parameters, "before_us": before_us})
    hours = Select(spans.project_id, traces, [*keys, *_SIZES], group_by=["hour", "is_old"])
    rows: list[dict[str, Any]] = (await spans.select(hours, step="stored_hours", settings=ONE_THREAD)).to_pylist()
    return rows


async def _moments(spans: ProjectSpans, chunk: TraceChunk, bounds: Mapping[str, int]) -> list[dict[str, Any]]:
    """Return the traces of a chunk by the start of their last span, from ``from_us`` until before ``to_us``."""
    moments = Select(
        spans.project_id,
        stored_traces(spans.project_id, {**chunk.parameters, **bounds}),
        ["latest_us", *_SIZES],
        where=["latest_us >= {from_us:Int64}", "latest_us < {to_us:Int64}"],
        group_by=["latest_us"],
    )
    rows: list[dict[str, Any]] = (await spans.select(moments, step="stored_moments", settings=ONE_THREAD)).to_pylist()
    return rows


def _total(figures: Iterable[Figures]) -> Figures:
    return sum(figures, NOTHING)
