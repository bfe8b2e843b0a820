"""Delete a span as ``DELETE /traces/{trace_id}`` does, without the route."""

from __future__ import annotations

from common.clickhouse.select import Table
from common.clickhouse.store import ColumnStore, Statement
from common.ids import DEFAULT_PROJECT_ID
from common.span import Span


async def delete(store: ColumnStore, deleted: Span) -> None:
    """Delete every stored version of a span of the default project."""
    await store.execute(
        Statement(
            f"INSERT INTO {Table.VERSIONS} SELECT * REPLACE (version + 1 AS version) FROM {Table.VERSIONS}"
            " WHERE project_id = {project:UUID} AND trace_id = unhex({trace:String}) AND span_id = unhex({span:String})"
            f" AND {Table.VERSIONS}.version % 2 = 0",
            {"project": str(DEFAULT_PROJECT_ID), "trace": deleted.trace_id.hex(), "span": deleted.span_id.hex()},
        ),
        deadline_s=10.0,
    )
