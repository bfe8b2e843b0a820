"""Deleting spans: the one statement that does, beside the rule of ``latest_versions.py`` that obeys it (contract §4, ADR 0003).

A deletion is the odd version above the version that it deletes, in ``span_versions``, for each log in which the span came: so
the record that is delivered again stays below it, and a new record is above. One statement: what it reads it deletes, and
a span that arrives while it runs is a new record. The rows of ``spans`` stay where they are, shown by no route, until
retention takes them.
"""

from __future__ import annotations

from typing import Final

from common.clickhouse.span_columns import VERSIONS_TABLE
from query_api.spans.latest_versions import latest_of_ids
from query_api.spans.project_spans import ProjectSpans
from query_api.spans.tables import Table, read_from
from query_api.spans.version import SpanKey

_DELETE: Final = f"""
INSERT INTO {VERSIONS_TABLE} (project_id, trace_id, span_id, partition_id, version, record_ms, start_us)
SELECT
    project_id,
    trace_id,
    span_id,
    partition_id,
    max(version) + 1 AS deletion,
    argMax(record_ms, version),
    argMax(start_us, version)
{read_from(Table.VERSIONS, "trace_id = toFixedString(unhex({trace_id:String}), 16)")}
GROUP BY project_id, trace_id, span_id, partition_id
HAVING max(version) % 2 = 0
"""


async def delete_trace(spans: ProjectSpans, trace_id: bytes) -> list[SpanKey]:
    """Delete all spans of the trace; return those that were shown until now, by their ids. Safe to repeat."""
    shown = await latest_of_ids(spans, trace_ids=[trace_id])
    await spans.execute(_DELETE, {"trace_id": trace_id.hex()})
    return sorted(head.key for head in shown)
