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


class ReadArrivals(NamedTuple):
    """The traces of some arrivals. ``last`` is the partition and offset of the last that was read; ``None`` if all
    were read.
    """

    traces: list[TraceName]
    arrivals_count: int
    last: tuple[str, int] | None


class Settlings(NamedTuple):
    """How often a trace has settled, and in which run for the last time; as complete 0 if never."""

    generation: int
    last_run: int
    complete_run: int


async def read_arrivals(store: ColumnStore, ranges: Mapping[str, tuple[int, int]], *, rows_max: int) -> ReadArrivals:
    """Return the traces of the first arrivals in ranges of offsets, by partition id: of about ``rows_max``."""
    condition, values = _within(ranges)
    rows = await _select(store, _SQL["arrivals"].replace("{ranges}", condition), {**values, "rows_max": rows_max})
    traces = [_name(row) for row in rows]
    count = sum(row["arrivals_count"] for row in rows)
    if count < rows_max:
        return ReadArrivals(traces, count, None)
    return ReadArrivals(traces, count, max((row["last_partition"].decode(), row["last_offset"]) for row in rows))


async def changed_traces(
    store: ColumnStore, ranges: Mapping[str, tuple[int, int]], traces: Collection[TraceName]
) -> set[TraceName]:
    """Return those of ``traces`` that have arrivals in ranges of offsets."""
    condition, values = _within(ranges)
    values["trace_ids"] = _packed(traces)
    return {_name(row) for row in await _select(store, _SQL["changed_traces"].replace("{ranges}", condition), values)}


async def visible_traces(store: ColumnStore, traces: Collection[TraceName]) -> dict[TraceName, bool]:
    """Return those of ``traces`` that have a visible span, and whether each is complete."""
    sql = _SQL["visible_traces"].replace("{rank}", ", ".join(RANK_SQL))
    sql = sql.replace("{is_running}", IS_RUNNING_SQL).replace("{is_sent}", IS_SENT_SQL)
    rows = await _select(store, sql, _of(traces), deadline_s=JUDGING_S)
    return {_name(row): bool(row["is_complete"]) for row in rows}


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
