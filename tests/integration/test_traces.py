"""Traces over the real engine: pages compared with a model, deletions; by the HTTP API."""

from __future__ import annotations

import asyncio
import random
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from uuid import UUID, uuid4

import aiohttp
import orjson
import pyarrow as pa
import pytest

from common.clickhouse.connect import open_store
from common.clickhouse.migrate import migrate
from common.clickhouse.store import ColumnStore, Statement
from common.clickhouse.stored_attributes import LEAF_TEXTS
from common.clickhouse.stored_through import STORED_THROUGH_TABLE, positions_table
from common.errors import DeadlineExceeded
from common.settings import ClickHouseSettings, QuerySettings, Settings
from common.span import Span
from common.stored_position import StoredPosition
from common.times import Clock, SystemClock, format_us
from query_api.request.context import ApiContext
from query_api.request.limits import Limits
from tests.fakes.clock import ManualClock
from tests.fakes.rowless_store import RowlessStore
from tests.support.api import PATIENT, KnownKeys, context_of, serving
from tests.support.scale import rest_is_long
from tests.support.span_corpus import START_NS, store_record, store_year

START_US = START_NS // 1000
LOG = "cluster/spans/0"


@dataclass
class Traces:
    """The API over a separate store. Each call stores one record of one partition."""

    context: ApiContext
    client: aiohttp.ClientSession
    projects: Mapping[str, UUID]
    """Projects by their keys, ``one`` and ``other``; no other test uses them, because tests share the tables."""

    offset: int = 0

    @property
    def store(self) -> ColumnStore:
        return self.context.store

    async def ingest(self, *spans: Span, partition_id: str = LOG, record_ms: int = 1, settled: bool = True) -> int:
        """Store spans as the next record, and its position unless ``settled`` is false."""
        offset, self.offset = self.offset, self.offset + 1
        await self.deliver(spans, partition_id=partition_id, offset=offset, record_ms=record_ms)
        if settled:
            self.context.stored.learn([StoredPosition(self.projects["one"], partition_id, offset, record_ms, 0)])
        return offset

    async def deliver(
        self, spans: Sequence[Span], *, partition_id: str = LOG, offset: int = 0, record_ms: int = 1, key: str = "one"
    ) -> None:
        """Store spans as this record."""
        project_id = self.projects[key]
        await store_record(
            self.store, spans, partition_id=partition_id, offset=offset, record_ms=record_ms, project_id=project_id
        )

    async def call(self, method: str, path: str, *, key: str = "one", status: int = 200, **sent: Any) -> Any:
        headers = {"Authorization": f"ApiKey {key}"}
        async with self.client.request(method, path, headers=headers, **sent) as response:
            body = orjson.loads(await response.read())
            assert response.status == status, body
            return body

    async def query(self, *, key: str = "one", status: int = 200, **body: Any) -> Any:
        return await self.call("POST", "/traces/query", key=key, status=status, json=body)

    async def numbers(self, **body: Any) -> list[int]:
        return numbers_of(await self.query(**body))


def numbers_of(page: Mapping[str, Any]) -> list[int]:
    assert page["count"] == len(page["traces"])
    return [int(trace["trace_id"], 16) for trace in page["traces"]]


@asynccontextmanager
async def traces_over(
    store: ColumnStore, *, clock: Clock | None = None, limits: Limits | None = None, **query: Any
) -> AsyncIterator[Traces]:
    settings = Settings(auth="on", query=QuerySettings(**{**PATIENT.model_dump(), **query}))
    projects = {"one": uuid4(), "other": uuid4()}
    context = context_of(
        store=store, clock=clock or SystemClock(), settings=settings, keys=KnownKeys(projects), limits=limits
    )
    async with serving(context) as client:
        yield Traces(context, client, projects)


@pytest.fixture(scope="module")
def database(chdb_dir: Path, chdb_settings: Callable[[], ClickHouseSettings]) -> ClickHouseSettings:
    """One database for all tests here: each has its own projects."""
    configured = chdb_settings()
    asyncio.run(migrate(configured, data_dir=chdb_dir))
    return configured


@pytest.fixture
async def store(database: ClickHouseSettings, chdb_dir: Path) -> AsyncIterator[ColumnStore]:
    store = open_store(database, data_dir=chdb_dir)
    yield store
    await store.close()


@pytest.fixture
async def api(store: ColumnStore) -> AsyncIterator[Traces]:
    async with traces_over(store) as traces:
        yield traces


def span(number: int, *, trace: int = 1, parent: int | None = None, at: int = 0, **members: Any) -> Span:
    """Return a span that starts ``at`` microseconds after the start of the test data."""
    start_ns = START_NS + at * 1000
    return Span(
        trace_id=trace.to_bytes(16, "big"),
        span_id=number.to_bytes(8, "big") * 2,
        parent_id=None if parent is None else parent.to_bytes(8, "big") * 2,
        start_ns=start_ns,
        end_ns=start_ns + 1_000_000,
        **{"name": f"s{number}", "kind": 1, "status_code": 0, "status_message": None, "attributes": {}, **members},
    )


def at(us: int) -> str:
    return format_us(START_US + us)


def named(name: str) -> dict[str, Any]:
    return {"conditions": [{"field": "span_name", "operator": "is", "value": name}]}


async def test_project_without_spans_has_an_empty_page(api: Traces) -> None:
    assert await api.query() == {"count": 0, "traces": []}


async def test_trace_is_returned_whole_if_one_span_matches(api: Traces) -> None:
    await api.ingest(span(1), span(2, parent=1, name="found"), span(3, parent=2), span(9, trace=2))

    page = await api.query(filtering=named("found"))

    [trace] = page["traces"]
    assert list(trace["spans"]) == ["s1"]
    assert list(trace["spans"]["s1"]["spans"]) == ["found"]
    assert list(trace["spans"]["s1"]["spans"]["found"]["spans"]) == ["s3"]
    assert trace == (await api.call("GET", f"/traces/{trace['trace_id']}"))["trace"]


async def test_traces_are_ordered_by_the_start_of_their_latest_match(api: Traces) -> None:
    await api.ingest(span(1, trace=1, at=1, name="m"), span(2, trace=1, at=9), span(3, trace=1, at=3, name="m"))
    await api.ingest(span(1, trace=2, at=2, name="m"), span(2, trace=2, at=4, name="m"), span(1, trace=3, at=8))

    assert await api.numbers(filtering=named("m")) == [2, 1]
    assert await api.numbers(filtering=named("m"), windowing={"order": "ascending"}) == [1, 2]
    assert await api.numbers() == [1, 3, 2]


@pytest.mark.parametrize("order", ["descending", "ascending"])
async def test_window_of_traces_includes_oldest_and_excludes_newest(api: Traces, order: str) -> None:
    await api.ingest(*(span(1, trace=number, at=number) for number in range(1, 6)), span(2, trace=5, at=3))

    found = await api.query(windowing={"oldest": at(2), "newest": at(4), "order": order})

    assert sorted(numbers_of(found)) == [2, 3, 5]
    [whole] = [trace for trace in found["traces"] if trace["trace_id"].endswith("5")]
    assert list(whole["spans"]) == ["s2", "s1"]


@pytest.mark.parametrize("order", ["descending", "ascending"])
@pytest.mark.parametrize("limit", rest_is_long([4, 1]))
async def test_pages_return_every_trace_once_by_its_latest_match(api: Traces, order: str, limit: int) -> None:
    """Ties in time, spans that share ids, unmerged duplicates, versions that moved, other partitions, other projects."""
    source = random.Random(f"{order} {limit}")
    visible = {
        (trace, number): span(number, trace=trace, at=source.randrange(9), name=source.choice("mn"))
        for trace in range(1, 14)
        for number in range(1, source.randrange(2, 8))
    }
    older = [
        value._replace(start_ns=value.start_ns + source.randrange(-9, 9) * 1000, name="m") for value in visible.values()
    ]
    await api.ingest(*older, record_ms=1)
    await api.ingest(*source.sample(older, 30), partition_id="cluster/spans/1", record_ms=0)
    again = await api.ingest(*visible.values(), record_ms=2)
    await api.deliver(list(visible.values()), offset=again, record_ms=2)
    await api.deliver(older, key="other")

    found = await read_pages(api, limit=limit, order=order, filtering=named("m"))

    assert found == expected_order(visible.values(), order)


@pytest.mark.parametrize("order", rest_is_long(["descending", "ascending"]))
async def test_matches_outside_the_bounds_do_not_move_a_trace(api: Traces, order: str) -> None:
    inside = [span(1, trace=trace, at=trace, name="m") for trace in range(1, 41)]
    outside = [span(2 + late, trace=trace, at=90 * late, name="m") for trace in range(1, 41) for late in (0, 1)]
    await api.ingest(*inside, *outside)

    found = await read_pages(api, limit=1, order=order, filtering=named("m"), oldest=at(1), newest=at(90))

    assert found == expected_order(inside, order)


@pytest.mark.parametrize("order", rest_is_long(["descending", "ascending"]))
async def test_pages_return_every_trace_of_one_instant_once(api: Traces, order: str) -> None:
    """More spans of a trace, and more traces, start together than a round reads."""
    few = [span(number, trace=trace, name="m") for trace in range(1, 60) for number in range(1, 8)]
    many = [span(number, trace=30, name="m") for number in range(100, 200)]
    around = [span(1, trace=trace, name="m", at=trace - 61) for trace in (60, 62)]
    await api.ingest(*few, *many, *around)

    found = await read_pages(api, limit=7, order=order, filtering=named("m"))

    assert found == expected_order([*few, *many, *around], order)


@pytest.mark.parametrize("order", rest_is_long(["ascending", "descending"]))
async def test_traces_after_an_instant_filled_by_one_trace_are_returned(api: Traces, order: str) -> None:
    many = [span(number, trace=2, at=2, name="m") for number in range(1, 100)]
    around = [span(1, trace=trace, at=trace, name="m") for trace in (1, 3)]
    await api.ingest(*many, *around)

    found = await read_pages(api, limit=3, order=order, filtering=named("m"))

    assert found == expected_order([*many, *around], order)


@pytest.mark.parametrize("order", rest_is_long(["descending", "ascending"]))
async def test_trace_with_more_stale_versions_than_a_round_is_returned(api: Traces, order: str) -> None:
    stored = [span(1, trace=trace, name="m") for trace in (1, 2, 3)]
    for number in range(40):
        await api.deliver(stored[1:2], partition_id=f"cluster/spans/{number}", record_ms=number * 7 % 41)
    await api.ingest(stored[0], stored[2])

    assert await read_pages(api, limit=1, order=order, filtering=named("m")) == expected_order(stored, order)


@pytest.mark.parametrize("order", rest_is_long(["ascending", "descending"]))
async def test_pages_return_every_trace_once_while_spans_arrive(api: Traces, order: str) -> None:
    """After each page, new spans would move traces from either side of the position to the other."""
    source = random.Random(order)
    stored = [
        span(number, trace=trace, at=source.randrange(100), name="m")
        for trace in range(1, 17)
        for number in range(1, 4)
    ]
    await api.ingest(*stored)
    numbers = iter(range(1_000, 1_040))

    async def others_ingest() -> None:
        for trace, number in zip(source.sample(range(1, 25), 8), numbers, strict=False):
            start = source.choice((source.randrange(100), 999))
            await api.ingest(span(number, trace=trace, at=start, name="m"), settled=source.random() < 0.5)

    found = await read_pages(api, limit=3, order=order, filtering=named("m"), between=others_ingest)

    assert [trace for trace in found if trace < 17] == expected_order(stored, order)


async def test_first_match_that_arrived_since_does_not_place_its_trace(api: Traces) -> None:
    stored = [span(1, trace=trace, at=start, name="m") for trace, start in ((1, 10), (2, 5), (3, 6))]
    await api.ingest(*stored)
    numbers = iter(range(100, 110))

    async def others_ingest() -> None:
        await api.ingest(span(next(numbers), trace=2, at=8, name="m"))

    found = await read_pages(api, limit=1, order="descending", filtering=named("m"), between=others_ingest)

    assert found == [1, 3, 2]


async def test_first_match_that_was_replaced_does_not_hide_its_trace(api: Traces) -> None:
    old = span(2, trace=1, at=9, name="m")
    others = [span(1, trace=trace, at=trace, name="m") for trace in range(2, 8)]
    await api.ingest(old, span(1, trace=1, at=4, name="m"), *others)
    await api.ingest(old._replace(name="n"), partition_id="cluster/spans/1", record_ms=2)

    found = await api.query(filtering=named("m"), windowing={"limit": 10})

    assert numbers_of(found) == [7, 6, 5, 4, 1, 3, 2]


@pytest.mark.parametrize("order", rest_is_long(["descending", "ascending"]))
async def test_unannounced_spans_of_the_first_page_are_returned_once(api: Traces, order: str) -> None:
    """The position is in the table, but its announcement was lost."""
    stored = [span(1, trace=trace, at=trace, name="m") for trace in (1, 2, 3)]
    offset = await api.ingest(*stored, settled=False)
    lost = [StoredPosition(api.projects["one"], LOG, offset, 1, 0)]
    await api.store.insert(STORED_THROUGH_TABLE, positions_table(lost), dedup_token=str(uuid4()), deadline_s=60.0)
    numbers = iter(range(100, 110))

    async def others_ingest() -> None:
        await api.ingest(span(next(numbers), trace=1, at=90, name="m"), span(next(numbers), trace=2, at=91, name="m"))

    found = await read_pages(api, limit=1, order=order, filtering=named("m"), between=others_ingest)

    assert found == expected_order(stored, order)


async def read_pages(
    api: Traces,
    *,
    limit: int,
    order: str,
    filtering: Mapping[str, Any],
    between: Callable[[], Any] | None = None,
    **bounds: str,
) -> list[int]:
    """Return every trace of all pages, in order."""
    found: list[int] = []
    following: dict[str, Any] = {}
    while True:
        page = await api.query(filtering=filtering, windowing={"limit": limit, "order": order, **bounds, **following})
        assert page["count"] <= limit
        found += numbers_of(page)
        if "windowing" not in page:
            return found
        assert page["count"] > 0
        following = page["windowing"]
        if between is not None:
            await between()


def expected_order(spans: Any, order: str) -> list[int]:
    """The model: traces by their latest match, then by id."""
    latest: dict[bytes, int] = {}
    for span in spans:
        if span.name == "m":
            latest[span.trace_id] = max(latest.get(span.trace_id, 0), span.start_ns)
    places = sorted(((start_ns, trace_id) for trace_id, start_ns in latest.items()), reverse=order == "descending")
    return [int.from_bytes(trace_id, "big") for _, trace_id in places]


TRACE = f"{1:032x}"


async def test_deleted_trace_is_returned_by_no_route(api: Traces) -> None:
    used = {"ag.session.id": "s", "ag.user.id": "u"}
    await api.ingest(span(1, attributes=used), span(2, parent=1, name="m"), span(1, trace=2))
    assert (await api.call("POST", "/spans/sessions/query", json={}))["session_ids"] == ["s"]

    assert await api.call("DELETE", f"/traces/{TRACE}", status=202) == {"count": 1, "trace_id": TRACE}

    assert await api.call("GET", f"/traces/{TRACE}") == {"count": 0}
    assert await api.call("GET", f"/spans/{TRACE}/{1:016x}") == {"count": 0}
    assert await api.call("GET", f"/spans/?trace_id={TRACE}") == {"count": 0, "spans": []}
    assert await api.numbers() == [2]
    assert (await api.call("POST", "/spans/query", json={}))["count"] == 1
    assert (await api.call("POST", "/spans/query", json={"windowing": {"by": "created_at"}}))["count"] == 1
    assert await api.query(filtering=named("m")) == {"count": 0, "traces": []}
    assert not (await api.call("POST", "/spans/sessions/query", json={}))["session_ids"]
    assert not (await api.call("POST", "/spans/users/query", json={}))["user_ids"]
    counted = (
        await api.call("POST", "/tracing/spans/analytics", json={"focus": "span", "oldest": at(-1), "newest": at(9)})
    )["buckets"]
    assert sum(bucket["total"]["count"] for bucket in counted) == 1


async def test_deleting_again_changes_nothing(api: Traces) -> None:
    await api.ingest(span(1))
    await api.call("DELETE", f"/traces/{TRACE}", status=202)

    assert await api.call("DELETE", f"/traces/{TRACE}", status=202) == {"count": 0}
    assert await api.call("DELETE", f"/tracing/traces/{TRACE}", status=202) == {"count": 0, "links": []}


async def test_redelivered_record_does_not_restore_a_deleted_trace(api: Traces) -> None:
    offset = await api.ingest(span(1))
    await api.deliver([span(1)], partition_id="cluster/spans/1", offset=70, record_ms=0)
    await api.call("DELETE", f"/traces/{TRACE}", status=202)

    await api.deliver([span(1)], offset=offset)
    await api.deliver([span(1)], partition_id="cluster/spans/1", offset=70, record_ms=0)

    assert await api.numbers() == []


async def test_new_record_restores_a_deleted_span(api: Traces) -> None:
    await api.ingest(span(1), span(2))
    await api.call("DELETE", f"/traces/{TRACE}", status=202)
    await api.ingest(span(2))

    [trace] = (await api.query())["traces"]
    assert list(trace["spans"]) == ["s2"]

    await api.call("DELETE", f"/traces/{TRACE}", status=202)
    assert await api.numbers() == []


async def test_deleting_touches_no_other_project(api: Traces) -> None:
    await api.deliver([span(1)], key="other")
    await api.ingest(span(1))

    await api.call("DELETE", f"/traces/{TRACE}", status=202)

    assert numbers_of(await api.query(key="other")) == [1]
    assert await api.numbers() == []


async def test_root_does_not_count_a_deleted_span_missing_from_a_new_record(api: Traces) -> None:
    used = {"ag.metrics.tokens.incremental.total": 5}
    await api.ingest(span(1, attributes=used), span(2, parent=1, attributes=used))
    await api.call("DELETE", f"/traces/{TRACE}", status=202)
    await api.ingest(span(1, attributes=used))

    [trace] = (await api.query())["traces"]

    assert trace["spans"]["s1"]["attributes"]["ag"]["metrics"]["tokens"]["cumulative"]["total"] == 5


@pytest.mark.parametrize(
    ("method", "path", "detail"),
    [
        ("DELETE", "/traces/xyz", "Invalid trace_id"),
        ("GET", "/traces/xyz", "Invalid trace_id."),
        ("GET", "/traces/?trace_id=xyz", "Invalid trace_id."),
        ("GET", "/traces/?trace_ids=%20,", "At least one trace_id query parameter is required."),
        ("GET", "/traces/", "At least one trace_id query parameter is required."),
        ("GET", "/tracing/traces/xyz", "Invalid trace_id."),
        ("DELETE", "/tracing/traces/xyz", "Invalid trace_id."),
    ],
)
async def test_malformed_id_is_400(api: Traces, method: str, path: str, detail: str) -> None:
    assert await api.call(method, path, status=400) == {"detail": detail}


@pytest.mark.parametrize("segment", ["query", "QUERY", "ingest"])
async def test_literal_path_segment_is_not_an_id(api: Traces, segment: str) -> None:
    for method in ("GET", "DELETE"):
        refused = await api.call(method, f"/traces/{segment}", status=405)
        assert refused == {"detail": f"{method} /traces/{segment} is not supported."}


async def test_traces_are_found_by_every_spelling_of_their_id(api: Traces) -> None:
    await api.ingest(span(1), span(1, trace=2))
    dashed = str(UUID(TRACE))

    for spelling in (TRACE, "0x" + TRACE, dashed.upper(), "{" + dashed + "}", "urn:uuid:" + dashed):
        assert (await api.call("GET", f"/traces/{spelling}"))["trace"]["trace_id"] == TRACE
    listed = await api.call("GET", f"/traces/?trace_ids={2:032x},{dashed}&trace_id={TRACE}&trace_id={9:032x}")
    assert sorted(numbers_of(listed)) == [1, 2]
    assert await api.call("GET", f"/traces/?trace_id={9:032x}") == {"count": 0, "traces": []}
    assert await api.call("GET", f"/traces/{9:032x}") == {"count": 0}


async def test_page_ends_at_its_bytes_but_has_a_trace(store: ColumnStore) -> None:
    async with traces_over(store, page_bytes_max=2_500) as api:
        for number in range(1, 7):
            await api.ingest(span(1, trace=number, at=number, attributes={"a": "x" * (4_000 if number == 3 else 400)}))

        pages = [await api.query(windowing={"limit": 5})]
        while "windowing" in pages[-1]:
            pages.append(await api.query(windowing={"limit": 5, **pages[-1]["windowing"]}))

    assert [numbers_of(page) for page in pages] == [[6, 5], [4], [3], [2, 1]]


async def test_a_page_that_is_read_in_parts_has_every_trace(api: Traces, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("query_api.pages.traces.SPANS_PER_READ", 4)
    await api.ingest(*(span(number, trace=trace, at=trace) for trace in range(1, 6) for number in (1, 2, 3)))

    assert await api.numbers() == [5, 4, 3, 2, 1]


async def test_a_page_that_ends_exactly_at_the_end_has_no_cursor(api: Traces) -> None:
    await api.ingest(*(span(1, trace=number) for number in range(1, 4)))

    assert "windowing" not in await api.query(windowing={"limit": 3})
    assert "windowing" in await api.query(windowing={"limit": 2})


@pytest.mark.parametrize(("limit", "status"), [(1, 200), (10_000, 200), (0, 422), (10_001, 422)])
async def test_the_limit_has_bounds(api: Traces, limit: int, status: int) -> None:
    await api.query(windowing={"limit": limit}, status=status)
    await api.call("POST", "/tracing/spans/query", json={"limit": limit}, status=status)


async def test_page_has_100_traces_by_default(api: Traces) -> None:
    await api.ingest(*(span(1, trace=number) for number in range(1, 102)))

    assert (await api.query())["count"] == 100
    assert (await api.call("POST", "/tracing/spans/query"))["count"] == 100


async def test_cursor_of_traces_is_bound_to_its_query(api: Traces) -> None:
    await api.ingest(*(span(number, trace=number) for number in range(1, 4)))
    following = (await api.query(windowing={"limit": 1}))["windowing"]

    assert await api.numbers(windowing={"limit": 9, **following}) == [2, 1]
    for changed in ({"order": "ascending"}, {"newest": at(9)}, {"rate": 0.5}):
        await api.query(windowing={**following, **changed}, status=400)
    await api.query(windowing=following, filtering=named("m"), status=400)
    await api.query(windowing=following, key="other", status=400)
    await api.call("POST", "/spans/query", json={"windowing": following}, status=400)
    broken = following["next"][:-2] + ("A" if following["next"][-2] != "A" else "B") + following["next"][-1]
    await api.query(windowing={"next": broken}, status=400)


async def test_reference_cursor_of_traces_is_a_trace_id_with_its_bound(api: Traces) -> None:
    await api.ingest(*(span(1, trace=number, at=number // 2) for number in range(1, 8)))
    dashed = str(UUID(f"{6:032x}"))

    assert await api.numbers(windowing={"newest": at(3), "next": dashed}) == [5, 4, 3, 2, 1]
    assert await api.numbers(windowing={"oldest": at(2), "next": str(UUID(int=4)), "order": "ascending"}) == [5, 6, 7]
    bounded = {"oldest": at(2), "newest": at(3), "next": str(UUID(int=4)), "order": "ascending"}
    assert await api.numbers(windowing=bounded) == [5]
    page = await api.query(windowing={"newest": at(3), "next": str(UUID(int=7)), "limit": 1})
    assert numbers_of(page) == [6]
    assert await api.numbers(windowing={"newest": at(3), **page["windowing"]}) == [5, 4, 3, 2, 1]
    await api.query(windowing={"next": dashed}, status=400)


async def test_rate_keeps_a_part_of_the_traces(api: Traces) -> None:
    for index in range(8):
        await api.ingest(span(1)._replace(trace_id=bytes([0, 0, 0, index * 12]) + bytes(11) + b"\1"))

    found = (await api.query(windowing={"rate": 0.5}))["traces"]

    assert sorted(int(trace["trace_id"][:8], 16) for trace in found) == [0, 12, 24, 36, 48]
    assert (await api.query(windowing={"rate": 0}))["count"] == 0


@pytest.mark.parametrize(
    ("body", "status"),
    [
        ({"windowing": {"by": "created_at"}}, 400),
        ({"windowing": {"by": "start_time", "wait_s": 1}}, 400),
        ({"windowing": {"from": "now"}}, 400),
        ({"limit": 1}, 422),
        ({"windowing": {"order": "down"}}, 422),
        ({"filtering": {"conditions": [{"field": "nothing"}]}}, 400),
    ],
)
async def test_meaningless_window_members_are_rejected(api: Traces, body: dict[str, Any], status: int) -> None:
    await api.query(status=status, **body)


FLAT = "/tracing/spans/query"


async def test_flat_route_returns_traces_by_their_ids(api: Traces) -> None:
    await api.ingest(span(1), span(2, parent=1), span(1, trace=2, at=5))

    found = await api.call("POST", FLAT)

    [newest, older] = found["traces"].items()
    assert found["count"] == 2
    assert newest[0] == f"{2:032x}"
    assert list(older[1]) == ["spans"]
    assert list(older[1]["spans"]["s1"]["spans"]) == ["s2"]
    assert (await api.call("GET", f"/tracing/traces/{TRACE}")) == {"count": 1, "traces": {TRACE: older[1]}}
    assert (await api.call("GET", f"/tracing/traces/{9:032x}")) == {"count": 0}


@pytest.mark.parametrize(
    ("body", "spans"),
    [
        ({"focus": "span"}, ["s2", "s1"]),
        ({"focus": "span", "format": "opentelemetry"}, ["s2", "s1"]),
        ({"focus": "trace", "format": "opentelemetry"}, ["s1", "s2"]),
        ({"format": "opentelemetry", "filter": named("s2")}, ["s1", "s2"]),
        ({"focus": "span", "filter": orjson.dumps(named("s2")).decode()}, ["s2"]),
        ({"focus": "span", "order": "ascending", "limit": 1}, ["s1"]),
        ({"focus": "span", "newest": START_US + 1}, ["s1"]),
        ({"focus": "span", "oldest": str((START_US + 1) * 1000)}, ["s2"]),
    ],
)
async def test_flat_route_returns_spans_as_a_list(api: Traces, body: dict[str, Any], spans: list[str]) -> None:
    await api.ingest(span(1), span(2, parent=1, at=1))

    found = await api.call("POST", FLAT, json=body)

    assert [span["span_name"] for span in found["spans"]] == spans
    assert found["count"] == len(spans)


async def test_flat_route_without_a_match(api: Traces) -> None:
    assert await api.call("POST", FLAT) == {"count": 0, "traces": {}}
    assert await api.call("POST", FLAT, json={"focus": "span"}) == {"count": 0}
    assert await api.call("POST", FLAT, json={"format": "opentelemetry"}) == {"count": 0}


async def test_flat_body_wins_over_the_query_string(api: Traces) -> None:
    await api.ingest(span(1), span(2, parent=1, at=1))

    found = await api.call("POST", f"{FLAT}?focus=span&limit=1&order=ascending", json={"limit": 2})

    assert [span["span_name"] for span in found["spans"]] == ["s1", "s2"]


@pytest.mark.parametrize("focus", ["trace", "span"])
async def test_flat_pages_continue_by_cursor(api: Traces, focus: str) -> None:
    await api.ingest(*(span(number, trace=number, at=number) for number in range(1, 6)))
    found: list[str] = []
    page = await api.call("POST", FLAT, json={"focus": focus, "limit": 2})
    while True:
        found += page["traces"] if focus == "trace" else [span["trace_id"] for span in page["spans"]]
        if "windowing" not in page:
            break
        page = await api.call("POST", FLAT, json={"focus": focus, "limit": 2, **page["windowing"]})

    assert [int(trace_id, 16) for trace_id in found] == [5, 4, 3, 2, 1]


@pytest.mark.parametrize("focus", ["trace", "span"])
async def test_flat_route_names_the_path_of_a_bad_cursor(api: Traces, focus: str) -> None:
    body = {"focus": focus, "next": "nonsense"}
    unreadable = await api.call("POST", FLAT, json=body, status=400)
    without_bound = await api.call("POST", FLAT, params={**body, "next": str(UUID(int=1))}, status=400)

    assert unreadable["detail"] == "The cursor in `next` cannot be read."
    assert without_bound["detail"].startswith(f"next as a {focus} id needs newest: ")


LONG_INTEGER = '{"conditions": [{"field": "attributes", "key": "n", "value": -9223372036854775809}]}'
"""A filter as text; as a double its value would be an integer of 64 bits."""


@pytest.mark.parametrize(
    ("sent", "status", "where"),
    [
        ({"json": {"filtering": {}}}, 422, ["body", "filtering"]),
        ({"json": {"focus": "traces"}}, 422, ["body", "focus"]),
        ({"params": {"focus": "traces"}}, 422, ["query", "focus"]),
        ({"json": {"oldest": 17}}, 422, ["body", "oldest"]),
        ({"json": {"oldest": 1_750_000_000.5}}, 422, ["body", "oldest"]),
        ({"json": {"filter": "{"}}, 422, ["body", "filter"]),
        ({"json": {"limit": 10_001}}, 422, ["body", "limit"]),
        ({"params": {"limit": "10001"}}, 422, ["query", "limit"]),
        ({"params": {"limit": "1"}, "json": {"limit": 10_001}}, 422, ["body", "limit"]),
        ({"json": {"filter": {"conditions": [{"field": "nothing"}]}}}, 400, "filter.conditions[0].field"),
        ({"params": {"filter": '{"conditions": [{"field": "nothing"}]}'}}, 400, "filter.conditions[0].field"),
        ({"params": {"filter": LONG_INTEGER}}, 400, "filter.conditions[0].value"),
        ({"json": {"filter": LONG_INTEGER}}, 400, "filter.conditions[0].value"),
    ],
)
async def test_flat_route_rejects_unknown_members(api: Traces, sent: dict[str, Any], status: int, where: Any) -> None:
    detail = (await api.call("POST", FLAT, status=status, **sent))["detail"]

    assert detail[0]["loc"] == where if status == 422 else detail.startswith(where)


async def test_flat_route_returns_the_deleted_spans(api: Traces) -> None:
    await api.ingest(span(1), span(2, parent=1))

    deleted = await api.call("DELETE", f"/tracing/traces/{TRACE}", status=202)

    assert deleted == {
        "count": 2,
        "links": [{"trace_id": TRACE, "span_id": f"{number:016x}"} for number in (1, 2)],
    }


async def test_traces_can_be_explained(api: Traces) -> None:
    await api.ingest(span(1))

    explanation = (await api.query(explain=True))["explain"]
    flat = await api.call("POST", f"{FLAT}?explain=true")

    assert explanation["statements_count"] >= 3
    assert "explain" in flat
    assert "explain" not in await api.query()


class StrainedStore:
    """A slow engine: each statement takes 0.1 s, and one over more than a time slice takes too long."""

    def __init__(self, store: ColumnStore, clock: ManualClock) -> None:
        self._store = store
        self._clock = clock
        self.asked_of_all = 0

    def __getattr__(self, name: str) -> Any:
        return getattr(self._store, name)

    async def select(self, statement: Statement, /, *, deadline_s: float) -> pa.Table:
        self._clock.advance(0.1)
        parameters = statement.parameters
        if parameters.get("candidates", 1) > 1 and "until_us" not in parameters:
            self.asked_of_all += 1
            raise DeadlineExceeded
        return await self._store.select(statement, deadline_s=deadline_s)


@pytest.mark.parametrize("order", rest_is_long(["descending", "ascending"]))
async def test_rare_matches_in_a_long_time_are_found_over_pages(store: ColumnStore, order: str) -> None:
    hour_us = 3600 * 1_000_000
    matching = [span(1, trace=number, at=number * 40 * hour_us, name="m") for number in range(1, 7)]
    others = [span(2, trace=number % 9 + 1, at=number * 7 * hour_us) for number in range(1, 60)]
    clock = ManualClock()
    strained = StrainedStore(store, clock)
    async with traces_over(strained, clock=clock, budget_s=2.0) as api:
        await api.deliver([*matching, *others])
        pages = [await api.query(filtering=named("m"), windowing={"order": order})]
        while "windowing" in pages[-1]:
            windowing = {"order": order, **pages[-1]["windowing"]}
            pages.append(await api.query(filtering=named("m"), windowing=windowing))

    assert [number for page in pages for number in numbers_of(page)] == expected_order(matching, order)
    assert len(pages) > 2
    assert all(page["complete"] is False for page in pages[:-1])
    assert "complete" not in pages[-1]
    assert strained.asked_of_all == 1  # a page that continues a sliced scan does not try again


async def test_full_page_is_complete_though_the_budget_ended(store: ColumnStore) -> None:
    year_us = 365 * 24 * 3600 * 1_000_000
    clock = ManualClock()
    async with traces_over(StrainedStore(store, clock), clock=clock, budget_s=3.0) as api:
        await api.deliver([span(1, trace=1, at=year_us, name="m")])
        await api.deliver([span(1, trace=2 + day, at=day * year_us // 365) for day in range(365)])

        full = await api.query(filtering=named("m"), windowing={"limit": 1})
        short = await api.query(filtering=named("m"), windowing={"limit": 2})

    assert numbers_of(full) == numbers_of(short) == [1]
    assert "windowing" in full
    assert "complete" not in full
    assert short["complete"] is False


async def test_trace_that_does_not_fit_is_on_the_next_page(store: ColumnStore) -> None:
    year_us = 365 * 24 * 3600 * 1_000_000
    clock = ManualClock()
    large = {"a": "x" * 2_000}
    async with traces_over(StrainedStore(store, clock), clock=clock, budget_s=3.0, page_bytes_max=2_500) as api:
        await api.deliver([span(1, trace=trace, at=year_us + trace, name="m", attributes=large) for trace in (1, 2)])
        await api.deliver([span(1, trace=3 + day, at=day * year_us // 365) for day in range(365)])

        first = await api.query(filtering=named("m"))
        second = await api.query(filtering=named("m"), windowing=first["windowing"])

    assert (numbers_of(first), numbers_of(second)) == ([2], [1])
    assert "complete" not in first
    assert second["complete"] is False


class WalkedStore(StrainedStore):
    """An engine that never finishes a whole window, however narrow."""

    async def select(self, statement: Statement, /, *, deadline_s: float) -> pa.Table:
        if "max_rows_to_read" in statement.settings:
            raise DeadlineExceeded
        return await self._store.select(statement, deadline_s=deadline_s)


@pytest.mark.parametrize("order", rest_is_long(["descending", "ascending"]))
async def test_time_slices_of_a_scan_end_at_its_bounds(store: ColumnStore, order: str) -> None:
    stored = [span(1, trace=trace, at=trace, name="m") for trace in range(1, 10)]
    async with traces_over(WalkedStore(store, ManualClock())) as api:
        await api.deliver(stored)

        found = await read_pages(api, limit=2, order=order, filtering=named("m"), oldest=at(3), newest=at(8))

    assert found == expected_order(stored[2:7], order)


class SlowlyJudgedStore(StrainedStore):
    """The lookup of the latest versions takes even longer: 1.5 s."""

    async def select(self, statement: Statement, /, *, deadline_s: float) -> pa.Table:
        if "FROM span_versions" in statement.sql:
            self._clock.advance(min(deadline_s, 1.5))
            if deadline_s < 1.5:
                raise DeadlineExceeded
        return await super().select(statement, deadline_s=deadline_s)


async def test_traces_found_before_the_budget_ended_are_returned(store: ColumnStore) -> None:
    hour_us = 3600 * 1_000_000
    matching = [span(1, trace=number, at=number * 40 * hour_us, name="m") for number in range(1, 7)]
    clock = ManualClock()
    async with traces_over(SlowlyJudgedStore(store, clock), clock=clock, budget_s=5.4) as api:
        await api.deliver(matching)
        pages = [await api.query(filtering=named("m"))]
        while "windowing" in pages[-1]:
            pages.append(await api.query(filtering=named("m"), windowing=pages[-1]["windowing"]))
    assert [number for page in pages for number in numbers_of(page)] == expected_order(matching, "descending")
    assert all(page["complete"] is False for page in pages[:-1])


async def test_page_whose_traces_all_vanish_is_incomplete(store: ColumnStore) -> None:
    rowless = RowlessStore(store)
    async with traces_over(rowless) as api:
        await api.deliver([span(1, trace=number, at=number) for number in range(1, 4)])
        page = await api.query(windowing={"limit": 1})
        simple = await api.call("POST", "/simple/traces/query", json={"windowing": {"limit": 1}})
        rowless.merges = False
        rest = await api.query(windowing=page["windowing"])

    assert (page["count"], page["complete"]) == (simple["count"], simple["complete"]) == (0, False)
    assert numbers_of(rest) == [2, 1]


async def test_slice_with_more_matches_than_a_round_is_scanned_completely(store: ColumnStore) -> None:
    matching = [
        span(number, trace=trace, at=10 * trace + number, name="m") for trace in range(1, 21) for number in range(1, 10)
    ]
    clock = ManualClock()
    async with traces_over(StrainedStore(store, clock), clock=clock, budget_s=3.0) as api:
        await api.deliver(matching)

        found = await read_pages(api, limit=12, order="descending", filtering=named("m"))

    assert found == expected_order(matching, "descending")


@pytest.mark.parametrize("order", rest_is_long(["descending", "ascending"]))
async def test_rare_matches_among_many_rows_are_found_over_pages(store: ColumnStore, order: str) -> None:
    async with traces_over(store, budget_rows=100_000) as api:
        await store_year(store, 240_000, rare_every=60_000, project_id=api.projects["one"])
        question = {
            "conditions": [
                {"field": "attributes", "key": "x", "operator": "not_exists"},
                {"field": "span_name", "operator": "endswith", "value": "are"},  # for which there is no index
            ]
        }
        pages = [await api.query(filtering=question, windowing={"order": order})]
        while "windowing" in pages[-1]:
            windowing = {"order": order, **pages[-1]["windowing"]}
            pages.append(await api.query(filtering=question, windowing=windowing))

    expected = [60_000, 120_000, 180_000, 240_000]
    assert [number for page in pages for number in numbers_of(page)] == expected[:: 1 if order == "ascending" else -1]
    assert 3 <= len(pages) <= 20
    assert [page.get("complete") for page in pages] == [False] * (len(pages) - 1) + [None]


async def test_budget_that_ends_before_any_span_is_examined_is_504(store: ColumnStore) -> None:
    clock = ManualClock()
    async with traces_over(StrainedStore(store, clock), clock=clock, budget_s=0.1) as api:
        await api.deliver([span(1)])

        await api.query(status=504)


class WeighingStore:
    """Records how many bytes of attributes each result of the engine held."""

    def __init__(self, store: ColumnStore) -> None:
        self._store = store
        self.weights: list[int] = []

    def __getattr__(self, name: str) -> Any:
        return getattr(self._store, name)

    async def select(self, statement: Statement, /, *, deadline_s: float) -> pa.Table:
        rows = await self._store.select(statement, deadline_s=deadline_s)
        if LEAF_TEXTS in rows.column_names:
            self.weights.append(rows.column(LEAF_TEXTS).nbytes)
        return rows


LARGE = 1_000_000
"""Size of a span in bytes."""

MOST_READ = 20 * LARGE
"""A result ends after four spans, with the blocks of five that the engine has at hand: up to three were seen."""


@pytest.fixture
def small_reads(monkeypatch: pytest.MonkeyPatch) -> None:
    """A small limit, and an engine that does not read ahead: how far it would depends on the load of the machine."""
    monkeypatch.setattr("query_api.spans.rows_ahead.READ_BYTES_MAX", 4 * LARGE)
    monkeypatch.setattr("query_api.spans.rows.SCATTERED", {"max_threads": 1, "max_block_size": 5})


@pytest.mark.usefixtures("small_reads")
@pytest.mark.parametrize("page_bytes_max", [5 * LARGE, 100 * LARGE])
async def test_large_traces_are_read_up_to_a_page_and_a_read(store: ColumnStore, page_bytes_max: int) -> None:
    spans = [
        span(number, trace=trace, at=10 * trace + number, attributes={"text": f"{number}" * LARGE})
        for trace in range(1, 9)
        for number in range(1, 4)
    ]
    weighing = WeighingStore(store)
    async with traces_over(weighing, page_bytes_max=page_bytes_max) as api:
        await api.ingest(*spans)
        pages = [await api.query()]
        read_for_first = sum(weighing.weights)
        while "windowing" in pages[-1]:
            pages.append(await api.query(windowing=pages[-1]["windowing"]))

    traces = [trace for page in pages for trace in page["traces"]]
    assert [int(trace["trace_id"], 16) for trace in traces] == list(range(8, 0, -1))
    assert all(sorted(trace["spans"]) == ["s1", "s2", "s3"] for trace in traces)
    assert max(weighing.weights) < MOST_READ
    assert (len(pages), read_for_first < len(spans) * LARGE) == (
        (8, True) if page_bytes_max < 6 * LARGE else (1, False)
    )


@pytest.mark.usefixtures("small_reads")
async def test_trace_larger_than_a_read_is_read_completely(
    store: ColumnStore,
) -> None:
    weighing = WeighingStore(store)
    async with traces_over(weighing) as api:
        await api.ingest(*(span(number, at=number, attributes={"text": "x" * LARGE}) for number in range(1, 31)))
        [trace] = (await api.query())["traces"]
        again = await api.call("GET", f"/traces/{trace['trace_id']}")

    assert sorted(trace["spans"]) == sorted(f"s{number}" for number in range(1, 31))
    assert again["trace"] == trace
    assert max(weighing.weights) < MOST_READ
