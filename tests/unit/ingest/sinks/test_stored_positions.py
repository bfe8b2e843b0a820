from __future__ import annotations

from uuid import UUID

import pyarrow as pa

from common.stored_position import ALL_PROJECTS, StoredPosition
from ingest.batch import Extent
from ingest.sinks.stored_positions import positions_after

A, B = UUID(int=1), UUID(int=2)


def rows(*of: tuple[UUID, str, int, int]) -> pa.Table:
    projects, partition_ids, offsets, record_ms = zip(*of, strict=True)
    return pa.table(
        {
            "project_id": pa.array([each.bytes for each in projects], pa.binary(16)),
            "partition_id": pa.array([each.encode() for each in partition_ids]).dictionary_encode(),
            "record_offset": pa.array(offsets, pa.uint64()),
            "record_ms": pa.array(record_ms, pa.int64()),
        }
    )


def test_each_project_in_each_log_up_to_its_last_offset_and_each_log_up_to_its_last_record() -> None:
    extents = {"x": Extent(3, 9, 90), "y": Extent(0, 2, 20)}
    stored = rows((A, "x", 3, 40), (B, "x", 4, 30), (A, "y", 1, 10), (A, "x", 5, 20))

    assert set(positions_after(extents, stored, stored_us=7)) == {
        StoredPosition(ALL_PROJECTS, "x", 9, 90, 7),
        StoredPosition(ALL_PROJECTS, "y", 2, 20, 7),
        StoredPosition(A, "x", 5, 20, 7),  # the timestamp of that record, be an earlier one's later
        StoredPosition(B, "x", 4, 30, 7),
        StoredPosition(A, "y", 1, 10, 7),
    }


def test_records_without_spans_settle_their_log() -> None:
    assert positions_after({"x": Extent(3, 9, 90)}, None, stored_us=7) == [StoredPosition(ALL_PROJECTS, "x", 9, 90, 7)]
