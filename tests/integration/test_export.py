"""``/spans/export``: every span of a query once and in order, in three formats; broken off when it cannot be completed."""

from __future__ import annotations

import asyncio
import csv
import io
import json
import random
from collections.abc import AsyncIterator, Callable
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any
from urllib.parse import urlencode

import aiohttp
import pyarrow.parquet as pq
import pytest
import pytest_asyncio

from common.clickhouse.connect import open_store
from common.clickhouse.migrate import migrate
from common.errors import Unavailable
from common.fair_share import Tenant
from common.ids import DEFAULT_PROJECT_ID
from common.settings import ClickHouseSettings, HttpSettings, QuerySettings, Settings
from common.span import Span
from common.times import SystemClock, format_us
from query_api.export.columns import COLUMNS, columns_of, table_of_objects
from query_api.request.context import ApiContext, export_places
from query_api.request.limits import Limits
from query_api.request.progress import StoredThrough
from tests.fakes.intervening_store import InterveningStore
from tests.support.api import context_of, serving
from tests.support.scale import rest_is_long
from tests.support.span_corpus import START_NS, random_span, store_record

pytestmark = pytest.mark.asyncio(loop_scope="module")

SPANS_COUNT = 120
STALL_S = 2.0
HOUR_US = 3_600_000_000
START_US = START_NS // 1000
DAY = {"oldest": format_us(START_US - 24 * HOUR_US), "newest": format_us(START_US + 24 * HOUR_US)}


@dataclass
class Exports:
    """The API over a store, and what it exports."""

    client: aiohttp.ClientSession
    store: InterveningStore
    context: ApiContext

    async def get(self, **parameters: str) -> bytes:
        async with self.client.get("/spans/export", params=parameters) as response:
            assert response.status == 200, await response.text()
            return await response.read()

    async def spans(self, **parameters: str) -> list[Any]:
        return [json.loads(line) for line in (await self.get(**parameters)).splitlines()]

    async def receive(self, received: bytearray, **parameters: str) -> None:
        async with self.client.get("/spans/export", params=parameters) as response:
            assert response.status == 200
            async for piece in response.content.iter_any():
                received += piece

    async def refusal(self, **parameters: str) -> tuple[int, str]:
        async with self.client.get("/spans/export", params=parameters) as response:
            return response.status, json.dumps((await response.json())["detail"])

    async def queried(self, **body: Any) -> list[Any]:
        """Return the spans of all pages of ``/spans/query``."""
        spans: list[Any] = []
        windowing = {"limit": 50, **body.pop("windowing", {})}
        while True:
            async with self.client.post("/spans/query", json={**body, "windowing": windowing}) as response:
                page = await response.json()
            spans += page["spans"]
            if "windowing" not in page:
                return spans
            windowing["next"] = page["windowing"]["next"]

    async def store_spans(self, spans: list[Span], *, offset: int) -> None:
        await store_record(self.store, spans, offset=offset, partition_id="cluster/spans/0", record_ms=offset)


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def exports(chdb_dir: Path, chdb_settings: Callable[[], ClickHouseSettings]) -> AsyncIterator[Exports]:
    """An API whose rounds and chunks are small, so that few spans take many of them. Later tests store more spans."""
    configured = chdb_settings()
    await migrate(configured, data_dir=chdb_dir)
    store = InterveningStore(open_store(configured, data_dir=chdb_dir))
    settings = Settings(auth="off")
    small = Limits(round_spans=17, chunk_bytes=4_000)
    context = context_of(store=store, clock=SystemClock(), settings=settings, limits=small)
    context = replace(context, exports=export_places(2))
    async with serving(context) as client:
        exports = Exports(client, store, context)
        source = random.Random(5)
        spans = [random_span(source, number) for number in range(SPANS_COUNT)]
        for offset, first in enumerate(range(0, SPANS_COUNT, 40)):
            await exports.store_spans(spans[first : first + 40], offset=offset)
        await exports.store_spans(spans[10:30], offset=10)  # sent again: replaces the first versions
        yield exports
    await store.close()


@pytest.mark.parametrize("order", rest_is_long(["ascending", "descending"]))
async def test_export_has_the_spans_of_all_pages_in_their_order(exports: Exports, order: str) -> None:
    expected = await exports.queried(windowing={"order": order})
    assert len(expected) > 60
    found = await exports.spans(order=order)
    assert found == expected


async def test_filter_and_window_apply(exports: Exports) -> None:
    filtering = {"conditions": [{"field": "status_code", "operator": "is_not", "value": "STATUS_CODE_ERROR"}]}
    window = {"oldest": format_us(START_US + 5), "newest": format_us(START_US + HOUR_US)}
    expected = await exports.queried(filtering=filtering, windowing=window)
    assert 0 < len(expected) < len(await exports.queried())
    assert await exports.spans(filter=json.dumps(filtering), **window) == expected


async def test_parquet_and_csv_hold_what_span_objects_hold(exports: Exports) -> None:
    names = [*COLUMNS, "attributes.a", "attributes.ag.metrics.tokens.cumulative.total", "scores.a", "scores.a.b"]
    expected = table_of_objects(await exports.queried(), columns_of(names))
    found = pq.read_table(io.BytesIO(await exports.get(format="parquet", columns=",".join(names))))
    for name in names:
        assert found.column(name).to_pylist() == expected.column(name).to_pylist(), name
    assert found.schema.remove_metadata() == expected.schema
    text = (await exports.get(format="csv", columns="trace_id, span_name,start_time,attributes")).decode()
    [header, *lines] = csv.reader(io.StringIO(text))
    assert header == ["trace_id", "span_name", "start_time", "attributes"]
    assert [line[0] for line in lines] == expected.column("trace_id").to_pylist()
    assert [json.loads(line[3]) for line in lines] == [json.loads(t) for t in expected.column("attributes").to_pylist()]


async def test_limit_and_next_continue_where_the_export_ended(exports: Exports) -> None:
    whole = await exports.get()
    for size in ("17", "1000"):
        following: dict[str, str] = {}
        parts = b""
        while True:
            part = await exports.get(limit=size, summary="true", **following)
            [*_, last] = part.splitlines(keepends=True)
            parts += part.removesuffix(last)
            summary = json.loads(last)["export"]
            assert summary["count"] == part.count(b"\n") - 1
            assert summary["complete"] == ("next" not in summary)
            if "next" not in summary:
                break
            following = {"next": summary["next"]}
        assert parts == whole


async def test_limit_at_the_last_span_has_no_next(exports: Exports) -> None:
    count = len(await exports.spans())
    [*_, last] = await exports.spans(limit=str(count), summary="true")
    assert last == {"export": {"count": count, "complete": True}}


async def test_parquet_has_the_summary_in_its_metadata(exports: Exports) -> None:
    file = pq.ParquetFile(io.BytesIO(await exports.get(format="parquet", limit="5")))
    summary = json.loads(file.metadata.metadata[b"export"])
    assert (summary["count"], summary["complete"], file.metadata.num_rows) == (5, False, 5)
    assert [row["span_id"] for row in await exports.spans(limit="3", next=summary["next"])] == [
        span["span_id"] for span in (await exports.queried())[5:8]
    ]


async def test_nothing_found_is_an_empty_export(exports: Exports) -> None:
    nothing = {"oldest": "2001-01-01", "newest": "2001-01-02"}
    assert await exports.get(**nothing) == b""
    assert await exports.get(**nothing, format="csv", columns="span_id,cost") == b'"span_id","cost"\n'
    assert pq.read_table(io.BytesIO(await exports.get(**nothing, format="parquet"))).num_rows == 0
    assert await exports.spans(**nothing, summary="true") == [{"export": {"count": 0, "complete": True}}]


@pytest.mark.parametrize(
    ("parameters", "status", "said"),
    [
        ({"columns": "span_id,nope", "format": "csv"}, 400, "columns: 'nope' is not a column; allowed: created_at, "),
        ({"columns": "span_id"}, 400, "allowed for csv and parquet"),
        ({"format": "xml"}, 422, "'jsonl', 'csv' or 'parquet'"),
        ({"limit": "0"}, 422, "greater than or equal to 1"),
        ({"filter": "{"}, 422, "JSON"),
        ({"filter": '{"conditions": [{"field": "nope"}]}'}, 400, "conditions[0].field"),
        ({"next": "abc"}, 400, "cannot be read"),
        ({"colums": "span_id"}, 422, "colums"),
    ],
)
async def test_bad_parameters_are_refused_before_the_stream_begins(
    exports: Exports, parameters: dict[str, str], status: int, said: str
) -> None:
    found_status, detail = await exports.refusal(**parameters)
    assert (found_status, said in detail) == (status, True), detail


async def test_cursor_of_another_query_is_refused(exports: Exports) -> None:
    [*_, last] = await exports.spans(limit="3", summary="true")
    status, detail = await exports.refusal(next=last["export"]["next"], order="ascending")
    assert (status, "belongs to another query" in detail) == (400, True)


async def test_failure_breaks_the_stream_off(exports: Exports) -> None:
    async def fail(number: int) -> None:
        if number > 12:
            raise Unavailable("ClickHouse is away.")

    exports.store.begin(fail)
    received = bytearray()
    with pytest.raises(aiohttp.ClientPayloadError):
        await exports.receive(received, summary="true")
    assert received
    assert b'{"export"' not in received
    exports.store.begin(None)
    assert await exports.spans()  # its place is free again


async def test_failure_before_the_first_span_is_a_status(exports: Exports) -> None:
    async def fail(_number: int) -> None:
        raise Unavailable("ClickHouse is away.")

    exports.store.begin(fail)
    status, _ = await exports.refusal()
    exports.store.begin(None)
    assert status == 503


async def test_export_without_a_free_place_is_refused(exports: Exports) -> None:
    settings = Settings(auth="off", query=QuerySettings(budget_s=60, queue_s=0.2))
    context = context_of(store=exports.store, clock=SystemClock(), settings=settings)
    context = replace(context, exports=exports.context.exports)
    tenant = Tenant(DEFAULT_PROJECT_ID, queue_s=0.1)
    async with serving(context) as client:
        impatient = Exports(client, exports.store, context)
        for _ in range(2):
            await context.exports.acquire(tenant, timeout_s=1)
        status, detail = await impatient.refusal()
        assert (status, "places of exports" in detail) == (429, True)
        context.exports.release(tenant)
        assert await impatient.spans()
        context.exports.release(tenant)


async def test_one_export_at_a_time_is_in_the_engine(exports: Exports, monkeypatch: pytest.MonkeyPatch) -> None:
    engine = exports.store._store
    select = engine.select
    running = most = 0

    async def counted(statement: Any, /, *, deadline_s: float) -> Any:
        nonlocal running, most
        running += 1
        most = max(most, running)
        try:
            return await select(statement, deadline_s=deadline_s)
        finally:
            running -= 1

    monkeypatch.setattr(engine, "select", counted)
    one, other = await asyncio.gather(exports.get(), exports.get())
    assert one == other
    assert most == 1


async def test_http_1_0_is_refused(exports: Exports) -> None:
    address = exports.client._base_url
    assert address is not None
    reader, writer = await asyncio.open_connection(address.host, address.port)
    writer.write(b"GET /spans/export HTTP/1.0\r\nHost: localhost\r\n\r\n")
    assert b"400 Bad Request" in await reader.readline()
    writer.close()
    await writer.wait_closed()


async def test_spans_that_are_sent_again_meanwhile_are_exported_once(exports: Exports) -> None:
    source = random.Random(5)
    spans = [random_span(source, number) for number in range(SPANS_COUNT)]
    expected = [span["span_id"] for span in await exports.queried()]

    async def send_again(number: int) -> None:
        if number % 3 == 0:
            await exports.store_spans(source.sample(spans, 10), offset=100 + number)

    exports.store.begin(send_again)
    found = [span["span_id"] for span in await exports.spans()]
    exports.store.begin(None)
    assert found == expected


async def test_client_that_does_not_read_stops_the_walk_and_loses_its_place(exports: Exports) -> None:
    large = random_span(random.Random(6), 1)._replace(name="large", attributes={"text": "x" * 1_000_000})
    ids = [number.to_bytes(8, "big") * 2 for number in range(1, 41)]
    await exports.store_spans([large._replace(span_id=span_id) for span_id in ids], offset=1_000)
    statements = 0

    async def count(_number: int) -> None:
        nonlocal statements
        statements += 1

    exports.store.begin(count)
    settings = Settings(auth="off", http=HttpSettings(stall_timeout_s=STALL_S))
    async with serving(replace(exports.context, settings=settings, stored=StoredThrough())) as impatient:
        address = impatient._base_url
        assert address is not None
        reader, writer = await asyncio.open_connection(address.host, address.port, limit=1_000)
        writer.write(_request_of_large_spans())
        assert b"200 OK" in await reader.readline()
        await _all_places_are_free(exports)
        writer.transport.abort()
    assert 3 < statements < 40


def _request_of_large_spans() -> bytes:
    only_large = urlencode({"filter": '{"conditions": [{"field": "span_name", "value": "large"}]}'})
    return f"GET /spans/export?{only_large} HTTP/1.1\r\nHost: localhost\r\n\r\n".encode()


async def test_client_that_leaves_stops_the_walk(exports: Exports) -> None:
    exports.store.begin(None)
    async with exports.client.get("/spans/export") as response:
        assert await response.content.readany()
        response.close()
    await _all_places_are_free(exports)


async def _all_places_are_free(exports: Exports) -> None:
    """Wait until they are, for less than a client may stall."""
    tenant = Tenant(DEFAULT_PROJECT_ID, queue_s=HttpSettings().stall_timeout_s / 2)
    for _ in range(2):
        await exports.context.exports.acquire(tenant, timeout_s=1)
    for _ in range(2):
        exports.context.exports.release(tenant)


async def test_head_has_the_headers_alone(exports: Exports) -> None:
    async with exports.client.head("/spans/export", params={"format": "csv"}) as response:
        assert response.headers["Content-Type"].startswith("text/csv")
        assert await response.read() == b""
    await _all_places_are_free(exports)


async def test_process_that_ends_breaks_the_stream_off(exports: Exports) -> None:
    async def end(number: int) -> None:
        if number == 6:
            exports.context.stored.release()

    exports.store.begin(end)
    with pytest.raises(aiohttp.ClientPayloadError):
        await exports.receive(bytearray())
    exports.store.begin(None)
    assert (await exports.refusal())[0] == 503
