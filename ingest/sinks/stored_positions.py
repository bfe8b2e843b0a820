"""How far a batch that was written settles its logs: by project, and for every record (ADR 0007). No I/O."""

from __future__ import annotations

from collections.abc import Mapping
from uuid import UUID

import pyarrow as pa

from common.stored_position import ALL_PROJECTS, StoredPosition
from ingest.batch import Extent


def positions_after(extents: Mapping[str, Extent], rows: pa.Table | None, *, stored_us: int) -> list[StoredPosition]:
    """What is known once every row is stored: each project that has rows up to its last offset in each log, and
    ``ALL_PROJECTS`` up to the last record of each log, which may have held no spans. ``rows`` are in the order of their logs.
    """
    positions = [
        StoredPosition(ALL_PROJECTS, partition_id, each.last_offset, each.record_ms, stored_us)
        for partition_id, each in extents.items()
    ]
    if rows is None:
        return positions
    ends = rows.select(["project_id", "partition_id", "record_offset", "record_ms"]).group_by(
        ["project_id", "partition_id"],
        use_threads=False,  # with threads there is no last
    )
    columns = ends.aggregate([("record_offset", "last"), ("record_ms", "last")]).to_pydict().values()
    return positions + [
        StoredPosition(UUID(bytes=project_id), partition_id.decode(), offset, record_ms, stored_us)
        for project_id, partition_id, offset, record_ms in zip(*columns, strict=True)
    ]
