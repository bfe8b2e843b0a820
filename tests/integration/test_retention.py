"""Retention against a model in Python: random spans, replaced, deleted, late, redelivered (contract §9)."""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import AsyncIterator, Callable
from dataclasses import replace
from pathlib import Path

import pytest

from common.clickhouse.connect import open_store
from common.clickhouse.migrate import migrate
from common.clickhouse.settled_traces import (
    SETTLED_TRACES_TABLE,
    SettledTrace,
    SettlingReason,
    TraceName,
    settled_rows,
)
from common.clickhouse.store import ColumnStore, Statement
from common.postgres.pool import Database
from common.settings import ClickHouseSettings
from query_api.retention.rules import KeepRules
from query_api.spans.latest_versions import delete_trace
from query_api.spans.project_spans import ProjectSpans
from tests.fakes.intervening_store import InterveningStore
from tests.support.feed import Reader
from tests.support.retention import (
    DAY_US,
    NOW_US,
    PARTITIONS,
    RetentionWorld,
    SentSpan,
    expected_versions,
    key_of,
    retention_world,
    visible_versions,
)
from tests.support.scale import scaled
from tests.support.span_pages import SpanPages

TRACE_NUMBER = "reinterpretAsUInt64(reverse(trace_id))"


@pytest.fixture
async def world(store: ColumnStore, database: Database) -> AsyncIterator[RetentionWorld]:
    async with retention_world(store, database) as opened:
        yield opened


async def read_all(world: RetentionWorld, **windowing: object) -> dict[tuple[int, int], str]:
    pages = await SpanPages.over(world.store, project_id=world.project_id).pages(windowing=windowing)
    return visible_versions(pages)


def random_rules(source: random.Random) -> KeepRules:
    age = source.choice((None, 1.5, 3.0, 5.0, 8.0))
    size = source.choice((None, 2_000, 8_000, 20_000)) if age is not None else source.choice((2_000, 8_000, 20_000))
    return KeepRules(age, size)


async def do_something(world: RetentionWorld, source: random.Random) -> None:
    """Send, send again, redeliver, delete, or run."""
    action = source.choices(("send", "redeliver", "delete", "run"), weights=(10, 5, 1, 3))[0]
    if action == "send" or not world.sent:
        await world.send(world.random_spans(source), partition_id=source.choice(PARTITIONS))
    elif action == "redeliver":
        await world.store_record(source.choice(world.sent))
    elif action == "delete":
        trace = source.randrange(1, 13)
        spans = ProjectSpans(world.store, world.project_id, clock=world.clock, budget_s=60.0)
        await delete_trace(spans, trace.to_bytes(16, "big"))
        world.model.delete({trace})
    else:
        await world.run(random_rules(source))


@pytest.mark.parametrize("seed", range(scaled(1, 300)))
async def test_what_is_left_is_what_the_model_says(world: RetentionWorld, seed: int) -> None:
    source = random.Random(seed)
    world.limits = replace(world.limits, chunk_versions=source.choice((1, 5, 200_000)))
    with world.freeing_at_once():
        for _ in range(scaled(16, 40)):
            await do_something(world, source)
            assert await read_all(world) == expected_versions(world.model)


@pytest.mark.parametrize("seed", range(scaled(1, 100)))
async def test_walks_and_feed_are_exact_while_retention_works(world: RetentionWorld, seed: int) -> None:
    source = random.Random(1_000 + seed)
    for _ in range(12):
        await world.send(world.random_spans(source), partition_id=source.choice(PARTITIONS))
    reader = Reader(SpanPages.over(world.store).context, project_id=world.project_id, windowing={"limit": 5})
    seen: list[tuple[tuple[int, int], str]] = []
    replaced: set[tuple[int, int]] = set()
    before = expected_versions(world.model)

    async def intervene() -> None:
        page = await reader.page()
        seen.extend((key_of(span), span["attributes"]["version"]) for span in page["spans"])
        earlier = expected_versions(world.model)
        await do_something(world, source)
        now = expected_versions(world.model)
        replaced.update(key for key in {*earlier, *now} if earlier.get(key) != now.get(key))

    with world.freeing_at_once():
        pages = await SpanPages.over(world.store, project_id=world.project_id).pages(
            windowing={"limit": 4}, between=intervene
        )
    seen += [(key_of(span), span["attributes"]["version"]) for span in await reader.rest()]
    given = Counter(key_of(span) for page in pages for span in page["spans"])
    untouched = before.keys() - replaced

    assert untouched <= given.keys()
    assert all(given[key] == 1 for key in untouched)
    assert max(Counter(seen).values()) == 1
    assert set(expected_versions(world.model).items()) <= set(seen)


async def test_settlings_of_deleted_traces_go_with_them(world: RetentionWorld) -> None:
    """How often a trace has settled stays: it may be sent again."""
    await world.send([SentSpan(1, 1, NOW_US - 9 * DAY_US), SentSpan(2, 2, NOW_US)])
    settled = [
        SettledTrace(TraceName(world.project_id, trace.to_bytes(16, "big")), 1, 1, at_us, SettlingReason.COMPLETE)
        for trace, at_us in ((1, NOW_US - 9 * DAY_US), (2, NOW_US))
    ]
    await world.store.insert(SETTLED_TRACES_TABLE, settled_rows(settled), dedup_token="settled", deadline_s=60.0)
    with world.freeing_at_once():
        await world.run(KeepRules(max_age_days=3.0))

    assert [await world.rows(table) for table in ("settled_traces", "trace_settlings")] == [1, 2]


async def test_settling_of_a_trace_in_the_future_stays_with_it(world: RetentionWorld) -> None:
    """A span may start long after it was stored, by the clock of its producer."""
    await world.send([SentSpan(1, 1, NOW_US - DAY_US)])
    name = TraceName(world.project_id, (1).to_bytes(16, "big"))
    settled = [SettledTrace(name, 1, 1, NOW_US - 9 * DAY_US, SettlingReason.COMPLETE)]
    await world.store.insert(SETTLED_TRACES_TABLE, settled_rows(settled), dedup_token="settled", deadline_s=60.0)
    for ahead_days, rows in ((10, 1), (1, 0)):
        world.ahead_us = ahead_days * DAY_US
        with world.freeing_at_once():
            await world.run(KeepRules(max_age_days=3.0))

        assert await world.rows("settled_traces") == rows


async def test_redelivered_record_stays_deleted_and_new_one_returns(world: RetentionWorld) -> None:
    old = SentSpan(1, 1, NOW_US - 5 * DAY_US)
    await world.send([old])
    with world.freeing_at_once():
        await world.run(KeepRules(max_age_days=3.0))
        assert await world.rows() == 0

        await world.store_record(world.sent[0])

        assert await read_all(world) == {}
        await world.run()
        assert await world.rows() == 0

    await world.send([old])
    assert await read_all(world) == {(1, 1): "0-1"}
    await world.run()
    assert await read_all(world) == {}


async def test_trace_is_kept_while_one_of_its_spans_is_young(world: RetentionWorld) -> None:
    await world.send([SentSpan(1, 1, NOW_US - 9 * DAY_US), SentSpan(1, 2, NOW_US - DAY_US)])
    await world.send([SentSpan(2, 3, NOW_US - 9 * DAY_US)])

    with world.freeing_at_once():
        await world.run(KeepRules(max_age_days=3.0))

    assert await read_all(world) == {(1, 1): "0-0", (1, 2): "0-0"}
    assert [await world.rows(table) for table in ("spans", "span_arrivals")] == [2, 2]
    assert await world.rows("span_versions", "version % 2 = 0") == 2


async def test_events_of_log_records_go_with_their_spans(world: RetentionWorld) -> None:
    """Those of an expired trace, and old ones whose span never came; not those of a span that stays, nor new ones."""
    old_us, new_us = NOW_US - 9 * DAY_US, NOW_US - DAY_US
    await world.send([SentSpan(1, 1, old_us)])
    await world.send([SentSpan(2, 2, new_us)])
    for trace, at_us in ((1, old_us), (2, old_us), (3, old_us), (4, new_us)):
        await world.send_event(trace, at_us)

    with world.freeing_at_once():
        await world.run(KeepRules(max_age_days=3.0))

    assert await world.rows("span_events", f"version % 2 = 0 AND {TRACE_NUMBER} IN (1, 3)") == 0
    assert await world.rows("span_events", f"version % 2 = 0 AND {TRACE_NUMBER} IN (2, 4)") == 2


async def test_span_that_is_not_surely_visible_is_not_deleted(world: RetentionWorld) -> None:
    """Its trace may be on the way to a later time."""
    await world.send([SentSpan(1, 1, NOW_US - 9 * DAY_US)], is_settled=False)

    with world.freeing_at_once():
        await world.run(KeepRules(max_age_days=3.0))
        world.model.deleted_through.clear()
        assert await read_all(world) == {(1, 1): "0-0"}
        assert await world.rows() == 1

        await world.send([SentSpan(1, 2, NOW_US)])  # settles both
        await world.run()

    assert await read_all(world) == {(1, 1): "0-0", (1, 2): "0-1"}


async def test_row_whose_version_is_not_visible_yet_is_not_freed(world: RetentionWorld) -> None:
    """An insert becomes visible in one table after the other."""
    await world.send([SentSpan(1, 1, NOW_US - 9 * DAY_US)])
    await world.store.execute(Statement("DETACH TABLE span_versions_of_spans"), deadline_s=60.0)
    await world.send([SentSpan(2, 2, NOW_US - 9 * DAY_US)], is_settled=False)
    await world.store.execute(Statement("ATTACH TABLE span_versions_of_spans"), deadline_s=60.0)

    with world.freeing_at_once():
        await world.run(KeepRules(max_age_days=3.0))

    assert await world.rows() == 1
    assert await world.rows("span_arrivals") == 1


async def test_few_dead_rows_wait_and_whole_parts_do_not(world: RetentionWorld) -> None:
    """All of one month, so of one partition."""
    young = [SentSpan(trace, trace, NOW_US - trace) for trace in range(1, 20)]
    await world.send([*young, SentSpan(30, 30, NOW_US - 5 * DAY_US)])
    await world.send([SentSpan(31, 31, NOW_US - 5 * DAY_US)])

    await world.run(KeepRules(max_age_days=3.0))
    assert len(await read_all(world)) == 19
    assert await world.rows() == 20

    with world.freeing_at_once():
        await world.run()
    assert await world.rows() == 19


async def test_server_frees_rows_like_the_embedded_engine(
    http_settings: Callable[[], ClickHouseSettings], database: Database, tmp_path: Path
) -> None:
    """By a rewrite, because one part has both."""
    configured = http_settings()
    await migrate(configured, data_dir=tmp_path)
    store = open_store(configured, data_dir=tmp_path)
    async with retention_world(store, database) as world:
        await world.send([SentSpan(1, 1, NOW_US - 5 * DAY_US), SentSpan(2, 2, NOW_US)])
        with world.freeing_at_once():
            await world.run(KeepRules(max_age_days=3.0))
        assert [await world.rows(table) for table in ("spans", "span_arrivals")] == [1, 1]
        assert await world.rows("span_versions") == 2
    await store.close()


async def test_deletions_are_counted(world: RetentionWorld) -> None:
    await world.send([SentSpan(1, 1, NOW_US - 9 * DAY_US), SentSpan(1, 2, NOW_US - 8 * DAY_US)])
    await world.send([SentSpan(1, 1, NOW_US - 9 * DAY_US)], partition_id=PARTITIONS[1])
    await world.send([SentSpan(2, 3, NOW_US)])
    size = sum(version.sent.bytes_count for version in world.model.visible().values() if version.sent.trace == 1)

    await world.run(KeepRules(max_age_days=3.0))
    await world.run()

    result = await world.records.find_result(world.project_id)
    assert result is not None
    assert (result.traces_total, result.spans_total, result.bytes_total) == (1, 2, size)
    assert (result.traces_count, result.spans_count) == (0, 0)
    assert result.ended_at is not None


@pytest.mark.parametrize("number", range(1, scaled(3, 5)))
async def test_rows_that_are_freed_between_the_statements_of_a_page_do_no_harm(
    world: RetentionWorld, number: int
) -> None:
    """The traces of one span each: the old ones go after the statement ``number`` has been sent."""
    young = [SentSpan(trace, trace, NOW_US - trace) for trace in range(1, 6)]
    await world.send([*young, *(SentSpan(trace, trace, NOW_US - 5 * DAY_US) for trace in range(11, 16))])
    between = InterveningStore(world.store)
    pages = SpanPages.over(between, project_id=world.project_id)
    reader = Reader(pages.context, project_id=world.project_id)

    async def intervene(statement: int) -> None:
        if statement == number:
            between.begin(None)
            await world.run(KeepRules(max_age_days=3.0))

    with world.freeing_at_once():
        between.begin(intervene)
        found = visible_versions(await pages.pages(windowing={"limit": 4}))
        assert {sent.key for sent in young} <= found.keys()
        assert await world.rows() == len(young)

        await world.send([SentSpan(trace, trace, NOW_US - 5 * DAY_US) for trace in range(21, 26)])
        between.begin(intervene)
        fed = [key_of(span) for span in await reader.rest(limit=3)]
        assert {sent.key for sent in young} <= set(fed)
        assert len(fed) == len(set(fed))
