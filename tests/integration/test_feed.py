"""The feed over the real engine: which spans a reader gets, in which order, each once. Tests call the handler as the
API does.
"""

from __future__ import annotations

import asyncio
import random
import time
from collections.abc import AsyncIterator, Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from common.clickhouse.connect import open_store
from common.clickhouse.migrate import migrate
from common.clickhouse.select import Table
from common.clickhouse.store import Statement
from common.errors import DeadlineExceeded, InvalidCursor, InvalidInput, Overloaded
from common.ids import DEFAULT_PROJECT_ID
from common.settings import ClickHouseSettings
from common.span import Span
from common.times import SystemClock, format_us
from query_api.request.context import ApiContext
from query_api.request.errors import InvalidRequest
from tests.support.api import context_of
from tests.support.feed import Reader, StoreInFront, settle, with_query_settings
from tests.support.scale import rest_is_long
from tests.support.span_corpus import OTHER_PROJECT_ID, START_NS, STORED_US, store_record

START_US = START_NS // 1_000
A, B = "cluster/spans/0", "cluster/spans/1"


@pytest.fixture
async def api(chdb_dir: Path, chdb_settings: Callable[[], ClickHouseSettings]) -> AsyncIterator[ApiContext]:
    configured = chdb_settings()
    await migrate(configured, data_dir=chdb_dir)
    store = open_store(configured, data_dir=chdb_dir)
    yield context_of(store=store, clock=SystemClock())
    await store.close()


def span(number: int, *, start_us: int = 0, trace: int = 1, **members: Any) -> Span:
    start_ns = START_NS + start_us * 1000
    return Span(
        trace_id=trace.to_bytes(16, "big"),
        span_id=number.to_bytes(8, "big") * 2,
        parent_id=bytes(15) + b"\1",
        start_ns=start_ns,
        end_ns=start_ns + 1_000_000,
        **{"name": f"s{number}", "kind": 1, "status_code": 0, "status_message": None, "attributes": {}, **members},
    )


async def stored(api: ApiContext, *numbers: int, offset: int, partition_id: str = A, **members: Any) -> None:
    """Store one record with these spans, and its position."""
    await store_record(
        api.store, [span(number, **members) for number in numbers], partition_id=partition_id, offset=offset
    )
    await settle(api.store, partition_id=partition_id, offset=offset)


async def somebody_waits(api: ApiContext) -> None:
    async with asyncio.timeout(60):
        while not api.stored.waiting_count:  # noqa: ASYNC110 - what is waited for is the effect of another call
            await asyncio.sleep(0.001)


async def test_feed_from_now_begins_with_an_empty_page_at_once(api: ApiContext) -> None:
    await stored(api, 1, 2, offset=3)
    reader = Reader(api)
    began_s = time.monotonic()

    page = await reader.page(**{"from": "now"}, wait_s=30)

    assert (page["spans"], "complete" in page) == ([], False)
    assert time.monotonic() - began_s < 25
    assert await reader.ids() == []


async def test_feed_from_now_returns_what_becomes_queryable_in_every_partition(api: ApiContext) -> None:
    await stored(api, 1, offset=3)
    await store_record(api.store, [span(2)], partition_id=A, offset=4)  # inserted, and not known to be stored
    reader = Reader(api)
    await reader.page(**{"from": "now"})

    await settle(api.store, partition_id=A, offset=4)
    await stored(api, 3, offset=0, partition_id=B)
    await stored(api, 1, offset=5)

    assert sorted(await reader.ids()) == [1, 2, 3]


async def test_feed_from_now_of_a_project_without_spans_misses_nothing(api: ApiContext) -> None:
    reader = Reader(api)
    await reader.page(**{"from": "now"})

    await stored(api, 1, 2, offset=0)

    assert await reader.ids() == [1, 2]


def at_us(time_us: int) -> dict[str, str]:
    return {"from": format_us(time_us)}


@pytest.mark.parametrize(("after_us", "expected"), [(-1, [1, 2, 3, 4, 5]), (10, [3, 4, 5]), (20, [5]), (21, [5])])
async def test_feed_from_a_time_returns_what_was_stored_after_it(
    api: ApiContext, after_us: int, expected: list[int]
) -> None:
    for partition_id, offset, stored_us, numbers in ((A, 0, 10, (1, 2)), (A, 1, 20, (3,)), (B, 0, 20, (4,))):
        await store_record(
            api.store,
            [span(number) for number in numbers],
            partition_id=partition_id,
            offset=offset,
            stored_us=START_US + stored_us,
        )
        await settle(api.store, partition_id=partition_id, offset=offset)
    reader = Reader(api)

    page = await reader.page(**at_us(START_US + after_us), limit=1)
    # A worker whose clock is behind: what becomes queryable is returned all the same.
    await store_record(api.store, [span(5)], partition_id="cluster/spans/2", offset=7, stored_us=START_US)
    await settle(api.store, partition_id="cluster/spans/2", offset=7)

    assert sorted([int(span["span_id"], 16) for span in page["spans"]] + await reader.ids()) == expected


async def test_feed_from_a_time_misses_nothing_of_an_insert_in_progress(api: ApiContext) -> None:
    """The part of a batch that is visible first may be the later one: the feed begins before what is not visible yet."""
    await stored(api, 1, offset=0)
    await store_record(api.store, [span(3)], partition_id=A, offset=2, stored_us=STORED_US + 1)
    reader = Reader(api)
    assert (await reader.page(**at_us(STORED_US)))["count"] == 0

    await store_record(api.store, [span(2)], partition_id=A, offset=1, stored_us=STORED_US + 1)
    await settle(api.store, partition_id=A, offset=2)

    assert await reader.ids() == [2, 3]


async def test_feed_from_a_relative_time_begins_before_now(api: ApiContext) -> None:
    await store_record(
        api.store, [span(1)], partition_id=A, offset=0, stored_us=time.time_ns() // 1_000 - 3_600_000_000
    )
    await stored(api, 2, offset=1, partition_id=A)
    await store_record(api.store, [span(3)], partition_id=A, offset=2, stored_us=time.time_ns() // 1_000)
    await settle(api.store, partition_id=A, offset=2)

    assert [span["span_id"] for span in (await Reader(api).page(**{"from": "-15m"}))["spans"]] == [f"{3:016x}"]
    assert (await Reader(api).page(**{"from": "-2h"}))["count"] == 3
    assert (await Reader(api).page(**{"from": "beginning"}))["count"] == 3


async def test_beginning_of_a_feed_is_rejected_with_a_cursor_and_elsewhere(api: ApiContext) -> None:
    reader = Reader(api)
    await reader.page(**{"from": "now"})
    with pytest.raises(InvalidInput, match=r"^windowing\.from: "):
        await reader.page(**{"from": "now"})
    with pytest.raises(InvalidInput, match=r"^windowing\.from: "):
        await Reader(api).page(**{"from": "now", "by": "start_time"})
    for text in ("later", "-1y", "1", ""):
        with pytest.raises(InvalidRequest):
            await Reader(api).page(**{"from": text})


async def test_feed_without_spans_is_an_empty_page_with_a_cursor(api: ApiContext) -> None:
    reader = Reader(api)
    assert (await reader.page())["spans"] == []

    await stored(api, 1, offset=0)

    assert await reader.ids() == [1]


async def test_feed_is_in_the_order_in_which_spans_became_queryable(api: ApiContext) -> None:
    await stored(api, 3, 1, offset=0, start_us=5)
    await stored(api, 2, offset=1, start_us=-9_000_000)
    reader = Reader(api)
    assert await reader.ids() == [3, 1, 2]

    await stored(api, 4, offset=0, partition_id=B, start_us=-1)
    await stored(api, 5, offset=2, start_us=-2)

    assert sorted(await reader.ids()) == [4, 5]
    assert await reader.ids() == []


async def test_feed_waits_until_an_insert_is_complete(api: ApiContext) -> None:
    """The part of a batch that is visible first may be its last: a reader that took it would never get the rest."""
    reader = Reader(api)
    await store_record(api.store, [span(2)], partition_id=A, offset=1)
    assert await reader.ids() == []

    await stored(api, 1, offset=0)
    assert await reader.ids() == [1]

    await settle(api.store, partition_id=A, offset=1)
    assert await reader.ids() == [2]


async def test_late_stored_position_takes_nothing_back(api: ApiContext) -> None:
    reader = Reader(api)
    await stored(api, 1, offset=0)
    await stored(api, 2, offset=1)
    assert await reader.ids() == [1, 2]

    await settle(api.store, partition_id=A, offset=0)

    assert await reader.ids() == []
    assert await Reader(api).ids() == [1, 2]


async def test_redelivered_record_is_not_returned_again(api: ApiContext) -> None:
    reader = Reader(api)
    await stored(api, 1, 2, offset=0)
    assert await reader.ids() == [1, 2]

    await store_record(api.store, [span(1), span(2)], partition_id=A, offset=0)
    await stored(api, 3, offset=1)

    assert await reader.ids() == [3]
    assert await Reader(api).ids() == [1, 2, 3]


async def test_new_version_is_returned_after_the_old_one(api: ApiContext) -> None:
    reader = Reader(api)
    await stored(api, 1, offset=0, name="old")
    assert [span["span_name"] for span in await reader.rest()] == ["old"]

    await stored(api, 1, offset=1, name="new", start_us=7)

    assert [span["span_name"] for span in await reader.rest()] == ["new"]
    assert [span["span_name"] for span in await Reader(api).rest()] == ["new"]


async def test_spans_after_replaced_versions_are_returned(api: ApiContext) -> None:
    await stored(api, 1, 2, 3, 4, offset=0)
    await stored(api, 1, 2, offset=1)

    assert await Reader(api).ids(limit=2) == [3, 4, 1, 2]


async def test_version_that_lost_to_another_partition_is_not_returned(api: ApiContext) -> None:
    await store_record(api.store, [span(1, name="later")], partition_id=B, offset=0, record_ms=2)
    await settle(api.store, partition_id=B, offset=0)
    reader = Reader(api)
    assert [span["span_name"] for span in await reader.rest()] == ["later"]

    await store_record(api.store, [span(1, name="earlier")], partition_id=A, offset=9, record_ms=1)
    await settle(api.store, partition_id=A, offset=9)

    assert await reader.rest() == []


async def test_span_twice_in_one_record_is_returned_once(api: ApiContext) -> None:
    await store_record(api.store, [span(1, name="first"), span(1, name="second"), span(2)], partition_id=A, offset=0)
    await settle(api.store, partition_id=A, offset=0)

    assert await Reader(api, windowing={"limit": 1}).ids() == [1, 2]


async def test_deletion_is_silent(api: ApiContext) -> None:
    reader = Reader(api)
    await stored(api, 1, 2, offset=0)
    delete = (
        f"INSERT INTO {Table.VERSIONS} (project_id, trace_id, span_id, partition_id, version, record_ms, start_us)"
        f" SELECT project_id, trace_id, span_id, partition_id, version + 1, record_ms, start_us FROM {Table.VERSIONS}"
        " WHERE span_id = unhex({span:String}) AND project_id = {project:UUID}"
    )
    values = {"span": (1).to_bytes(8, "big").hex() * 2, "project": str(DEFAULT_PROJECT_ID)}
    await api.store.execute(Statement(delete, values), deadline_s=60.0)

    assert await reader.ids() == [2]


async def test_record_of_3000_spans_spreads_over_pages_without_loss(api: ApiContext) -> None:
    await stored(api, *range(1, 3001), offset=0)
    await stored(api, 3001, offset=1)

    assert await Reader(api, windowing={"limit": 999}).ids() == list(range(1, 3002))


@pytest.mark.parametrize("seed", rest_is_long(range(3)))
async def test_pages_of_any_size_return_every_partition_once_in_order(api: ApiContext, seed: int) -> None:
    source = random.Random(seed)
    partition_ids = [f"cluster/spans/{number}" for number in range(source.choice((1, 3, 5)))]
    expected: dict[str, list[int]] = {partition_id: [] for partition_id in partition_ids}
    given: list[int] = []
    reader = Reader(api)
    number = 0
    for offset in range(12):
        partition_id = source.choice(partition_ids)
        numbers = list(range(number + 1, number + 1 + source.choice((1, 4, 23))))
        number = numbers[-1]
        await stored(api, *numbers, offset=offset * 3, partition_id=partition_id, start_us=source.randrange(-5, 5))
        expected[partition_id] += numbers
        if source.random() < 0.5:
            page = await reader.page(limit=source.choice((1, 5, 17)))
            given += [int(span["span_id"], 16) for span in page["spans"]]
    given += await reader.ids(limit=source.choice((1, 7, 1_000)))

    assert sorted(given) == list(range(1, number + 1))
    for numbers in expected.values():
        assert [number for number in given if number in set(numbers)] == numbers


async def test_a_page_also_ends_at_its_bytes(api: ApiContext) -> None:
    small = with_query_settings(api, page_bytes_max=2_000)
    await stored(api, *range(1, 8), offset=0)

    page = await Reader(small).page()

    assert 0 < page["count"] < 7
    assert await Reader(small).ids() == list(range(1, 8))


async def test_feed_returns_only_matches_and_passes_the_rest(api: ApiContext) -> None:
    await stored(api, *range(1, 200), offset=0)
    await stored(api, 200, offset=1, attributes={"wanted": 1})
    filtering = {"conditions": [{"field": "attributes", "key": "wanted", "value": 1}]}
    reader = Reader(api, windowing={"limit": 1}, filtering=filtering)

    assert await reader.ids() == [200]
    await stored(api, 201, 202, offset=2, attributes={"wanted": 1})
    assert await reader.ids() == [201, 202]


async def test_an_update_that_no_longer_matches_is_silent(api: ApiContext) -> None:
    filtering = {"conditions": [{"field": "attributes", "key": "wanted", "value": 1}]}
    reader = Reader(api, filtering=filtering)
    await stored(api, 1, offset=0, attributes={"wanted": 1})
    await stored(api, 1, offset=1, attributes={"wanted": 2})

    assert await reader.ids() == []


async def test_feed_excludes_oldest_and_includes_newest_start(api: ApiContext) -> None:
    for number in range(5):
        await stored(api, number + 1, offset=number, start_us=number)
    start_us = START_NS // 1000
    bounds = {"oldest": format_us(start_us + 1), "newest": format_us(start_us + 3)}

    assert await Reader(api, windowing=bounds).ids() == [3, 4]


async def test_a_rate_keeps_whole_traces(api: ApiContext) -> None:
    for number in range(1, 9):
        await stored(api, number, offset=number, trace=number << 96)  # the first four bytes are the number

    assert await Reader(api, windowing={"rate": 0.05}).ids() == [1, 2, 3, 4]


async def test_feed_returns_no_spans_of_another_project(api: ApiContext) -> None:
    await store_record(api.store, [span(1)], partition_id=A, offset=0, project_id=OTHER_PROJECT_ID)
    await settle(api.store, partition_id=A, offset=0, project_id=OTHER_PROJECT_ID)
    await settle(api.store, partition_id=A, offset=0)

    assert await Reader(api).ids() == []
    assert await Reader(api, project_id=OTHER_PROJECT_ID).ids() == [1]


async def test_feed_cursor_is_bound_to_project_filter_and_bounds(api: ApiContext) -> None:
    reader = Reader(api)
    await reader.page()

    for other in (
        Reader(api, project_id=OTHER_PROJECT_ID),
        Reader(api, filtering={"conditions": [{"field": "span_name", "value": "a"}]}),
        Reader(api, windowing={"newest": "2026-01-01T00:00:00Z"}),
        Reader(api, windowing={"rate": 0.5}),
    ):
        other.next = reader.next
        with pytest.raises(InvalidCursor):
            await other.page()


async def test_changed_cursor_is_rejected(api: ApiContext) -> None:
    await stored(api, 1, offset=0)
    reader = Reader(api)
    await reader.page()
    cursor = reader.next or ""

    for at in range(len(cursor)):
        reader.next = cursor[:at] + ("A" if cursor[at] != "A" else "B") + cursor[at + 1 :]
        with pytest.raises(InvalidCursor):
            await reader.page()


async def test_feed_order_is_absent_or_ascending(api: ApiContext) -> None:
    reader = Reader(api)
    await reader.page()
    await reader.page(order="ascending")

    with pytest.raises(InvalidInput, match=r"windowing\.order"):
        await reader.page(order="descending")


async def test_feed_has_the_limit_of_pages(api: ApiContext) -> None:
    await Reader(api).page(limit=10_000)
    with pytest.raises(InvalidRequest):
        await Reader(api).page(limit=10_001)


async def test_feed_continues_after_its_budget_of_rows_ended(api: ApiContext) -> None:
    await stored(api, *range(1, 400), offset=0)
    await stored(api, 400, offset=1, name="wanted")
    tight = with_query_settings(api, budget_rows=100)
    reader = Reader(
        tight, windowing={"limit": 1}, filtering={"conditions": [{"field": "span_name", "value": "wanted"}]}
    )

    first = await reader.page()

    assert (first["count"], first["complete"]) == (0, False)
    assert await reader.ids() == [400]


class TiringStore(StoreInFront):
    """An engine that has time for one read of arrivals, but not for a second."""

    has_given = False

    async def select(self, statement: Statement, /, *, deadline_s: float) -> pa.Table:
        if "span_arrivals" in statement.sql:
            if self.has_given:
                raise DeadlineExceeded
            self.has_given = True
        return await super().select(statement, deadline_s=deadline_s)


async def test_feed_returns_what_was_found_before_the_budget_ended(api: ApiContext) -> None:
    await stored(api, 1, offset=0, name="wanted")
    await stored(api, *range(2, 100), offset=1)
    await stored(api, 100, offset=2, name="wanted")
    filtering = {"conditions": [{"field": "span_name", "value": "wanted"}]}
    reader, rest = (
        Reader(replace(api, store=TiringStore(api.store)), filtering=filtering),
        Reader(api, filtering=filtering),
    )

    page = await reader.page(limit=2)
    with pytest.raises(DeadlineExceeded):
        await reader.page(limit=2)
    rest.next = reader.next

    assert ([span["span_name"] for span in page["spans"]], page["complete"]) == (["wanted"], False)
    assert await rest.ids() == [100]


async def test_waiting_request_wakes_at_once_and_runs_no_statements(api: ApiContext) -> None:
    proxy = StoreInFront(api.store)
    waiting_api = replace(api, store=proxy)
    reader = Reader(waiting_api)
    await reader.page()
    waiting = asyncio.create_task(reader.page(wait_s=30))
    await somebody_waits(api)
    before = proxy.selects_count
    await asyncio.sleep(0.3)
    assert proxy.selects_count == before

    await store_record(api.store, [span(1)], partition_id=A, offset=0)
    announced = await settle(api.store, partition_id=A, offset=0)
    began_s = time.monotonic()
    api.stored.learn([announced])
    page = await waiting

    assert page["count"] == 1
    assert time.monotonic() - began_s < 8  # about 10 ms on an idle machine; without news ten seconds


async def test_request_keeps_waiting_if_new_spans_do_not_match(api: ApiContext) -> None:
    reader = Reader(api, filtering={"conditions": [{"field": "span_name", "value": "s2"}]})
    waiting = asyncio.create_task(reader.page(wait_s=30))
    for number in (1, 2):
        await somebody_waits(api)
        assert not waiting.done()
        await store_record(api.store, [span(number)], partition_id=A, offset=number)
        api.stored.learn([await settle(api.store, partition_id=A, offset=number)])
        await asyncio.sleep(0)

    assert [span["span_name"] for span in (await waiting)["spans"]] == ["s2"]


async def test_wait_without_new_spans_returns_an_empty_page(api: ApiContext) -> None:
    reader = Reader(api)
    began_s = time.monotonic()

    page = await reader.page(wait_s=0.2)

    assert (page["count"], "complete" in page) == (0, False)
    assert time.monotonic() - began_s >= 0.2


async def test_requests_beyond_the_waiting_limit_are_rejected(api: ApiContext) -> None:
    few = with_query_settings(api, waiting_max=1, queue_s=0.05)
    waiting = asyncio.create_task(Reader(few).page(wait_s=5))
    await somebody_waits(api)

    with pytest.raises(Overloaded):
        await Reader(few).page(wait_s=5)
    assert (await Reader(few).page())["count"] == 0

    waiting.cancel()
    await asyncio.wait({waiting})
    assert api.stored.waiting_count == 0
