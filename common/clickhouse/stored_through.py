"""Stored positions as rows of the table ``stored_through`` (ADR 0007)."""

from __future__ import annotations

from collections.abc import Sequence
from operator import attrgetter
from typing import Final
from uuid import UUID

import pyarrow as pa

from common.clickhouse.engines import SQL
from common.clickhouse.store import ColumnStore, Statement
from common.stored_position import StoredPosition

STORED_THROUGH_TABLE: Final = "stored_through"


def positions_table(positions: Sequence[StoredPosition]) -> pa.Table:
    """Return positions as the rows to insert."""
    projects, partition_ids, offsets, record_ms, stored_us = zip(*positions, strict=True) if positions else ((),) * 5
    return pa.table(
        {
            "project_id": pa.array([project_id.bytes for project_id in projects], pa.binary(16)),
            "partition_id": pa.array(partition_ids, pa.string()).dictionary_encode(),
            "through_offset": pa.array(offsets, pa.uint64()),
            "record_ms": pa.array(record_ms, pa.int64()),
            "stored_us": pa.array(stored_us, pa.int64()),
        }
    )


async def read_positions(store: ColumnStore, *, rows_max: int, deadline_s: float) -> list[StoredPosition]:
    """Return the position of each partition for each project: the ``rows_max`` that were stored most recently."""
    return positions_of(
        await store.select(Statement(SQL["stored_positions"], {"rows_max": rows_max}), deadline_s=deadline_s)
    )


async def read_positions_of(store: ColumnStore, project_id: UUID, *, deadline_s: float) -> list[StoredPosition]:
    """Return the position of each partition for one project."""
    statement = Statement(SQL["stored_positions_of_project"], {"project_id": str(project_id)})
    positions = positions_of(await store.select(statement, deadline_s=deadline_s))
    in_order = sorted(positions, key=attrgetter("through_offset"))
    return list({position.partition_id: position for position in in_order}.values())


def positions_of(rows: pa.Table) -> list[StoredPosition]:
    """Return rows with the columns of ``stored_positions`` in ``queries.sql`` as positions."""
    columns = (
        rows.column(name).to_pylist() for name in ("project", "partition_id", "through", "at_record_ms", "at_stored_us")
    )
    return [
        StoredPosition(UUID(project.decode()), partition_id.decode(), offset, record_ms, stored_us)
        for project, partition_id, offset, record_ms, stored_us in zip(*columns, strict=True)
    ]
