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

from query_api.retention.rules import KeepRules
from query_api.spans.project_spans import SQL, ProjectSpans

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

EVERY_VERSION: Final = "1"
"""The condition ``{is_settled}`` where it does not matter."""

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


async def survey(make_spans: MakeSpans, rules: KeepRules, *, now_us: int) -> Survey:
    """Return what is stored and what the rules delete of it now. Raises the errors of ``ProjectSpans``."""
    old_us = NEVER_US if rules.max_age_days is None else now_us - round(rules.max_age_days * DAY_US)
    young: dict[int, Figures] = {}
    old_hours: dict[int, int] = defaultdict(int)
    old = NOTHING
    async for chunk in chunks_of(make_spans):
        rows = await _read(make_spans(), "stored_hours", chunk, before_us=old_us)
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
    return await _within_bytes(make_spans, found, young, bytes_max=rules.max_bytes)


async def _within_bytes(
    make_spans: MakeSpans, found: Survey, young: Mapping[int, Figures], *, bytes_max: int
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
    async for chunk in chunks_of(make_spans):
        for row in await _read(make_spans(), "stored_moments", chunk, **bounds):
            moments[row["latest_us"]] = moments.get(row["latest_us"], NOTHING) + Figures.of(row)
    before_us = bounds["from_us"]
    for moment in sorted(moments):
        if excess <= 0:
            break
        expired += moments[moment]
        excess -= moments[moment].bytes_count
        before_us = moment + 1
    return replace(found, expired=expired, before_us=before_us, limit="max_bytes", old_hours=old_hours)


async def chunks_of(make_spans: MakeSpans) -> AsyncIterator[TraceChunk]:
    """Yield the chunks of all traces of the project, in the order of their ids."""
    after = FIRST_ID
    while after != LAST_ID:
        rows = await make_spans().select(
            SQL["trace_after"],
            {"after": after.hex(), "versions_max": CHUNK_VERSIONS},
            step="chunk of traces",
            settings=ONE_THREAD,
        )
        through = bytes(rows.column("trace_id")[0].as_py()) if rows.num_rows else LAST_ID
        yield TraceChunk(after, through)
        after = through


def statement(name: str, *, is_settled: str = EVERY_VERSION) -> str:
    """Return a statement about the traces of a chunk."""
    return SQL[name].replace("{stored_traces}", SQL["stored_traces"]).replace("{is_settled}", is_settled)


async def _read(spans: ProjectSpans, name: str, chunk: TraceChunk, **values: int) -> list[dict[str, Any]]:
    rows = await spans.select(statement(name), {**chunk.parameters, **values}, step=name, settings=ONE_THREAD)
    found: list[dict[str, Any]] = rows.to_pylist()
    return found


def _total(figures: Iterable[Figures]) -> Figures:
    return sum(figures, NOTHING)
