"""Whether a version was stored when a scan began: in Python, and in SQL."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from itertools import product
from pathlib import Path

import pytest

from common.clickhouse.connect import open_store
from common.clickhouse.store import Statement
from common.settings import ClickHouseSettings
from common.span_version import OFFSET_SQL, offset_of, version_of
from query_api.pages.snapshot import Snapshot
from query_api.spans.versions import Version

LOGS = ("cluster/spans/0", "cluster/spans/1", "other/é/0", "of nobody")
OFFSETS = (0, 4, 5, 6, 2**44)


@pytest.mark.parametrize("stored", [{}, {LOGS[0]: 5, LOGS[1]: 0, LOGS[2]: 2**44}], ids=["nothing known", "three logs"])
async def test_snapshot_agrees_in_python_and_in_sql(
    chdb_dir: Path, chdb_settings: Callable[[], ClickHouseSettings], stored: Mapping[str, int]
) -> None:
    snapshot = Snapshot.of_partitions(stored)
    condition, values = snapshot.holds_sql()
    versions = [version_of(offset) for offset in OFFSETS]
    rows = f"SELECT arrayJoin({list(LOGS)}) AS partition_id, arrayJoin({versions}) AS version"
    expected = {
        (partition_id, offset)
        for partition_id, offset in product(LOGS, OFFSETS)
        if offset <= stored.get(partition_id, -1)
    }

    store = open_store(chdb_settings(), data_dir=chdb_dir)
    found = await store.select(
        Statement(f"SELECT partition_id, {OFFSET_SQL} AS record_offset FROM ({rows}) WHERE {condition}", values),
        deadline_s=30.0,
    )
    await store.close()

    stored_versions = (
        Version(0, b"s" * 16, b"t" * 16, partition_id.encode(), version_of(offset, 1))
        for partition_id, offset in product(LOGS, OFFSETS)
    )
    assert {(row["partition_id"].decode(), row["record_offset"]) for row in found.to_pylist()} == expected
    assert {
        (version.partition_id.decode(), offset_of(version.version))
        for version in stored_versions
        if snapshot.holds(version)
    } == expected
