"""Spans on object storage: what moves there and when, and that every answer from there is the same."""

from __future__ import annotations

import asyncio
import random
import time
from collections import Counter
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Final

import aiohttp
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from common.clickhouse.migrate import migrate
from common.clickhouse.store import ColumnStore, Statement
from common.errors import Unavailable
from common.postgres.pool import Database
from common.settings import ClickHouseSettings, InvalidSettings
from common.span import Span
from query_api.retention.rules import KeepRules
from tests.fakes.clock import ManualClock
from tests.support.api import context_of, serving
from tests.support.clickhouse import ClickHouseServer
from tests.support.clickhouse_cluster import clickhouse_cluster
from tests.support.cold_storage import (
    COLD,
    HOT,
    move_spans,
    rows_by_disk,
    storage_of,
    tiered_server,
    wait_for_disks,
)
from tests.support.feed import Reader, settle
from tests.support.filters import FILTERS
from tests.support.retention import RetentionWorld, SentSpan, expected_versions, retention_world, visible_versions
from tests.support.s3_stand_in import s3_stand_in
from tests.support.scale import few_and_many, rest_is_long, scaled
from tests.support.span_corpus import random_span, store_record
from tests.support.span_pages import SpanPages, ids_of
from tests.support.stores import opened_store

NOW_NS: Final = time.time_ns()
DAY_NS: Final = 86_400 * 10**9
AGES: Final = (0, 40, 80, 120)
"""Ages of spans in days; each is in a month of its own."""

HOT_DAYS: Final = 20.0
POLICY: Final = {"storage_policy": "tiered"}

Fresh = Callable[..., ClickHouseSettings]


@pytest.fixture(scope="module")
def tiered(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ClickHouseServer]:
    with s3_stand_in() as s3, tiered_server(tmp_path_factory.mktemp("tiered"), s3) as server:
        yield server


@pytest.fixture(scope="module")
def fresh(tiered: ClickHouseServer) -> Fresh:
    """Settings of a new database; nothing is created yet."""
    numbers = iter(range(1_000_000))
    return lambda **changed: tiered.settings(database=f"cold{next(numbers)}", **changed)


async def migrated(configured: ClickHouseSettings) -> None:
    await migrate(configured, data_dir=Path("unused"))


@asynccontextmanager
async def opened(configured: ClickHouseSettings) -> AsyncIterator[ColumnStore]:
    await migrated(configured)
    async with opened_store(configured, data_dir=Path("unused")) as store:
        yield store


def span_of_age(number: int, age_days: float, *, source: random.Random | None = None) -> Span:
    """A random span that starts before now; spans of one number are versions of one span."""
    made = random_span(source or random.Random(number), number)
    start_ns = NOW_NS - round(age_days * DAY_NS) - number * 1_000
    return made._replace(
        start_ns=start_ns, end_ns=start_ns + 1_000_000, events=(), attributes={**made.attributes, "version": number}
    )


async def store_ages(store: ColumnStore, *, count: int = 20) -> None:
    """Store one record of spans for each age."""
    for offset, age in enumerate(AGES):
        await store_record(store, [span_of_age(offset * count + n, age) for n in range(count)], offset=offset)


def cold_rows(found: dict[tuple[str, str], int]) -> int:
    return sum(count for (_, disk), count in found.items() if disk == COLD)


# what moves


async def test_old_spans_move_and_young_ones_stay(fresh: Fresh) -> None:
    async with opened(fresh(**POLICY, hot_days=HOT_DAYS)) as store:
        await store_ages(store)
        await wait_for_disks(store, lambda found: cold_rows(found) == 60)

        found = await rows_by_disk(store)
        assert sorted(found.values()) == [20] * 4
        assert [disk for month, disk in sorted(found)][-1] == HOT


async def test_tables_that_exist_follow_the_settings(fresh: Fresh) -> None:
    plain = fresh()
    async with opened(plain) as store:
        await store_ages(store)
        assert cold_rows(await rows_by_disk(store)) == 0

        await migrated(plain.model_copy(update={**POLICY, "hot_days": 60.0}))
        await wait_for_disks(store, lambda found: cold_rows(found) == 40)
        await migrated(plain.model_copy(update={**POLICY, "hot_days": HOT_DAYS}))
        await wait_for_disks(store, lambda found: cold_rows(found) == 60)

        await migrated(plain.model_copy(update=POLICY))
        await store_record(store, [span_of_age(1_000, 200)], offset=10)
        table = await store.select(Statement("SHOW CREATE TABLE spans"), deadline_s=60.0)
        assert b" TTL " not in table[0][0].as_py().replace(b"\n", b" ")
        assert len(ids_of(*await SpanPages.over(store).pages())) == 81


async def test_second_migration_changes_nothing(fresh: Fresh) -> None:
    configured = fresh(**POLICY, hot_days=0.5)
    async with opened(configured) as store:
        await store_ages(store)
        before = await mutations_count(store)
        await migrated(configured)
        assert await mutations_count(store) == before


async def mutations_count(store: ColumnStore) -> int:
    sql = "SELECT count() AS n FROM system.mutations WHERE database = currentDatabase()"
    return int((await store.select(Statement(sql), deadline_s=60.0))["n"][0].as_py())


async def test_spans_after_the_last_time_of_the_engine_stay(fresh: Fresh) -> None:
    """A ``DateTime`` ends in 2106; beyond it a sum would begin again in 1970."""
    far = span_of_age(1, 0)._replace(start_ns=4_294_000_000 * 10**9, end_ns=4_294_000_000 * 10**9)
    async with opened(fresh(**POLICY, hot_days=3_650.0)) as store:
        await store_record(store, [far])
        await store_record(store, [span_of_age(2, 4_000)], offset=1)
        await wait_for_disks(store, lambda found: cold_rows(found) == 1)

        assert sum(disk == HOT for _, disk in await rows_by_disk(store)) == 1


# what is wrong is said


@pytest.mark.parametrize(
    ("changed", "message"),
    [
        (
            {"storage_policy": "frozen"},
            "CLEARSPAN_CLICKHOUSE__STORAGE_POLICY: ClickHouse has no storage policy 'frozen'; it has default, elsewhere,"
            " tiered. Policies are part of its configuration (docs/cold-storage.md).",
        ),
        (
            {"storage_policy": "default", "hot_days": 1.0},
            "CLEARSPAN_CLICKHOUSE__HOT_DAYS: the storage policy 'default' has one volume, 'default', so nothing can move;"
            " give it a second volume, or set 0.",
        ),
        (
            {"storage_policy": "elsewhere"},
            "CLEARSPAN_CLICKHOUSE__STORAGE_POLICY: the spans are kept by the policy 'default', and 'elsewhere' can replace"
            " it only with all of its volumes and disks: volume 'default' with default.",
        ),
    ],
)
async def test_policy_that_cannot_be_used_is_named(fresh: Fresh, changed: dict[str, Any], message: str) -> None:
    plain = fresh()
    await migrated(plain)

    with pytest.raises(InvalidSettings) as raised:
        await migrated(plain.model_copy(update=changed))

    assert str(raised.value) == message


async def test_new_tables_take_a_policy_with_other_volumes(fresh: Fresh) -> None:
    async with opened(fresh(storage_policy="elsewhere", hot_days=HOT_DAYS)) as store:
        await store_ages(store)
        await wait_for_disks(store, lambda found: cold_rows(found) == 60)

        assert {disk for _, disk in await rows_by_disk(store)} == {"other", COLD}


# the same answers


@dataclass
class TwoApis:
    """The API over hot spans and over the same spans of which most are cold, with one event loop."""

    runner: asyncio.Runner
    hot: aiohttp.ClientSession
    mixed: aiohttp.ClientSession

    def answers(self, path: str, body: Any) -> tuple[Any, Any]:
        """Status and body of both, without cursors, which hold random bytes."""
        return self.runner.run(self._answers(path, body))

    async def _answers(self, path: str, body: Any) -> tuple[Any, Any]:
        first, second = await asyncio.gather(*(self._walked(client, path, body) for client in (self.hot, self.mixed)))
        return first, second

    async def _walked(self, client: aiohttp.ClientSession, path: str, body: Any) -> list[Any]:
        """All pages."""
        pages: list[Any] = []
        windowing = body.get("windowing", {})
        while True:
            sent = {**body, **({"windowing": windowing} if windowing else {})}
            async with client.post(path, json=sent) as response:
                page = await response.json()
            assert response.status < 429, page  # otherwise the machine had too much to do
            cursor = page.pop("windowing", {}).get("next")
            pages.append((response.status, page))
            if cursor is None or not (page["count"] or "complete" in page):
                return pages
            windowing = {**windowing, "next": cursor}


@pytest.fixture(scope="module")
def apis(fresh: Fresh) -> Iterator[TwoApis]:
    """Three of four months are cold in one of the databases; some spans have versions in both."""
    with asyncio.Runner() as runner:
        opening = _open_both(fresh)
        opened_apis = runner.run(opening.__aenter__())
        yield TwoApis(runner, *opened_apis)
        runner.run(opening.__aexit__(None, None, None))


@asynccontextmanager
async def _open_both(fresh: Fresh) -> AsyncIterator[tuple[aiohttp.ClientSession, aiohttp.ClientSession]]:
    clock = ManualClock(now_ns=NOW_NS)
    async with opened(fresh()) as hot, opened(fresh(**POLICY, hot_days=HOT_DAYS)) as mixed:
        for store in (hot, mixed):
            await store_ages(store, count=40)
            again = [span_of_age(n, age, source=random.Random(-n)) for n in range(0, 160, 8) for age in (60,)]
            await store_record(store, again, offset=10)
            await settle(store, offset=10)
        await wait_for_disks(mixed, lambda found: cold_rows(found) == 140)
        assert cold_rows(await rows_by_disk(hot)) == 0
        async with (
            serving(context_of(store=hot, clock=clock)) as first,
            serving(context_of(store=mixed, clock=clock)) as second,
        ):
            yield first, second


@pytest.mark.parametrize("count", few_and_many(2, 10))
def test_every_list_is_the_same(apis: TwoApis, count: int) -> None:
    @settings(max_examples=count)
    @given(FILTERS, st.integers(30, 90), st.sampled_from(["ascending", "descending"]))
    def check(filtering: Any, limit: int, order: str) -> None:
        window = {"windowing": {"limit": limit, "order": order}}
        for path, body in (
            ("/spans/query", window),
            ("/spans/query", {"windowing": {"limit": limit, "by": "created_at"}}),
            ("/traces/query", window),
            ("/traces/summaries/query", window),
            ("/spans/groups/query", {"group_by": ["span_type"], "measures": [{"of": "duration"}, {"of": "count"}]}),
            ("/spans/facets/query", {}),
        ):
            hot, mixed = apis.answers(path, {"filtering": filtering, **body})
            assert mixed == hot, path

    check()


def test_every_trace_is_the_same(apis: TwoApis) -> None:
    async def traces(client: aiohttp.ClientSession) -> list[Any]:
        found = []
        for number in range(1, 38, 4):
            trace_id = bytes([number] * 16).hex()
            for path in (f"/traces/{trace_id}", f"/traces/{trace_id}/outline"):
                async with client.get(path) as response:
                    found.append((response.status, await response.json()))
        return found

    async def both() -> tuple[list[Any], list[Any]]:
        return await traces(apis.hot), await traces(apis.mixed)

    hot, mixed = apis.runner.run(both())
    assert {status for status, _ in hot} == {200}
    assert mixed == hot


# walks, deletion, retention


@pytest.mark.parametrize("seed", rest_is_long(range(4)))
async def test_walks_are_exact_while_parts_move(fresh: Fresh, seed: int) -> None:
    """Parts move back and forth and spans arrive; each span of the first page's time comes once."""
    source = random.Random(seed)
    async with opened(fresh(**POLICY)) as store:
        await store_ages(store, count=12)
        await settle(store, offset=3)
        numbers = iter(range(10_000, 20_000))

        async def intervene() -> None:
            months = sorted({month for month, _ in await rows_by_disk(store)})
            await move_spans(store, source.choice((HOT, COLD)), [source.choice(months)])
            if source.random() < 0.5:
                number = next(numbers)
                await store_record(store, [span_of_age(number, source.choice(AGES))], offset=number)
                await settle(store, offset=number)

        pages = await SpanPages.over(store).pages(
            windowing={"limit": 5, "order": source.choice(("ascending", "descending"))}, between=intervene
        )
        seen = Counter(span["attributes"]["version"] for page in pages for span in page["spans"])
        assert {seen[number] for number in range(48)} == {1}
        assert max(seen.values()) == 1

        reader = Reader(SpanPages.over(store).context, windowing={"limit": 7})
        fed: Counter[int] = Counter()
        while (page := await reader.page())["count"]:
            fed.update(span["attributes"]["version"] for span in page["spans"])
            await intervene()
        stored = {
            span["attributes"]["version"] for page in await SpanPages.over(store).pages() for span in page["spans"]
        }
        assert set(fed) == stored
        assert set(fed.values()) == {1}


@pytest.fixture
async def world(fresh: Fresh, database: Database) -> AsyncIterator[RetentionWorld]:
    async with opened(fresh(**POLICY)) as store, retention_world(store, database) as made:
        yield made


@pytest.mark.parametrize("seed", range(scaled(1, 50)))
async def test_retention_frees_cold_spans(world: RetentionWorld, seed: int) -> None:
    source = random.Random(seed)
    world.limits = replace(world.limits, chunk_versions=source.choice((1, 5, 200_000)))
    pages = SpanPages.over(world.store, project_id=world.project_id)
    with world.freeing_at_once():
        for _ in range(scaled(6, 30)):
            for _ in range(source.randrange(1, 4)):
                await world.send(world.random_spans(source))
            await move_spans(world.store, source.choice((COLD, COLD, HOT)))
            await world.run(KeepRules(source.choice((1.5, 3.0, 5.0, 8.0)), source.choice((None, 2_000))))
            assert visible_versions(await pages.pages()) == expected_versions(world.model)
            assert await world.rows() == len(world.model.visible())


async def test_deleted_trace_is_gone_from_cold_data(world: RetentionWorld) -> None:
    now_us = ManualClock().now_ns() // 1_000
    await world.send([SentSpan(1, 1, now_us - 1), SentSpan(2, 2, now_us - 2)])
    await move_spans(world.store, COLD)
    context = context_of(store=world.store, clock=world.clock)
    context = replace(context, settings=context.settings.model_copy(update={"default_project_id": world.project_id}))
    async with serving(context) as client:
        async with client.delete(f"/traces/{1:032x}") as response:
            assert response.status in (200, 202)
        async with client.post("/spans/query", json={}) as response:
            found = await response.json()

    assert [span["span_id"] for span in found["spans"]] == [f"{2:016x}"]


# backup


async def test_cold_spans_are_backed_up_and_restored(fresh: Fresh) -> None:
    configured = fresh(**POLICY, hot_days=HOT_DAYS)
    async with opened(configured) as store:
        await store_ages(store)
        await wait_for_disks(store, lambda found: cold_rows(found) == 60)
        before = await SpanPages.over(store).pages(windowing={"limit": 30})
        name = configured.database
        for sql in (
            f"BACKUP DATABASE {name} TO File('{name}')",
            f"DROP TABLE {name}.spans SYNC",
            f"RESTORE TABLE {name}.spans FROM File('{name}')",
        ):
            await store.execute(Statement(sql), deadline_s=60.0)

        await wait_for_disks(store, lambda found: cold_rows(found) == 60)
        after = await SpanPages.over(store).pages(windowing={"limit": 30})
        assert [page["spans"] for page in after] == [page["spans"] for page in before]


# shards


async def test_spans_of_every_shard_move(tmp_path: Path) -> None:
    with s3_stand_in() as s3, clickhouse_cluster(tmp_path / "nodes", more=storage_of(s3, tmp_path)) as cluster:
        async with opened(cluster.settings(database="divided", **POLICY, hot_days=HOT_DAYS)) as store:
            await store_ages(store)
            async with store.shards() as shards:
                for shard in shards:
                    await wait_for_disks(
                        shard.store, lambda found: sum(disk == HOT for _, disk in found) == 1 and cold_rows(found) > 0
                    )
                found = [await rows_by_disk(shard.store) for shard in shards]

            assert sum(map(cold_rows, found)) == 60
            ids = ids_of(*await SpanPages.over(store).pages(windowing={"limit": 9}))
            assert len(ids) == len(set(ids)) == 80


# the object storage is away


async def test_young_spans_are_stored_and_read_while_the_object_storage_is_away(tmp_path: Path) -> None:
    with s3_stand_in() as s3, tiered_server(tmp_path / "engine", s3) as server:
        async with opened(server.settings(database="away", **POLICY, hot_days=HOT_DAYS)) as store:
            await store_ages(store)
            await wait_for_disks(store, lambda found: cold_rows(found) == 60)
            pages = SpanPages.over(store, budget_s=3)
            s3.is_failing = True
            with pytest.raises(Unavailable, match="S3_ERROR"):
                await pages.page(windowing={"limit": 100})

            await store_record(store, [span_of_age(900, 0)], offset=9)
            page = await pages.page(windowing={"limit": 5, "oldest": "-1d"})
            assert page["count"] == 5
