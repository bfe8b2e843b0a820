"""Freshness over HTTP: how fresh a response is, waiting for what was just sent, and ``/status/freshness``."""

from __future__ import annotations

import asyncio
import re
from collections.abc import AsyncIterator, Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import aiohttp
import orjson
import pytest
from pydantic import SecretStr

from common.clickhouse.connect import open_store
from common.clickhouse.migrate import migrate
from common.errors import Unavailable
from common.ids import DEFAULT_PROJECT_ID
from common.settings import ClickHouseSettings, QuerySettings, Settings
from common.stored_position import ALL_PROJECTS
from common.times import format_us
from query_api.http.routes import ROUTES
from query_api.request.context import ApiContext
from query_api.request.progress import REFRESH_INTERVAL_S, KnownEndOffsets
from tests.fakes.clock import ManualClock
from tests.fakes.kafka import MemoryBroker, MemoryEndOffsets
from tests.support.api import PROJECT_A, KnownKeys, context_of, serving
from tests.support.feed import settle
from tests.support.storing import StoringByHand

SPAN = {"trace_id": "a" * 32, "span_id": "b" * 16, "span_name": "just sent", "start_time": 1_750_000_000}
IMPATIENT_S = 40.0
"""Less than a request may wait."""

ASKED = {"filtering": {"conditions": [{"field": "span_name", "value": "just sent"}]}}


@pytest.fixture
def clock() -> ManualClock:
    return ManualClock()


@pytest.fixture
def broker(clock: ManualClock) -> MemoryBroker:
    broker = MemoryBroker(partitions=1)
    broker.now_ms = clock.now_ns() // 1_000_000
    return broker


@pytest.fixture
def source(broker: MemoryBroker) -> MemoryEndOffsets:
    return broker.ends("spans", "otlp_spans")


@pytest.fixture
async def context(
    clock: ManualClock,
    broker: MemoryBroker,
    source: MemoryEndOffsets,
    chdb_dir: Path,
    chdb_settings: Callable[[], ClickHouseSettings],
) -> AsyncIterator[ApiContext]:
    configured = chdb_settings()
    await migrate(configured, data_dir=chdb_dir)
    store = open_store(configured, data_dir=chdb_dir)
    settings = Settings(auth="off", query=QuerySettings(wait_for_max_s=60))
    yield context_of(broker=broker, settings=settings, clock=clock, store=store, ends=KnownEndOffsets(source, clock))
    await store.close()


async def _send(client: aiohttp.ClientSession) -> str:
    async with client.post("/tracing/spans/ingest", json={"spans": [SPAN]}) as response:
        return response.headers["X-Clearspan-Coordinates"]


async def _ask(client: aiohttp.ClientSession, **headers: str) -> tuple[int, dict[str, Any], str | None]:
    sent = {name.replace("_", "-"): value for name, value in headers.items()}
    async with client.post("/spans/query", json=ASKED, headers=sent) as response:
        return response.status, await response.json(), response.headers.get("X-Data-Through")


async def test_sent_span_is_found_after_waiting_for_it(context: ApiContext, broker: MemoryBroker) -> None:
    async with serving(context) as client:
        coordinates = await _send(client)
        asking = asyncio.create_task(_ask(client, X_Clearspan_Wait_For=coordinates))
        await asyncio.sleep(0.1)
        assert not asking.done()

        await StoringByHand(context, broker).store_all()
        status, body, _ = await asking

    assert (status, body["count"]) == (200, 1)


async def test_wait_times_out_with_the_names_of_what_is_missing(context: ApiContext) -> None:
    context = replace(context, settings=Settings(auth="off", query=QuerySettings(wait_for_max_s=0.3)))
    async with serving(context) as client:
        status, body, _ = await _ask(client, X_Clearspan_Wait_For=await _send(client))

    assert status == 504
    assert re.fullmatch(r"X-Clearspan-Wait-For: not queryable after 0\.3 s: [\w-]{24}…\.", body["detail"])


@pytest.mark.parametrize(
    ("path", "member"),
    [
        ("/spans/query", "filtering"),
        ("/traces/query", "filtering"),
        ("/tracing/spans/query", "filter"),
        ("/spans/sessions/query", "filtering"),
        ("/spans/analytics/query", "filtering"),
        ("/tracing/spans/analytics", "filter"),
    ],
)
async def test_invalid_filter_is_rejected_without_waiting(context: ApiContext, path: str, member: str) -> None:
    body = {member: {"conditions": [{"field": "nothing", "value": 1}]}}
    async with serving(context) as client:
        headers = {"X-Clearspan-Wait-For": await _send(client)}
        async with client.post(
            path, json=body, headers=headers, timeout=aiohttp.ClientTimeout(IMPATIENT_S)
        ) as response:
            status, body = response.status, await response.json()

    assert status == 400
    assert body["detail"].startswith(f"{member}.conditions[0].field: ")


async def test_invalid_filter_in_the_query_string_is_rejected_without_waiting(context: ApiContext) -> None:
    query = {"filter": orjson.dumps({"conditions": [{"field": "nothing", "value": 1}]}).decode()}
    async with serving(context) as client:
        headers = {"X-Clearspan-Wait-For": await _send(client)}
        asking = client.get(
            "/tracing/spans/analytics", params=query, headers=headers, timeout=aiohttp.ClientTimeout(IMPATIENT_S)
        )
        async with asking as response:
            assert response.status == 400


async def test_unused_filter_is_not_rejected(context: ApiContext, broker: MemoryBroker) -> None:
    """The body wins over the query string, and flat members win over nested ones."""
    valid, invalid = ({"conditions": [{"field": field, "value": "a"}]} for field in ("span_name", "nothing"))
    body = {"filter": valid, "filtering": invalid}
    async with serving(context) as client:
        headers = {"X-Clearspan-Wait-For": await _send(client)}
        await StoringByHand(context, broker).store_all()
        query = {"filter": orjson.dumps(invalid).decode()}
        async with client.post("/tracing/spans/analytics", json=body, params=query, headers=headers) as response:
            assert response.status == 200


async def test_repeated_header_is_one_list(context: ApiContext, broker: MemoryBroker) -> None:
    context = replace(context, settings=Settings(auth="off", query=QuerySettings(wait_for_max_s=0.3)))
    async with serving(context) as client:
        stored = await _send(client)
        await StoringByHand(context, broker).store_all()
        waiting = [
            ("X-Clearspan-Wait-For", coordinates)
            for coordinates in (stored, "spans/0/0", await _send(client), "spans/0/1")
        ]
        async with client.post("/spans/query", json=ASKED, headers=waiting) as response:
            detail = (await response.json())["detail"]
            assert response.status == 504
            assert detail == f"X-Clearspan-Wait-For: not queryable after 0.3 s: {waiting[2][1][:24]}…, spans/0/1."


@pytest.mark.parametrize("text", ["spans/0", "nowhere/0/1", "spans/0/1;spans/0/2", "x" * 80])
async def test_invalid_wait_is_rejected(context: ApiContext, text: str) -> None:
    async with serving(context) as client:
        status, body, _ = await _ask(client, X_Clearspan_Wait_For=text)

    assert status == 400
    assert "X-Clearspan-Wait-For" in body["detail"]


async def test_response_says_up_to_when_it_is_complete(
    context: ApiContext, broker: MemoryBroker, clock: ManualClock
) -> None:
    worker = StoringByHand(context, broker)
    async with serving(context) as client:
        empty_through = (await _ask(client))[2]
        await _send(client)
        await worker.store_all()
        clock.advance(5.0)
        stored_through = (await _ask(client))[2]

        broker.now_ms += 7_000
        await _send(client)
        clock.advance(5.0)
        behind_through = (await _ask(client))[2]
        await worker.store_all()
        clock.advance(5.0)
        caught_up_through = (await _ask(client))[2]

    start_us = ManualClock().now_ns() // 1_000
    assert empty_through == format_us(start_us)
    assert stored_through == format_us(start_us + 5_000_000)
    assert behind_through == format_us(start_us)  # the last stored record was read then
    assert caught_up_through == format_us(start_us + 15_000_000)


async def test_data_stored_during_the_request_is_not_promised(
    context: ApiContext, broker: MemoryBroker, clock: ManualClock
) -> None:
    """The engine may have been read before it was stored: the header says what was stored when the request arrived."""
    worker = StoringByHand(context, broker)
    answered = asyncio.Event()

    async def store_then_answer(request: Any) -> Any:
        response = await spans_route.handler(request)
        await worker.store_all()
        answered.set()
        return response

    spans_route = next(route for route in ROUTES if route.path == "/spans/query")
    slow = replace(spans_route, handler=store_then_answer)
    intake = [route for route in ROUTES if route.path == "/tracing/spans/ingest"]
    async with serving(context, routes=(slow, *intake)) as client:
        await _ask(client)
        clock.advance(REFRESH_INTERVAL_S)
        await _send(client)
        _, body, through = await _ask(client)

    assert answered.is_set()
    assert (body["count"], through) == (0, None)


async def test_lag_of_the_last_response_is_measured(
    context: ApiContext, broker: MemoryBroker, clock: ManualClock
) -> None:
    async with serving(context) as client:
        await _send(client)
        await StoringByHand(context, broker).store_all()
        await _send(client)
        clock.advance(7.0)
        await _ask(client)
        async with client.get("/metrics") as response:
            metrics = await response.text()

    assert "\nclearspan_data_behind_seconds 7.0\n" in metrics


async def test_without_kafka_responses_have_no_data_through(
    context: ApiContext, source: MemoryEndOffsets, clock: ManualClock
) -> None:
    source.faults.extend([Unavailable("Kafka is unavailable."), Unavailable("Kafka is unavailable.")])
    async with serving(context) as client:
        assert (await _ask(client))[::2] == (200, None)
        clock.advance(REFRESH_INTERVAL_S)
        status = await _status(client)

    assert status == {"count": 0, "reason": "Kafka is unavailable.", "partitions": []}


async def test_while_kafka_is_away_status_has_the_last_read_and_a_reason(
    context: ApiContext, source: MemoryEndOffsets, clock: ManualClock
) -> None:
    asked_at = format_us(clock.now_ns() // 1_000)
    async with serving(context) as client:
        await _status(client)
        clock.advance(REFRESH_INTERVAL_S)
        source.faults.append(Unavailable("Kafka is unavailable."))
        status = await _status(client)

    assert (status["count"], status["asked_at"], status["data_through"]) == (2, asked_at, asked_at)
    assert status["reason"] == "Kafka is unavailable."


async def test_status_includes_data_stored_without_announcement(context: ApiContext, broker: MemoryBroker) -> None:
    async with serving(context) as client:
        await _send(client)
        for project_id in (DEFAULT_PROJECT_ID, ALL_PROJECTS):
            await settle(context.store, offset=0, partition_id=f"{broker.cluster_id}/spans/0", project_id=project_id)
        status = await _status(client)

    assert [partition["is_behind"] for partition in status["partitions"]] == [False, False]
    assert status["partitions"][1]["last_stored"]["offset"] == 0


async def test_record_without_a_time_is_returned_without_one(context: ApiContext, broker: MemoryBroker) -> None:
    broker.now_ms = -1
    async with serving(context) as client:
        await _send(client)
        await StoringByHand(context, broker).store_all()
        status = await _status(client)

    assert set(status["partitions"][1]["last_stored"]) == {"offset", "stored_at"}


async def test_status_has_partitions_and_the_last_record_of_the_project(
    context: ApiContext, broker: MemoryBroker, clock: ManualClock
) -> None:
    worker = StoringByHand(context, broker)
    async with serving(context) as client:
        await _send(client)
        await worker.store_all()
        clock.advance(2.0)
        await _send(client)
        status = await _status(client)

    start, now = (format_us(time_us) for time_us in (ManualClock().now_ns() // 1_000, clock.now_ns() // 1_000))
    assert (status["count"], status["data_through"], status["asked_at"]) == (2, start, now)
    quiet, busy = status["partitions"]
    assert quiet == {
        "topic": "otlp_spans",
        "partition": 0,
        "is_behind": False,
        "data_through": now,
        "behind_records": 0,
    }
    assert busy == {
        "topic": "spans",
        "partition": 0,
        "is_behind": True,
        "data_through": start,
        "last_stored": {"offset": 0, "recorded_at": start, "stored_at": start},
        "produced_offset": 1,
        "stored_offset": 0,
        "behind_records": 1,
    }


async def test_status_formats_a_record_time_outside_the_years(context: ApiContext, broker: MemoryBroker) -> None:
    """Brokers take any timestamp; this one is in the year 56 million, which no response can contain."""
    async with serving(context) as client:
        broker.now_ms *= 1_000_000
        await _send(client)
        await StoringByHand(context, broker).store_all()
        status = await _status(client)

    (stored,) = [partition["last_stored"] for partition in status["partitions"] if "last_stored" in partition]
    assert stored["recorded_at"] == "9999-12-31T23:59:59.999999Z"


async def test_status_of_a_project_reveals_no_record_counts(context: ApiContext, broker: MemoryBroker) -> None:
    settings = Settings(auth="on", admin_key=SecretStr("admin"))
    context = replace(context, settings=settings, keys=KnownKeys({"key": PROJECT_A}))
    async with serving(context) as client:
        for _ in range(3):
            await broker.append("spans", b"{}", headers=[("project-id", str(DEFAULT_PROJECT_ID).encode())])
        of_project = await _status(client, Authorization="ApiKey key")
        of_all = await _status(client, path="/admin/status/freshness", Authorization="Access admin")

    shared = {"topic": "spans", "partition": 0}
    assert of_project["partitions"][1] == shared
    assert of_all["partitions"][1] == {**shared, "is_behind": True, "produced_offset": 2, "behind_records": 3}
    assert (
        of_all["reason"]
        == of_project["reason"]
        == "A partition holds records, and none of them is known to be queryable."
    )


@pytest.mark.parametrize("producer_ahead_ms", [-60_000, 0, 60_000])
async def test_freshness_of_a_project_reveals_no_time_of_others(
    context: ApiContext, broker: MemoryBroker, clock: ManualClock, producer_ahead_ms: int
) -> None:
    """One record of another project is stored and a second one is not: only times of requests to Kafka are returned."""
    context = replace(context, settings=Settings(auth="on"), keys=KnownKeys({"key": PROJECT_A}))
    partition_id = f"{broker.cluster_id}/spans/0"
    asked_at = format_us(clock.now_ns() // 1_000)
    async with serving(context) as client:
        assert (await _ask(client, Authorization="ApiKey key"))[2] == asked_at
        broker.now_ms += 777 + producer_ahead_ms
        for offset in range(2):
            await broker.append("spans", b"{}", headers=[("project-id", str(DEFAULT_PROJECT_ID).encode())])
            if offset == 0:
                await settle(context.store, offset=0, partition_id=partition_id, project_id=ALL_PROJECTS)
        clock.advance(5.0)
        behind_through = (await _ask(client, Authorization="ApiKey key"))[2]
        status = await _status(client, Authorization="ApiKey key")
        context.stored.learn(
            [await settle(context.store, offset=1, partition_id=partition_id, project_id=ALL_PROJECTS)]
        )
        caught_up_through = (await _ask(client, Authorization="ApiKey key"))[2]

    assert behind_through == status["data_through"] == asked_at
    assert status["partitions"] == [{"topic": topic, "partition": 0} for topic in ("otlp_spans", "spans")]
    assert caught_up_through == format_us(clock.now_ns() // 1_000)


async def _status(client: aiohttp.ClientSession, path: str = "/status/freshness", **headers: str) -> dict[str, Any]:
    async with client.get(path, headers=headers) as response:
        assert response.status == 200
        found: dict[str, Any] = orjson.loads(await response.read())
        return found


def test_every_route_that_reads_spans_has_data_through() -> None:
    of_spans = ("/spans", "/traces", "/tracing", "/simple/traces")
    writing = {("POST", "/simple/traces"), ("PATCH", "/simple/traces/{trace_id}")}
    reading = [route for route in ROUTES if route.path.startswith(of_spans) and route.tag != "Intake"]

    assert len(reading) >= 7
    assert {(route.method, route.path) for route in reading if not route.reads_spans} <= writing
