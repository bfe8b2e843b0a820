"""Tables that are divided among shards, over two servers with the engine's own ``Distributed`` (ADR 0037)."""

from __future__ import annotations

import random
from pathlib import Path
from typing import Any

import pytest

from common.clickhouse.cluster import SHARDING_KEYS
from common.clickhouse.migrate import migrate, require_tables
from common.clickhouse.store import ColumnStore, Statement
from common.errors import Unavailable
from common.ids import DEFAULT_PROJECT_ID
from common.migrations import InvalidMigration
from common.times import SystemClock
from query_api.spans.latest_versions import delete_trace
from query_api.spans.project_spans import ProjectSpans
from tests.support.clickhouse_cluster import ClickHouseCluster
from tests.support.feed import Reader, settle
from tests.support.span_corpus import random_span, store_record
from tests.support.span_pages import SpanPages, ids_of
from tests.support.span_rows import span_row, span_table
from tests.support.stores import opened_store

SPANS = 200


async def rows_of(store: ColumnStore, sql: str) -> list[dict[str, Any]]:
    rows = await store.select(Statement(sql), deadline_s=60.0)
    found: list[dict[str, Any]] = rows.to_pylist()
    return found


async def of_each_shard(store: ColumnStore, sql: str) -> list[list[dict[str, Any]]]:
    async with store.shards() as shards:
        return [await rows_of(shard.store, sql) for shard in shards]


async def test_every_shard_gets_its_own_tables_and_those_over_all(divided: ColumnStore) -> None:
    await require_tables(divided)
    engines = "SELECT name, engine FROM system.tables WHERE database = currentDatabase()"
    for rows in await of_each_shard(divided, engines):
        found = {row["name"].decode(): row["engine"].decode() for row in rows}
        assert {found[table] for table in SHARDING_KEYS} == {"Distributed"}
        others = {"spans": "MergeTree", "trace_settlings": "AggregatingMergeTree"}
        expected = dict.fromkeys(SHARDING_KEYS, "ReplacingMergeTree") | others
        assert {table: found[f"{table}_local"] for table in SHARDING_KEYS} == expected


async def test_second_migration_changes_nothing(clickhouse_shards: ClickHouseCluster, tmp_path: Path) -> None:
    settings = clickhouse_shards.settings(database="twice")
    ids = "SELECT name, toString(uuid) AS id FROM system.tables WHERE database = currentDatabase() ORDER BY name"

    assert await migrate(settings, data_dir=tmp_path) == ["0001_baseline"]
    async with opened_store(settings, data_dir=tmp_path) as store:
        before = await of_each_shard(store, ids)
        assert await migrate(settings, data_dir=tmp_path) == []
        assert await of_each_shard(store, ids) == before


async def test_server_that_lost_its_tables_gets_them_again(
    clickhouse_shards: ClickHouseCluster, tmp_path: Path
) -> None:
    settings = clickhouse_shards.settings(database="lost")
    await migrate(settings, data_dir=tmp_path)
    async with opened_store(settings, data_dir=tmp_path) as store:
        async with store.shards() as shards:
            await shards[1].store.execute(Statement("DROP DATABASE lost SYNC"), deadline_s=60.0)
        assert await migrate(settings, data_dir=tmp_path) == ["0001_baseline"]
        await store_record(store, [random_span(random.Random(1), number) for number in range(SPANS)])
        assert len(ids_of(await SpanPages.over(store).page(windowing={"limit": 1_000}))) == SPANS


async def test_spans_go_in_and_out(divided: ColumnStore) -> None:
    source = random.Random(0)
    spans = [random_span(source, number) for number in range(SPANS)]
    await store_record(divided, spans)
    await settle(divided, offset=0)

    found = ids_of(*await SpanPages.over(divided).pages(windowing={"limit": 7}))
    fed = await Reader(SpanPages.over(divided).context).rest(limit=7)

    expected = sorted((span.trace_id.hex(), span.span_id.hex()[16:]) for span in spans)
    assert sorted(found) == expected
    assert sorted((span["trace_id"], span["span_id"]) for span in fed) == expected
    traces = await of_each_shard(divided, "SELECT DISTINCT trace_id FROM spans_local ORDER BY trace_id")
    assert all(traces)
    assert not {row["trace_id"] for row in traces[0]} & {row["trace_id"] for row in traces[1]}
    for table in ("span_versions_local", "span_arrivals_local"):
        counts = await of_each_shard(divided, f"SELECT count() AS rows_count FROM {table}")
        own = await of_each_shard(divided, "SELECT count() AS rows_count FROM spans_local")
        assert counts == own


async def test_an_insert_that_is_repeated_changes_nothing_on_any_shard(divided: ColumnStore) -> None:
    rows = span_table([span_row(number) for number in range(SPANS)])
    for _ in range(2):
        await divided.insert("spans", rows, dedup_token="one", deadline_s=60.0)

    for table in ("spans", "span_versions", "span_arrivals"):
        assert await rows_of(divided, f"SELECT count() AS rows_count FROM {table}") == [{"rows_count": SPANS}]


async def test_deleted_traces_are_gone_from_every_shard(divided: ColumnStore) -> None:
    source = random.Random(2)
    spans = [random_span(source, number) for number in range(SPANS)]
    await store_record(divided, spans)
    pages = SpanPages.over(divided)
    deleted = sorted({span.trace_id for span in spans})[::2]

    for trace_id in deleted:
        project_spans = ProjectSpans(divided, DEFAULT_PROJECT_ID, clock=SystemClock(), budget_s=60.0)
        assert await delete_trace(project_spans, trace_id)

    left = sorted((span.trace_id.hex(), span.span_id.hex()[16:]) for span in spans if span.trace_id not in deleted)
    assert sorted(ids_of(await pages.page(windowing={"limit": 1_000}))) == left


async def test_explanation_has_the_plan_of_one_shard(divided: ColumnStore) -> None:
    source = random.Random(3)
    await store_record(divided, [random_span(source, number) for number in range(SPANS)])
    filtering = {"conditions": [{"field": "span_name", "operator": "is_not", "value": "never"}]}

    page = await SpanPages.over(divided).page(filtering=filtering, explain=True, windowing={"limit": 1_000})

    (candidates, *_) = page["explain"]["statements"]
    assert [read["table"] for read in candidates["reads"]] == ["spans"]
    assert candidates["granules_read"] > 0


async def test_unknown_cluster_is_named(clickhouse_shards: ClickHouseCluster, tmp_path: Path) -> None:
    settings = clickhouse_shards.settings(database="unknown", cluster="other")

    with pytest.raises(Unavailable, match=r"no cluster 'other' .* CLEARSPAN_CLICKHOUSE__CLUSTER"):
        await migrate(settings, data_dir=tmp_path)


async def test_epochs_that_contradict_the_cluster_are_refused(
    clickhouse_shards: ClickHouseCluster, tmp_path: Path
) -> None:
    settings = clickhouse_shards.settings(database="epochs", shard_epochs="2,3@2027-01-01T00:00:00Z")

    with pytest.raises(InvalidMigration, match=r"has 2 shards, and the last of .* has 3"):
        await migrate(settings, data_dir=tmp_path)


async def test_tables_of_a_shard_are_replicated(clickhouse_shards: ClickHouseCluster, tmp_path: Path) -> None:
    settings = clickhouse_shards.settings(database="replicas", replication="on", insert_quorum="2")
    engines = (
        "SELECT DISTINCT engine FROM system.tables WHERE database = currentDatabase() AND name LIKE '%_local'"
        " ORDER BY engine"
    )
    await migrate(settings, data_dir=tmp_path)
    async with opened_store(settings, data_dir=tmp_path) as store:
        found = await of_each_shard(store, engines)

    replicated = [f"Replicated{kind}MergeTree".encode() for kind in ("Aggregating", "", "Replacing")]
    assert found == [[{"engine": engine} for engine in replicated]] * 2
