"""How far logs are stored, as rows of the table ``stored_through``: the only place that knows both (ADR 0007)."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final
from uuid import UUID

import pyarrow as pa

from common.clickhouse.store import ColumnStore, Statement
from common.stored_position import StoredPosition

STORED_THROUGH_TABLE: Final = "stored_through"

_WHAT: Final = """
SELECT toString(project_id) AS project, partition_id, max(through_offset) AS through,
    argMax(record_ms, through_offset) AS at_record_ms, argMax(stored_us, through_offset) AS at_stored_us
FROM stored_through
"""
_OF_ALL: Final = f"{_WHAT}GROUP BY project_id, partition_id ORDER BY at_stored_us DESC LIMIT {{rows_max:UInt32}}"
_OF_PROJECT: Final = f"{_WHAT}WHERE project_id = {{project_id:UUID}}\nGROUP BY project_id, partition_id"


def positions_table(positions: Sequence[StoredPosition]) -> pa.Table:
    """The rows to insert."""
    projects, partition_ids, offsets, record_ms, stored_us = zip(*positions, strict=True) if positions else ((),) * 5
    return pa.table(
        {
            "project_id": pa.array([each.bytes for each in projects], pa.binary(16)),
            "partition_id": pa.array(partition_ids, pa.string()).dictionary_encode(),
            "through_offset": pa.array(offsets, pa.uint64()),
            "record_ms": pa.array(record_ms, pa.int64()),
            "stored_us": pa.array(stored_us, pa.int64()),
        }
    )


async def read_positions(store: ColumnStore, *, rows_max: int, deadline_s: float) -> list[StoredPosition]:
    """How far every log is stored for every project, ``rows_max`` of them: where something was stored last."""
    return _positions(await store.select(Statement(_OF_ALL, {"rows_max": rows_max}), deadline_s=deadline_s))


async def read_positions_of(store: ColumnStore, project_id: UUID, *, deadline_s: float) -> list[StoredPosition]:
    """How far every log is stored for one project."""
    statement = Statement(_OF_PROJECT, {"project_id": str(project_id)})
    return _positions(await store.select(statement, deadline_s=deadline_s))


def _positions(rows: pa.Table) -> list[StoredPosition]:
    columns = (
        rows.column(name).to_pylist() for name in ("project", "partition_id", "through", "at_record_ms", "at_stored_us")
    )
    return [
        StoredPosition(UUID(project.decode()), partition_id.decode(), offset, record_ms, stored_us)
        for project, partition_id, offset, record_ms, stored_us in zip(*columns, strict=True)
    ]
