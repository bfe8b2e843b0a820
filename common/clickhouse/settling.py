"""The statements of the job that settles traces (ADR 0049): about the traces of all projects at once.

Ranges of offsets are texts in the SQL; a range is two integers, and a partition id is a parameter.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from pathlib import Path
from typing import Any, Final, NamedTuple
from uuid import UUID

from common.clickhouse.settled_traces import TraceName
from common.clickhouse.store import ColumnStore, Statement
from common.limits import MIB
from common.named_sql import load_named_sql
from common.span_version import IS_RUNNING_SQL, IS_SENT_SQL, RANK_SQL

_SQL: Final = load_named_sql(Path(__file__).with_name("settling.sql"))

STATEMENT_S: Final = 60.0
JUDGING_S: Final = 20.0
"""For the statement about whole traces, which may be large."""

GENTLY: Final = {"max_threads": 1, "max_bytes_before_external_group_by": 256 * MIB}
"""The engine uses one thread for a statement of the job, so that queries have the others, and little memory."""


class RecordPlace(NamedTuple):
    """A record, in the order of partition ids and offsets."""

    partition_id: str
    offset: int


class ArrivedTrace(NamedTuple):
    """A trace that has arrivals in some ranges of offsets."""

    name: TraceName
    first: RecordPlace
    """The record of its first arrival there."""

    arrivals_count: int


class ReadArrivals(NamedTuple):
    """The traces of some arrivals, in the order of their first ones."""

    traces: list[ArrivedTrace]
    last: RecordPlace | None
    """The last record that was read; ``None`` if all were read."""


class SomeProjects(NamedTuple):
    """Some projects: those, or all others."""

    project_ids: Collection[UUID]
    are_left_out: bool


class JudgedTrace(NamedTuple):
    """A trace that has a visible span."""

    is_complete: bool
    versions_count: int
    """The versions of its spans: what judging it takes time for."""


class Settlings(NamedTuple):
    """How often a trace has settled, and in which run for the last time; as complete 0 if never."""

    generation: int
    last_run: int
    complete_run: int


async def read_arrivals(
    store: ColumnStore, ranges: Mapping[str, tuple[int, int]], projects: SomeProjects, *, rows_max: int
) -> ReadArrivals:
    """Return the traces of the first arrivals of projects in ranges of offsets, by partition id: of about ``rows_max``.

    All arrivals of a record are read or none.
    """
    condition, values = _within(ranges)
    sql = _SQL["arrivals"].replace("{ranges}", condition).replace("{projects}", _of_projects(projects))
    values |= {"rows_max": rows_max, "some_projects": sorted(map(str, projects.project_ids))}
    rows = await _select(store, sql, values)
    traces = [_arrived(row) for row in rows]
    if sum(trace.arrivals_count for trace in traces) < rows_max:
        return ReadArrivals(traces, None)
    return ReadArrivals(traces, max(RecordPlace(row["last_partition"].decode(), row["last_offset"]) for row in rows))


async def changed_traces(
    store: ColumnStore, ranges: Mapping[str, tuple[int, int]], traces: Collection[TraceName]
) -> set[TraceName]:
    """Return those of ``traces`` that have arrivals in ranges of offsets."""
    condition, values = _within(ranges)
    values["trace_ids"] = _packed(traces)
    return {_name(row) for row in await _select(store, _SQL["changed_traces"].replace("{ranges}", condition), values)}


async def visible_traces(store: ColumnStore, traces: Collection[TraceName]) -> dict[TraceName, JudgedTrace]:
    """Return those of ``traces`` that have a visible span, and whether each is complete."""
    sql = _SQL["visible_traces"].replace("{rank}", ", ".join(RANK_SQL))
    sql = sql.replace("{is_running}", IS_RUNNING_SQL).replace("{is_sent}", IS_SENT_SQL)
    rows = await _select(store, sql, _of(traces), deadline_s=JUDGING_S)
    judged = {_name(row): JudgedTrace(bool(row["is_complete"]), row["versions_count"]) for row in rows}
    return {name: judged[name] for name in traces if name in judged}  # not that of another project with the same id


async def versions_counts(store: ColumnStore, traces: Collection[TraceName]) -> dict[TraceName, int]:
    """Return how many versions of spans traces have."""
    rows = await _select(store, _SQL["versions_counts"], _of(traces))
    return {_name(row): row["versions_count"] for row in rows}


async def settlings_of(store: ColumnStore, traces: Collection[TraceName]) -> dict[TraceName, Settlings]:
    """Return how often traces have settled; those that never have are left out."""
    rows = await _select(store, _SQL["settlings"], _of(traces))
    return {_name(row): Settlings(row["generation"], row["last_run"], row["complete_run"]) for row in rows}


async def _select(
    store: ColumnStore, sql: str, values: Mapping[str, Any], *, deadline_s: float = STATEMENT_S
) -> list[dict[str, Any]]:
    rows = await store.select(Statement(sql, values, GENTLY), deadline_s=deadline_s)
    found: list[dict[str, Any]] = rows.to_pylist()
    return found


def _name(row: Mapping[str, Any]) -> TraceName:
    return TraceName(UUID(row["project"].decode()), row["trace_id"])


def _arrived(row: Mapping[str, Any]) -> ArrivedTrace:
    first = RecordPlace(row["first_partition"].decode(), row["first_offset"])
    return ArrivedTrace(_name(row), first, row["arrivals_count"])


def _of_projects(projects: SomeProjects) -> str:
    if not projects.project_ids:
        return "1" if projects.are_left_out else "0"
    return f"project_id {'NOT ' if projects.are_left_out else ''}IN {{some_projects:Array(UUID)}}"


def _of(traces: Collection[TraceName]) -> dict[str, Any]:
    return {"project_ids": sorted({str(name.project_id) for name in traces}), "trace_ids": _packed(traces)}


def _packed(traces: Collection[TraceName]) -> bytes:
    return b"".join({name.trace_id for name in traces})


def _within(ranges: Mapping[str, tuple[int, int]]) -> tuple[str, dict[str, Any]]:
    """Return the condition on an arrival, and its values."""
    parts, values = [], {}
    for index, (partition_id, (first, last)) in enumerate(ranges.items()):
        values[f"partition_{index}"] = partition_id
        offsets = f"record_offset >= {first:d} AND record_offset <= {last:d}"
        parts.append(f"(partition_id = {{partition_{index}:String}} AND {offsets})")
    return " OR ".join(parts) or "0", values
