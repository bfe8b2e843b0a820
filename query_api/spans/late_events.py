"""Events of spans that came as log records: what deletes them (contract §3.6, ADR 0046).

The events that responses show are in the rows of their spans, where the worker has joined them. ``span_events`` has
them as they came, for versions of their spans that are still to come.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Final
from uuid import UUID

from common.clickhouse.select import Select, Table
from common.span_version import DELETION_SQL, IS_SENT_SQL
from query_api.spans.versions import latest_versions

DELETION_COLUMNS: Final = (
    *("project_id", "trace_id", "span_id", "event_id", "partition_id"),
    *("version", "record_ms", "time_us", "source_trace_id", "source_span_id"),
)

IS_OLD: Final = "time_us < {before_us:Int64}"


def event_deletions(project_id: UUID, conditions: Sequence[str], parameters: Mapping[str, Any]) -> Select:
    """Return a query of what deletes events, in the order of ``DELETION_COLUMNS``: for each partition, the last number
    of the offset of the record, as ``deletions`` does it for spans.
    """
    return Select(
        project_id,
        Table.EVENTS,
        [
            *(*DELETION_COLUMNS[:5], f"{DELETION_SQL} AS deletion", "argMax(record_ms, version)", "any(time_us)"),
            *("max(source_trace_id)", "max(source_span_id)"),
        ],
        where=conditions,
        group_by=DELETION_COLUMNS[:5],
        having=["max(version) % 2 = 0"],
        parameters=parameters,
    )


def deletions_of_old(project_id: UUID, conditions: Sequence[str], parameters: Mapping[str, Any]) -> Select:
    """Return a query of what deletes the events before ``{before_us}`` whose traces have no visible span.

    Of a trace that retention has deleted, and of a span that never came.
    """
    old = Select(project_id, Table.EVENTS, ["trace_id"], where=[*conditions, IS_OLD, IS_SENT_SQL])
    visible = latest_versions(project_id, [f"trace_id IN ({old})"])
    of_visible = Select(project_id, visible, ["trace_id"])
    return event_deletions(project_id, [*conditions, IS_OLD, f"trace_id NOT IN ({of_visible})"], parameters)
