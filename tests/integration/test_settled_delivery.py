"""Subscriptions to settled traces: each trace whole, once for each time it settles (contract §3.6, ADR 0049)."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest
from aiohttp import web
from pyarrow import dataset

from common.clickhouse.store import ColumnStore
from common.postgres.pool import Database
from common.stored_position import ALL_PROJECTS
from jobs.subscriptions.delivery import LEFT_OUT
from tests.support.delivery import PARTITION, Deliveries, Receiver, deliveries, delivery_settings, receiving
from tests.support.feed import settle

ON: dict[str, Any] = {"on": "settled_traces"}
LARGE = {"text": "x" * 20_000}
ROOT = (1).to_bytes(8, "big") * 2


@pytest.fixture
async def api(store: ColumnStore, database: Database, tmp_path: Path) -> AsyncIterator[Deliveries]:
    settings = delivery_settings(parquet_directory=tmp_path)
    query = settings.query.model_copy(update={"trace_bytes_max": 50_000})
    settings = settings.model_copy(update={"settling_s": 0.3, "settling_max_s": 1.0, "query": query})
    async with deliveries(store, database, settings) as api:
        yield api


async def send(api: Deliveries, trace: int, *numbers: int, **members: Any) -> None:
    """Store spans of a trace: 1 is its root."""
    for number in numbers:
        parent = None if number == 1 else ROOT
        of_trace = {"trace_id": trace.to_bytes(16, "big"), "parent_id": parent, **members}
        await store_span(api, number, of_trace)


async def store_span(api: Deliveries, number: int, members: dict[str, Any]) -> None:
    await api.store([number], **members)
    offset = api.offsets[PARTITION]
    await settle(api.context.store, offset=offset, partition_id=PARTITION, project_id=ALL_PROJECTS)


def traces_of(receiver: Receiver) -> list[tuple[int, int, str, list[str]]]:
    return [
        (
            int(trace["trace_id"], 16),
            trace["settled"]["generation"],
            trace["settled"]["reason"],
            sorted(span["span_name"] for span in trace["spans"]),
        )
        for message in receiver.messages
        for trace in message.body["data"]["traces"]
    ]


async def until_traces(receiver: Receiver, count: int) -> None:
    async with asyncio.timeout(60):
        while len(traces_of(receiver)) < count:  # noqa: ASYNC110 - what is waited for is the effect of a request
            await asyncio.sleep(0.02)


async def test_trace_is_delivered_whole_once_for_each_time_it_settles(api: Deliveries) -> None:
    await send(api, 1, 1, 2)
    async with receiving() as receiver, api.delivering():
        created = await api.webhook(receiver, **ON, **{"from": "beginning"})
        await until_traces(receiver, 1)
        await send(api, 1, 3)
        await until_traces(receiver, 2)
        await send(api, 2, 5)
        await until_traces(receiver, 3)
        state = await api.until(lambda found: found["delivered"]["spans"] == 6 and found["lag_s"] == 0)

    assert created["on"] == state["on"] == "settled_traces"
    assert traces_of(receiver) == [
        (1, 1, "complete", ["s1", "s2"]),
        (1, 2, "complete", ["s1", "s2", "s3"]),
        (2, 1, "incomplete", ["s5"]),
    ]
    assert receiver.messages[0].body["type"] == "settled_traces"
    assert len({message.id for message in receiver.messages}) == len(receiver.messages)


async def test_batch_is_retried_under_its_id(api: Deliveries) -> None:
    await send(api, 1, 1, 2)
    async with receiving() as receiver, api.delivering():
        receiver.keeps_refused = True
        receiver.respond = lambda number: web.Response(status=503 if number < 2 else 200)
        await api.webhook(receiver, **ON, **{"from": "beginning"})
        await api.until(lambda found: found["delivered"]["spans"] == 2)

    assert traces_of(receiver) == [(1, 1, "complete", ["s1", "s2"])] * 3
    assert len({message.id for message in receiver.messages}) == 1


async def test_filter_chooses_traces_with_a_matching_span(api: Deliveries) -> None:
    await send(api, 1, 1, 2)
    await send(api, 2, 1, 3)
    named = {"filtering": {"conditions": [{"field": "span_name", "value": "s3"}]}}
    async with receiving() as receiver, api.delivering():
        await api.webhook(receiver, **ON, filtering=named["filtering"], **{"from": "beginning"})
        await until_traces(receiver, 1)

    assert traces_of(receiver) == [(2, 1, "complete", ["s1", "s3"])]


async def test_replay_and_positions_are_those_of_the_feed(api: Deliveries) -> None:
    await send(api, 1, 1)
    async with receiving() as receiver, api.delivering():
        await api.webhook(receiver, **ON, **{"from": "beginning"})
        await until_traces(receiver, 1)
        await api.call("POST", "/subscriptions/hook/replay", {"from": "beginning"})
        await until_traces(receiver, 2)
        state = await api.until(lambda found: found["delivered"]["batches"] == 2)
        await api.webhook(receiver, slug="same", **ON, **{"from": state["position"]})
        await api.call(
            "POST",
            "/subscriptions/",
            {
                "subscription": {
                    "slug": "other",
                    "target": {"kind": "webhook", "url": receiver.url},
                    "from": state["position"],
                }
            },
            status=400,
        )
    assert traces_of(receiver)[0] == traces_of(receiver)[1]


async def test_parquet_files_have_the_spans_of_the_traces(api: Deliveries, tmp_path: Path) -> None:
    folder = "00000000-0000-7000-8000-00000000000b"
    await api.create("hook", {"kind": "parquet", "url": f"file:///{folder}"}, **ON, **{"from": "beginning"})
    await send(api, 1, 1, 2)
    async with api.delivering():
        await api.until(lambda found: found["delivered"]["spans"] == 2)
    project_id = api.context.settings.default_project_id
    rows = dataset.dataset(str(tmp_path / str(project_id) / folder), format="parquet").to_table()
    assert sorted(rows["span_name"].to_pylist()) == ["s1", "s2"]


@pytest.fixture
def small_reads(monkeypatch: pytest.MonkeyPatch) -> None:
    """Traces that are large are read one by one."""
    monkeypatch.setattr("query_api.pages.settled_feed.SPANS_PER_READ", 1)


@pytest.mark.usefixtures("small_reads")
async def test_trace_that_is_too_large_is_delivered_without_spans(api: Deliveries) -> None:
    async with receiving() as receiver, api.delivering():
        await api.webhook(receiver, **ON, **{"from": "beginning"})
        await send(api, 1, 1)
        await send(api, 2, 1, 2, 3, 4, attributes=LARGE)
        await until_traces(receiver, 2)
        await send(api, 3, 1)
        await until_traces(receiver, 3)
        state = await api.until(lambda found: found["delivered"]["batches"] >= 3 and "pending" not in found)

    delivered = traces_of(receiver)
    assert [each for each in delivered if each[0] != 2] == [(1, 1, "complete", ["s1"]), (3, 1, "complete", ["s1"])]
    [*_, (_, _, _, names)] = [each for each in delivered if each[0] == 2]
    assert names == []
    large = [trace for message in receiver.messages for trace in message.body["data"]["traces"]]
    assert [trace["spans_left_out"] for trace in large if int(trace["trace_id"], 16) == 2][-1:] == [4]
    assert (state["status"], state["rejected"]["spans"]) == ("active", 4)
    assert state["rejected"]["reason"] == LEFT_OUT


@pytest.mark.usefixtures("small_reads")
@pytest.mark.parametrize("kind", ["parquet", "otlp"])
async def test_target_of_spans_gets_nothing_of_a_trace_that_is_too_large(
    api: Deliveries, tmp_path: Path, kind: str
) -> None:
    await send(api, 2, 1, 2, 3, 4, attributes=LARGE)
    target = {"kind": kind, **({"url": "file:///spans"} if kind == "parquet" else {"endpoint": "http://127.0.0.1:9/"})}
    async with api.delivering():
        await api.create("hook", target, **ON, **{"from": "beginning"})
        state = await api.until(lambda found: "rejected" in found)
    assert (state["status"], state["rejected"]["spans"], state["delivered"]["spans"]) == ("active", 4, 0)
    assert list(tmp_path.rglob("*.parquet")) == []  # noqa: ASYNC240 - a test may wait for a folder


async def test_only_known_feeds_are_accepted(api: Deliveries) -> None:
    target = {"kind": "webhook", "url": "http://127.0.0.1:1/"}
    for on in ("traces", None, 1):
        body = {"subscription": {"slug": "hook", "target": target, "on": on}}
        await api.call("POST", "/subscriptions/", body, status=422)
