"""Responses while a producer sends spans again: nothing is lost or returned twice (contract §3.3).

New versions are stored between the statements of a request, and the engine may merge the earlier rows away at once.
"""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import AsyncIterator, Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any
from uuid import uuid4

import aiohttp
import pytest

from common.clickhouse.connect import open_store
from common.clickhouse.migrate import migrate
from common.clickhouse.store import Statement
from common.clickhouse.stored_through import STORED_THROUGH_TABLE, positions_table
from common.ids import DEFAULT_PROJECT_ID
from common.settings import ClickHouseSettings
from common.span import Span
from common.stored_position import StoredPosition
from common.times import SystemClock, format_us
from tests.fakes.intervening_store import InterveningStore
from tests.support.api import context_of, serving
from tests.support.scale import rest_is_long
from tests.support.span_corpus import START_NS, store_record

START_US = START_NS // 1000
LOG = "cluster/spans/0"
TRACES, SPANS_PER_TRACE = 4, 3
MATCHING = {"conditions": [{"field": "span_name", "operator": "is", "value": "m"}]}
EVERYTHING: dict[str, Any] = {"conditions": []}
WINDOW = {"oldest": format_us(START_US), "newest": format_us(START_US + 3_600_000_000)}
MERGES = ["rows stay", "rows are merged away", "versions come later"]


def span(trace: int, number: int, *, name: str = "m") -> Span:
    """Return a span; consecutive spans belong to different traces."""
    start_ns = START_NS + (number * 100 + trace) * 1_000
    used = {"ag.session.id": f"s{trace}", "ag.user.id": f"u{trace}", "ag.metrics.tokens.incremental.total": 1}
    return Span(
        trace_id=trace.to_bytes(16, "big"),
        span_id=(trace * 100 + number).to_bytes(8, "big") * 2,
        parent_id=None if number == 1 else (trace * 100 + 1).to_bytes(8, "big") * 2,
        name=name,
        kind=1,
        start_ns=start_ns,
        end_ns=start_ns + 1_000,
        status_code=0,
        status_message=None,
        attributes=used,
    )


SPANS = [span(trace, number) for trace in range(1, TRACES + 1) for number in range(1, SPANS_PER_TRACE + 1)]

EARLIEST = [span(trace, 1) for trace in range(1, TRACES + 1)]
LATEST = [span(trace, SPANS_PER_TRACE) for trace in range(1, TRACES + 1)]
"""Return the span of each trace that decides its position, and that of its session in real time."""


@dataclass
class Stack:
    """The API over a store in which spans are sent again."""

    client: aiohttp.ClientSession
    store: InterveningStore
    merges: str = MERGES[0]
    offset: int = 0
    sending: asyncio.Lock = field(default_factory=asyncio.Lock)

    async def begin(self, merges: str, again: Sequence[Span], *, first: int = 0, every: int = 1) -> None:
        """Store all spans; send some of them again before the ``first`` statement, and regularly after it."""
        await self.send(SPANS)
        self.merges = merges

        async def send_again(number: int) -> None:
            if number >= first and (number - first) % every == 0:
                await self.send(again)

        self.store.begin(send_again)

    async def send(self, spans: Sequence[Span], *, partition_id: str = LOG) -> None:
        """Store the next record of a partition, as a worker does."""
        async with self.sending:
            offset, self.offset = self.offset, self.offset + 1
            if self.merges == "versions come later":
                await self.execute("DETACH TABLE span_versions_of_spans")
            sent = [span._replace(attributes={**span.attributes, "version": offset}) for span in spans]
            await store_record(self.store, sent, offset=offset, partition_id=partition_id, record_ms=offset)
            if self.merges == "versions come later":
                await self.execute("ATTACH TABLE span_versions_of_spans")
            else:
                settled = positions_table([StoredPosition(DEFAULT_PROJECT_ID, partition_id, offset, offset, 0)])
                await self.store.insert(STORED_THROUGH_TABLE, settled, dedup_token=str(uuid4()), deadline_s=60.0)
            if self.merges != "rows stay":
                await self.execute("OPTIMIZE TABLE spans FINAL")

    async def execute(self, sql: str) -> None:
        await self.store.execute(Statement(sql), deadline_s=60.0)

    async def ask(self, path: str, **body: Any) -> Any:
        async with self.client.post(path, json=body) as response:
            assert response.status == 200, await response.text()
            return await response.json()

    async def get(self, path: str) -> Any:
        async with self.client.get(path) as response:
            assert response.status == 200, await response.text()
            return await response.json()

    async def read_pages(
        self, path: str, ids: Callable[[Any], list[Any]], *, windowing: dict[str, Any], **body: Any
    ) -> list[Any]:
        """Return the items of all pages, in order."""
        found: list[Any] = []
        following: dict[str, Any] = {}
        while True:
            page = await self.ask(path, windowing={**windowing, **following}, **body)
            found += ids(page)
            if "windowing" not in page:
                return found
            following = {"next": page["windowing"]["next"]}


@pytest.fixture
async def stack(chdb_dir: Path, chdb_settings: Callable[[], ClickHouseSettings]) -> AsyncIterator[Stack]:
    configured = chdb_settings()
    await migrate(configured, data_dir=chdb_dir)
    store = InterveningStore(open_store(configured, data_dir=chdb_dir))
    async with serving(context_of(store=store, clock=SystemClock())) as client:
        yield Stack(client, store)
    await store.close()


def span_ids(page: Any) -> list[str]:
    return [span["span_id"] for span in page["spans"]]


def shown_id(span: Span) -> str:
    return span.span_id[:8].hex()


def sizes(page: Any) -> list[tuple[int, int]]:
    """Return each trace of a page with its number of spans."""
    return [(int(trace["trace_id"], 16), count(trace["spans"])) for trace in page["traces"]]


def count(tree: Any) -> int:
    """Return the number of spans in a tree."""
    siblings = [node for entry in tree.values() for node in (entry if isinstance(entry, list) else [entry])]
    return sum(1 + count(sibling.get("spans") or {}) for sibling in siblings)


def in_order(order: str, ascending: Sequence[Any]) -> list[Any]:
    return list(ascending if order == "ascending" else reversed(ascending))


each_order_and_merge = pytest.mark.parametrize(
    ("order", "merges"),
    [
        pytest.param(order, merges, id=f"{merges}-{order}", marks=() if in_short_run else pytest.mark.long)
        for index, merges in enumerate(MERGES)
        for order, in_short_run in (("ascending", index % 2 == 0), ("descending", index % 2 == 1))
    ],
)
each_filter = pytest.mark.parametrize("filtering", rest_is_long([MATCHING, EVERYTHING]), ids=["filtered", "all"])


@each_order_and_merge
@each_filter
async def test_pages_of_spans_return_resent_spans_once(
    stack: Stack, order: str, merges: str, filtering: dict[str, Any]
) -> None:
    await stack.begin(merges, SPANS)

    found = await stack.read_pages(
        "/spans/query", span_ids, filtering=filtering, windowing={"order": order, "limit": 4}
    )

    assert found == in_order(order, [shown_id(span) for span in sorted(SPANS, key=lambda span: span.start_ns)])


@each_order_and_merge
@pytest.mark.parametrize(
    ("again", "first"),
    [
        pytest.param(SPANS, 0, id="all"),
        pytest.param(LATEST, 4, id="latest, after the first page", marks=pytest.mark.long),
    ],
)
async def test_pages_of_traces_return_resent_spans_once(
    stack: Stack, order: str, merges: str, again: Sequence[Span], first: int
) -> None:
    await stack.begin(merges, again, first=first)

    found = await stack.read_pages("/traces/query", sizes, filtering=MATCHING, windowing={"order": order, "limit": 2})

    assert found == in_order(order, [(trace, SPANS_PER_TRACE) for trace in range(1, TRACES + 1)])


@each_order_and_merge
@pytest.mark.parametrize(
    ("kind", "realtime", "again"),
    [
        pytest.param("session", True, LATEST, id="latest"),
        pytest.param("user", False, EARLIEST, id="earliest", marks=pytest.mark.long),
    ],
)
async def test_pages_of_ids_return_resent_spans_once(
    stack: Stack, order: str, merges: str, kind: str, realtime: bool, again: Sequence[Span]
) -> None:
    await stack.begin(merges, again, first=2)  # after the first page

    found = await stack.read_pages(
        f"/spans/{kind}s/query",
        lambda page: page[f"{kind}_ids"],
        filtering=MATCHING,
        realtime=realtime,
        windowing={"order": order, "limit": 2},
    )

    assert found == in_order(order, [f"{kind[0]}{trace}" for trace in range(1, TRACES + 1)])


@pytest.mark.parametrize("merges", rest_is_long(MERGES[::-1]))
async def test_spans_and_traces_by_id_return_resent_spans_once(stack: Stack, merges: str) -> None:
    await stack.begin(merges, SPANS)

    trace_id, span_id = f"{1:032x}", shown_id(SPANS[0])
    assert (await stack.get(f"/spans/{trace_id}/{span_id}"))["count"] == 1
    assert (await stack.get(f"/spans/?trace_id={trace_id}"))["count"] == SPANS_PER_TRACE
    assert count((await stack.get(f"/traces/{trace_id}"))["trace"]["spans"]) == SPANS_PER_TRACE
    assert (await stack.get(f"/simple/traces/{trace_id}"))["count"] == 1
    assert (await stack.ask("/simple/traces/query"))["count"] == TRACES


@pytest.mark.parametrize("merges", rest_is_long(MERGES[1:] + MERGES[:1]))
@pytest.mark.parametrize("filtering", [MATCHING, EVERYTHING], ids=["filtered", "all"])
async def test_analytics_count_resent_spans_once(stack: Stack, merges: str, filtering: dict[str, Any]) -> None:
    await stack.begin(merges, SPANS)

    for _ in range(2):
        body = {"filtering": filtering, "windowing": WINDOW}
        [bucket] = (await stack.ask("/tracing/spans/analytics", **body, focus="span"))["buckets"]
        assert bucket["total"]["count"] == len(SPANS)
        [metrics] = (await stack.ask("/spans/analytics/query", **body, focus="span"))["buckets"]
        assert {value["count"] for value in metrics["metrics"].values() if value} == {len(SPANS)}


@pytest.mark.parametrize("merges", rest_is_long(MERGES[:2]))
async def test_feed_returns_each_version_once_and_the_last_of_each_span(stack: Stack, merges: str) -> None:
    await stack.begin(merges, SPANS, every=3)
    following: dict[str, Any] = {"by": "created_at", "limit": 10}
    given: list[tuple[str, str]] = []
    for number in range(24):
        if number == 8:
            stack.store.begin(None)
        page = await stack.ask("/spans/query", windowing=following, filtering=MATCHING)
        given += [(span["span_id"], span["attributes"]["version"]) for span in page["spans"]]
        following |= page["windowing"]
    last = max(version for _, version in given)

    assert len(given) == len(set(given))
    assert {span_id for span_id, version in given if version == last} == {shown_id(span) for span in SPANS}


async def test_version_that_no_longer_matches_is_not_returned(stack: Stack) -> None:
    await stack.begin("rows stay", [span._replace(name="other") for span in SPANS[::2]], every=2)

    found = await stack.read_pages("/spans/query", span_ids, filtering=MATCHING, windowing={"limit": 4})

    assert len(found) == len(set(found))
    assert set(found) >= {shown_id(span) for span in SPANS[1::2]}
    assert Counter(found).keys() <= {shown_id(span) for span in SPANS}
