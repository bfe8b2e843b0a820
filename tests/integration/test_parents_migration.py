"""The parents in ``span_versions``, over spans that were stored before there were any."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from common.clickhouse.connect import open_store
from common.clickhouse.migrate import migrate
from common.clickhouse.span_columns import NO_PARENT
from common.clickhouse.store import ColumnStore, Statement
from common.clock import SystemClock
from common.project import DEFAULT_PROJECT_ID
from common.settings import ClickHouseSettings
from common.span import Span
from query_api.spans.deletions import delete_trace
from query_api.spans.latest_versions import sums_of_traces
from query_api.spans.project_spans import ProjectSpans
from tests.support.older_tables import apply_again, tables_before
from tests.support.span_corpus import START_NS, store_record

PARENTS = "SELECT span_id, parent_id, count() OVER () AS rows FROM span_versions FINAL ORDER BY span_id"
TOKENS = "ag.metrics.tokens.incremental.total"


def span(number: int, parent: int | None = None, *, trace: int = 1, tokens: int = 0) -> Span:
    ids = trace.to_bytes(16, "big"), number.to_bytes(8, "big") * 2
    parent_id = None if parent is None else parent.to_bytes(8, "big") * 2
    return Span(*ids, parent_id, "s", 1, START_NS, START_NS, 0, None, {TOKENS: tokens} if tokens else {})


async def parents(store: ColumnStore) -> dict[int, int]:
    rows = (await store.select(Statement(PARENTS), deadline_s=10.0)).to_pylist()
    assert all(row["rows"] == len(rows) for row in rows)
    return {row["span_id"][7]: row["parent_id"][7] for row in rows}


def spans_in(store: ColumnStore) -> ProjectSpans:
    return ProjectSpans(store, DEFAULT_PROJECT_ID, clock=SystemClock(), budget_s=30.0)


@pytest.mark.parametrize("is_applied_twice", [False, True])
async def test_what_was_stored_before_has_its_parents_too(
    chdb_dir: Path, chdb_empty_settings: Callable[[], ClickHouseSettings], tmp_path: Path, *, is_applied_twice: bool
) -> None:
    settings = chdb_empty_settings()
    store = await tables_before(4, settings, data_dir=chdb_dir, folder=tmp_path)
    await store_record(store, [span(1, tokens=9), span(2, 1)], without=["usage_is_own"])

    await migrate(settings, data_dir=chdb_dir)
    if is_applied_twice:
        await apply_again(store, "0004_parents.sql")
    await store_record(store, [span(3, 2, tokens=5)], offset=1)
    shown = await parents(store)
    used = await sums_of_traces(spans_in(store), [(1).to_bytes(16, "big")])
    await store.close()

    assert shown == {1: NO_PARENT[7], 2: 1, 3: 2}
    assert [each.tokens_total for each in used.values()] == [14]  # what was stored before is the span's own


async def test_what_was_deleted_before_stays_deleted(
    chdb_dir: Path, chdb_empty_settings: Callable[[], ClickHouseSettings], tmp_path: Path
) -> None:
    settings = chdb_empty_settings()
    store = await tables_before(4, settings, data_dir=chdb_dir, folder=tmp_path)
    await store_record(store, [span(1, tokens=9), span(2, 1, tokens=9)], without=["usage_is_own"])
    await store.execute(
        Statement(
            "INSERT INTO span_versions (project_id, trace_id, span_id, partition_id, version, record_ms, start_us)"
            " SELECT project_id, trace_id, span_id, partition_id, version + 1 AS deletion, record_ms, start_us FROM span_versions"
        ),
        deadline_s=10.0,
    )

    await migrate(settings, data_dir=chdb_dir)
    used = await sums_of_traces(spans_in(store), [(1).to_bytes(16, "big")])
    await store.close()

    assert used == {}


async def test_a_deletion_needs_no_parent(chdb_dir: Path, chdb_settings: Callable[[], ClickHouseSettings]) -> None:
    settings = chdb_settings()
    store = open_store(settings, data_dir=chdb_dir)
    trace_id = (1).to_bytes(16, "big")
    await store_record(store, [span(1, tokens=9), span(2, 1, tokens=9)])

    deleted = await delete_trace(spans_in(store), trace_id)
    await store_record(store, [span(2, 1, tokens=4)], offset=1)
    used = await sums_of_traces(spans_in(store), [trace_id])
    await store.close()

    assert len(deleted) == 2
    assert used[trace_id].tokens_total == 4
