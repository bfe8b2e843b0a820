"""A shard that is away, slow, or takes no insert, a lost replica, and a shard that is added (ADR 0037)."""

from __future__ import annotations

import asyncio
import random
from collections import Counter
from collections.abc import AsyncIterator, Iterator, Sequence
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Final

import pyarrow as pa
import pytest

from common.clickhouse import server
from common.clickhouse.migrate import migrate
from common.clickhouse.span_columns import SpanColumns
from common.clickhouse.store import ColumnStore, Statement
from common.errors import DeadlineExceeded, Overloaded, Unavailable
from common.ids import DEFAULT_PROJECT_ID
from common.migrations import InvalidMigration
from common.span import Span
from common.times import SystemClock
from ingest.clickhouse_sink import ClickHouseSink
from ingest.normalize import normalize
from ingest.sink import SpanRows
from tests.support.clickhouse_cluster import ClickHouseCluster, clickhouse_cluster
from tests.support.feed import Reader, settle
from tests.support.span_corpus import random_span, store_record
from tests.support.span_pages import SpanPages, ids_of
from tests.support.stores import opened_store

SPANS: Final = 60
AWAY: Final = (Unavailable, Overloaded)


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ClickHouseCluster]:
    with clickhouse_cluster(tmp_path_factory.mktemp("shards")) as started:
        yield started


@asynccontextmanager
async def opened(cluster: ClickHouseCluster, tmp_path: Path, **members: object) -> AsyncIterator[ColumnStore]:
    settings = cluster.settings(database=f"db{random.SystemRandom().randrange(10**9)}", **members)
    await migrate(settings, data_dir=tmp_path)
    async with opened_store(settings, data_dir=tmp_path) as store:
        yield store


def spans_from(first: int) -> list[Span]:
    source = random.Random(first)
    return [random_span(source, number) for number in range(first, first + SPANS)]


def rows_of(spans: Sequence[Span], offset: int) -> pa.Table:
    columns = SpanColumns()
    columns.append_record(
        project_ids=DEFAULT_PROJECT_ID,
        partition_id="cluster/spans/0",
        record_offset=offset,
        record_ms=1,
        spans=spans,
        span_indexes=range(len(spans)),
        normalized_spans=normalize(spans),
    )
    return columns.rows()


def keys_of(spans: Sequence[Span]) -> list[tuple[str, str]]:
    return sorted((span.trace_id.hex(), span.span_id.hex()[16:]) for span in spans)


async def count_of(store: ColumnStore, table: str) -> int:
    rows = await store.select(Statement(f"SELECT count() AS rows_count FROM {table}"), deadline_s=60.0)
    count: int = rows["rows_count"][0].as_py()
    return count


async def test_shard_that_is_killed_makes_answers_fail_and_nothing_is_lost(
    cluster: ClickHouseCluster, tmp_path: Path
) -> None:
    first, second = spans_from(0), spans_from(SPANS)
    async with opened(cluster, tmp_path) as store:
        pages, sink = SpanPages.over(store), ClickHouseSink(store, clock=SystemClock(), insert_timeout_s=60.0)
        reader = Reader(pages.context)
        await sink.write(SpanRows(rows_of(first, 0), "first"))
        await settle(store, offset=0)
        begun = await pages.page(windowing={"limit": 10})
        fed = (await reader.page(limit=10))["spans"]

        cluster.nodes[1].stop()
        for _ in range(2):
            with pytest.raises(AWAY):
                await pages.page(windowing=begun["windowing"])
            with pytest.raises(AWAY):
                await reader.page(limit=10)
            with pytest.raises(AWAY):
                await sink.write(SpanRows(rows_of(second, 1), "second"))
        cluster.nodes[1].start()

        assert not await sink.write(SpanRows(rows_of(second, 1), "second"))
        await settle(store, offset=1)
        walked = ids_of(begun, *await pages.pages(windowing={"limit": 10, **begun["windowing"]}))
        fed += await reader.rest(limit=10)
        stored = {table: await count_of(store, table) for table in ("spans", "span_versions", "span_arrivals")}

    seen = Counter(walked)
    assert max(seen.values()) == 1
    assert set(keys_of(first)) <= seen.keys()
    assert sorted((span["trace_id"], span["span_id"]) for span in fed) == keys_of([*first, *second])
    assert stored == dict.fromkeys(stored, 2 * SPANS)


async def test_slow_shard_costs_time_and_no_spans(
    cluster: ClickHouseCluster, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with opened(cluster, tmp_path) as store:
        await store_record(store, spans_from(0))
        cluster.nodes[1].freeze()
        try:
            monkeypatch.setattr(server, "GRACE_S", 1.0)
            with pytest.raises((DeadlineExceeded, *AWAY)):
                await store.select(Statement("SELECT count() FROM spans"), deadline_s=1.0)
            monkeypatch.setattr(server, "GRACE_S", 30.0)
            waiting = asyncio.create_task(SpanPages.over(store).page(windowing={"limit": 1_000}))
            await asyncio.sleep(1.0)
        finally:
            cluster.nodes[1].go_on()
        assert sorted(ids_of(await waiting)) == keys_of(spans_from(0))


async def test_insert_that_one_shard_took_and_another_did_not_is_repeated(
    cluster: ClickHouseCluster, tmp_path: Path
) -> None:
    async with opened(cluster, tmp_path) as store:
        sink = ClickHouseSink(store, clock=SystemClock(), insert_timeout_s=60.0)
        await store_record(store, spans_from(0))
        async with store.shards() as shards:
            second = shards[1].store
            full = Statement(
                "ALTER TABLE spans_local MODIFY SETTING parts_to_throw_insert = 1, parts_to_delay_insert = 1"
            )
            await second.execute(full, deadline_s=60.0)
            with pytest.raises(AWAY):
                await sink.write(SpanRows(rows_of(spans_from(SPANS), 1), "second"))
            taken = await count_of(shards[0].store, "spans_local"), await count_of(second, "spans_local")
            usual = Statement("ALTER TABLE spans_local RESET SETTING parts_to_throw_insert, parts_to_delay_insert")
            await second.execute(usual, deadline_s=60.0)
        assert not await sink.write(SpanRows(rows_of(spans_from(SPANS), 1), "second"))
        stored = {table: await count_of(store, table) for table in ("spans", "span_versions", "span_arrivals")}
        found = ids_of(await SpanPages.over(store).page(windowing={"limit": 1_000}))

    assert SPANS < sum(taken) < 2 * SPANS
    assert stored == dict.fromkeys(stored, 2 * SPANS)
    assert sorted(found) == keys_of([*spans_from(0), *spans_from(SPANS)])


async def test_row_that_one_shard_never_takes_is_the_only_one_rejected(
    cluster: ClickHouseCluster, tmp_path: Path
) -> None:
    spans = spans_from(0)
    async with opened(cluster, tmp_path) as store:
        sink = ClickHouseSink(store, clock=SystemClock(), insert_timeout_s=60.0)
        async with store.shards() as shards:
            check = "ALTER TABLE spans_local ADD CONSTRAINT few CHECK status_code != 2"
            await shards[1].store.execute(Statement(check), deadline_s=60.0)
            rejected = await sink.write(SpanRows(rows_of(spans, 0), "one"))
            own = await shards[1].store.select(Statement("SELECT DISTINCT trace_id FROM spans_local"), deadline_s=60.0)
        tries = await count_of(store, "(SELECT DISTINCT trace_id, span_id, stored_us FROM spans)")
        assert tries == await count_of(store, "spans") > len(spans)  # rows that are stored twice can be told apart
        found = ids_of(await SpanPages.over(store).page(windowing={"limit": 1_000}))

    refused = [spans[row.row] for row in rejected]
    here = {bytes(trace_id) for trace_id in own["trace_id"].to_pylist()}
    assert refused
    assert all(span.status_code == 2 for span in refused)
    assert not [span for span in spans if span.status_code == 2 and span.trace_id in here and span not in refused]
    assert sorted([*found, *keys_of(refused)]) == keys_of(spans)


async def test_replica_that_is_killed_leaves_all_answers(tmp_path: Path) -> None:
    with clickhouse_cluster(tmp_path / "replicas", shards_count=1, replicas_count=2) as cluster:
        async with opened(cluster, tmp_path) as store:
            await store_record(store, spans_from(0))
            cluster.nodes[1].stop()
            found = ids_of(await SpanPages.over(store).page(windowing={"limit": 1_000}))
            with pytest.raises(AWAY):
                await store_record(store, spans_from(SPANS))

    assert sorted(found) == keys_of(spans_from(0))


async def test_shard_that_is_added_takes_new_spans_and_old_ones_stay(tmp_path: Path) -> None:
    early, late = spans_from(0), spans_from(0)[::2] + spans_from(SPANS)
    since_us = max(span.start_ns for span in early) // 1_000 + 1
    late = [span._replace(start_ns=span.start_ns + 10**10, end_ns=span.end_ns + 10**10) for span in late]
    epochs = f"2,3@{since_us}"
    with clickhouse_cluster(tmp_path / "growing") as cluster:
        await migrate(cluster.settings(), data_dir=tmp_path)
        async with opened_store(cluster.settings(), data_dir=tmp_path) as store:
            await store_record(store, early, offset=0)
        cluster.grow(3)
        with pytest.raises(InvalidMigration, match=r"3 shards now, .* set CLEARSPAN_CLICKHOUSE__SHARD_EPOCHS"):
            await migrate(cluster.settings(), data_dir=tmp_path)
        settings = cluster.settings(shard_epochs=epochs)
        assert await migrate(settings, data_dir=tmp_path) == ["0001_baseline"]
        async with opened_store(settings, data_dir=tmp_path) as store:
            async with store.shards() as shards:
                before = [await count_of(shard.store, "spans_local") for shard in shards]
                await store_record(store, late, offset=1, record_ms=2)
                after = [await count_of(shard.store, "spans_local") for shard in shards]
            found = ids_of(await SpanPages.over(store).page(windowing={"limit": 1_000}))

    assert before[2] == 0
    assert all(now > earlier for earlier, now in zip(before, after, strict=True))
    assert sorted(found) == sorted({*keys_of(early), *keys_of(late)})
