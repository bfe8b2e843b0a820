"""Groups of spans that were sent again, moved, deleted or delivered twice, before and after the engine merges them:
the same spans as on the pages, in the minutes in which they are there."""

from __future__ import annotations

from collections import Counter
from collections.abc import AsyncIterator, Awaitable, Callable
from itertools import cycle
from typing import Any

import aiohttp
import pytest

from common.clickhouse.store import ColumnStore, Statement
from common.span import Span
from common.span_version import version_of
from common.times import SystemClock, format_us
from tests.support.api import context_of, post_json, serving
from tests.support.deleting import delete
from tests.support.span_corpus import START_NS, store_record

MINUTE_US = 60_000_000
START_US = START_NS // 1_000 // MINUTE_US * MINUTE_US
SPANS_COUNT = 40
MOVED_MINUTES = 7
OTHER_PARTITION = "cluster/spans/1"


def spans_of(*numbers: int, later_us: int = 0, name: str = "first") -> list[Span]:
    """Four spans a trace; two traces start in each minute, at the same microseconds."""
    return [
        Span(
            trace_id=(1 + number // 4).to_bytes(16, "big"),
            span_id=(1 + number).to_bytes(16, "big"),
            parent_id=None,
            start_ns=start_us * 1_000,
            end_ns=start_us * 1_000 + 5_000_000,
            name=name,
            kind=1,
            status_code=0,
            status_message=None,
            attributes={},
        )
        for number in numbers
        for start_us in [START_US + number // 8 * MINUTE_US + number % 4 * 1_000 + later_us]
    ]


async def _sent_again(store: ColumnStore) -> None:
    await store_record(store, spans_of(3, 4, 17, name="again"), offset=2)


async def _sent_within_a_minute(store: ColumnStore) -> None:
    await store_record(store, spans_of(3, 4, 17, later_us=1_000, name="again"), offset=2)


async def _moved_to_another_minute(store: ColumnStore) -> None:
    await store_record(store, spans_of(3, 4, 17, later_us=MOVED_MINUTES * MINUTE_US, name="again"), offset=2)


async def _moved_twice(store: ColumnStore) -> None:
    await _moved_to_another_minute(store)
    await store_record(store, spans_of(4, later_us=-MINUTE_US, name="third"), offset=3)


async def _moved_in_another_partition(store: ColumnStore) -> None:
    again = spans_of(3, 4, 17, later_us=MINUTE_US, name="again")
    await store_record(store, again, partition_id=OTHER_PARTITION, offset=0, record_ms=2)


async def _late_from_another_partition(store: ColumnStore) -> None:
    again = spans_of(3, 4, 17, later_us=MINUTE_US, name="again")
    await store_record(store, again, partition_id=OTHER_PARTITION, offset=9, record_ms=0)


async def _delivered_twice(store: ColumnStore) -> None:
    await store_record(store, spans_of(*range(SPANS_COUNT)), offset=1)


async def _deleted(store: ColumnStore) -> None:
    for span in spans_of(3, 4, 17):
        await delete(store, span)


async def _moved_then_deleted(store: ColumnStore) -> None:
    await _moved_to_another_minute(store)
    await delete(store, spans_of(4)[0])


async def _deleted_then_sent_again(store: ColumnStore) -> None:
    await _deleted(store)
    await store_record(store, spans_of(4, later_us=MINUTE_US, name="again"), offset=3)


CHANGES = [
    _sent_again,
    _sent_within_a_minute,
    _moved_to_another_minute,
    _moved_twice,
    _moved_in_another_partition,
    _late_from_another_partition,
    _delivered_twice,
    _deleted,
    _moved_then_deleted,
    _deleted_then_sent_again,
]
MERGED = [("span_versions", "spans"), ("spans", "span_versions")]
WINDOWS = [
    {},
    {"oldest": format_us(START_US + MINUTE_US // 2), "newest": format_us(START_US + 3 * MINUTE_US)},
    {"oldest": format_us(START_US + 2 * MINUTE_US), "newest": format_us(START_US + 2 * MINUTE_US + 2_000)},
]
COUNTED = {"group_by": ["span_name"], "interval": "1m"}


@pytest.fixture
async def client(store: ColumnStore) -> AsyncIterator[aiohttp.ClientSession]:
    async with serving(context_of(store=store, clock=SystemClock())) as opened:
        yield opened


async def _of_pages(client: aiohttp.ClientSession, window: Any) -> Counter[tuple[str, str]]:
    page = await post_json(client, "/spans/query", {"windowing": {**window, "limit": 10_000}})
    return Counter((span["span_name"], span["start_time"][:16]) for span in page["spans"])


async def _of_groups(client: aiohttp.ClientSession, window: Any) -> Counter[tuple[str, str]]:
    response = await post_json(client, "/spans/groups/query", {**COUNTED, "windowing": window})
    assert response["complete"] is True
    return Counter(
        {(group["by"]["span_name"], group["at"][:16]): group["values"]["count"] for group in response["groups"]}
    )


@pytest.mark.parametrize(("change", "merged"), list(zip(CHANGES, cycle(MERGED), strict=False)))
async def test_groups_count_the_spans_of_the_pages(
    store: ColumnStore,
    client: aiohttp.ClientSession,
    change: Callable[[ColumnStore], Awaitable[None]],
    merged: tuple[str, ...],
) -> None:
    await store_record(store, spans_of(*range(SPANS_COUNT)), offset=1)
    await change(store)

    for window in WINDOWS:
        assert await _of_groups(client, window) == await _of_pages(client, window)
    for table in merged:
        await store.execute(Statement(f"OPTIMIZE TABLE {table} FINAL"), deadline_s=60.0)
        for window in WINDOWS:
            assert await _of_groups(client, window) == await _of_pages(client, window)


async def test_span_without_its_version_does_not_count_beside_the_one_before(
    store: ColumnStore, client: aiohttp.ClientSession
) -> None:
    """An insert reaches ``spans`` a moment before ``span_versions``."""
    await store_record(store, spans_of(*range(SPANS_COUNT)), offset=1)
    await store_record(store, spans_of(3, 4, later_us=MINUTE_US, name="again"), offset=2)
    await store.execute(
        Statement(f"ALTER TABLE span_versions DELETE WHERE version = {version_of(2)}", {}, {"mutations_sync": 1}),
        deadline_s=60.0,
    )

    counted = await _of_groups(client, {})

    assert sum(counted.values()) == SPANS_COUNT
    assert {name for name, _ in counted} == {"first"}


async def test_each_shard_finds_its_doubtful_traces(divided: ColumnStore) -> None:
    await store_record(divided, spans_of(*range(SPANS_COUNT)), offset=1)
    await _moved_then_deleted(divided)
    await _moved_in_another_partition(divided)

    async with serving(context_of(store=divided, clock=SystemClock())) as client:
        for window in WINDOWS:
            assert await _of_groups(client, window) == await _of_pages(client, window)
