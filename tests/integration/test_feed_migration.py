"""The tables of the feed over spans that were stored before there were any."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from common.clickhouse.migrate import migrate
from common.clickhouse.span_columns import SPANS_TABLE, SpanColumns
from common.clickhouse.store import ColumnStore
from common.clock import SystemClock
from common.project import DEFAULT_PROJECT_ID
from common.settings import ClickHouseSettings
from common.span import Span
from ingest.normalize import normalize
from tests.support.api import context_of
from tests.support.feed import Reader
from tests.support.older_tables import apply_again, tables_before
from tests.support.span_corpus import START_NS

LATELY_US = 60_000_000
LONG_AGO_US = 3_600_000_000


async def store_records(store: ColumnStore, *offsets: int, stored_us: int) -> None:
    """A span each, in one insert."""
    columns = SpanColumns()
    for offset in offsets:
        ids = offset.to_bytes(16, "big"), offset.to_bytes(8, "big") * 2
        spans = [Span(*ids, None, "s", 1, START_NS, START_NS, 0, None, {})]
        columns.append_record(
            project_ids=DEFAULT_PROJECT_ID,
            partition_id="c/spans/0",
            record_offset=offset,
            record_ms=1,
            spans=spans,
            span_indexes=[0],
            normalized_spans=normalize(spans),
        )
    await store.insert(
        SPANS_TABLE,
        columns.table(stored_us=stored_us).drop_columns(["usage_is_own"]),
        dedup_token=str(offsets),
        deadline_s=10.0,
    )


@pytest.mark.parametrize("is_applied_twice", [False, True])
async def test_what_was_stored_before_is_in_the_feed_but_for_what_may_be_half_of_an_insert(
    chdb_dir: Path, chdb_empty_settings: Callable[[], ClickHouseSettings], tmp_path: Path, *, is_applied_twice: bool
) -> None:
    settings = chdb_empty_settings()
    store = await tables_before(3, settings, data_dir=chdb_dir, folder=tmp_path)
    now_us = SystemClock().now_ns() // 1_000
    await store_records(store, 1, 2, 3, stored_us=now_us - LONG_AGO_US)
    await store_records(store, 4, 5, stored_us=now_us - LATELY_US)

    await migrate(settings, data_dir=chdb_dir)
    if is_applied_twice:
        await apply_again(store, "0003_feed.sql")
    given = await Reader(context_of(store=store, clock=SystemClock())).ids()
    await store.close()

    assert given == [1, 2, 3]
