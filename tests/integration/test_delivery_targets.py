"""Subscriptions to OTLP endpoints and Parquet files: from the store to the receiver, and what is refused."""

from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest
from aiohttp import web
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest
from pyarrow import dataset

from common.clickhouse.store import ColumnStore
from common.postgres.pool import Database
from tests.support.delivery import Deliveries, deliveries, delivery_settings

OTHER = "00000000-0000-7000-8000-00000000000b"


@pytest.fixture
async def api(store: ColumnStore, shared_database: Database, tmp_path: Path) -> AsyncIterator[Deliveries]:
    settings = delivery_settings(parquet_directory=tmp_path, s3_buckets=["spans"])
    async with deliveries(store, shared_database, settings) as opened:
        yield opened


async def test_otlp_endpoint_gets_every_span_and_its_rejections_are_recorded(api: Deliveries) -> None:
    requests: list[ExportTraceServiceRequest] = []

    async def receive(request: web.Request) -> web.Response:
        assert request.headers["Authorization"] == "Bearer x"
        requests.append(ExportTraceServiceRequest.FromString(await request.read()))
        if len(requests) == 1:
            return web.Response(status=503, headers={"Retry-After": "0"})
        return web.json_response({"partialSuccess": {"rejectedSpans": "2", "errorMessage": "too old"}})

    app = web.Application()
    app.router.add_post("/v1/traces", receive)
    runner = web.AppRunner(app)
    await runner.setup()
    await web.TCPSite(runner, "127.0.0.1", 0).start()
    endpoint = f"http://127.0.0.1:{runner.addresses[0][1]}"
    await api.store([1, 2, 3])
    target = {"kind": "otlp", "endpoint": endpoint, "headers": {"Authorization": "Bearer x"}}
    created = await api.create("hook", target, **{"from": "beginning"})

    async with api.delivering():
        state = await api.until(lambda found: found["delivered"]["spans"] == 3)
    await runner.cleanup()

    assert created["target"] == {"kind": "otlp", "endpoint": endpoint, "ag": False}
    assert "Bearer" not in str(state)
    assert [_names(request) for request in requests] == [["s1", "s2", "s3"]] * 2
    assert state["rejected"]["spans"] == 2
    assert state["rejected"]["reason"] == "too old"


def _names(request: ExportTraceServiceRequest) -> list[str]:
    return [span.name for each in request.resource_spans for scope in each.scope_spans for span in scope.spans]


async def test_directory_gets_every_span(api: Deliveries, tmp_path: Path) -> None:
    await api.create("hook", {"kind": "parquet", "url": f"file:///{OTHER}/out"}, **{"from": "beginning"})
    await api.store([1, 2])

    async with api.delivering():
        await api.until(lambda found: found["delivered"]["spans"] == 2)
        await api.store([3])
        state = await api.until(lambda found: found["delivered"]["spans"] == 3)

    project_id = api.context.settings.default_project_id
    rows = dataset.dataset(str(tmp_path / str(project_id) / OTHER / "out"), format="parquet").to_table()
    assert sorted(rows["span_name"].to_pylist()) == ["s1", "s2", "s3"]
    assert "rejected" not in state
    assert _names_in(tmp_path) == [str(project_id)]


def _names_in(folder: Path) -> list[str]:
    return [path.name for path in folder.iterdir()]


BAD: list[tuple[dict[str, Any], int, str]] = [
    ({"kind": "parquet", "url": "file:///../x"}, 400, "subscription.target.url: '../x' is not a path of names"),
    ({"kind": "parquet", "url": "s3://other/x"}, 400, "CLEARSPAN_DELIVERY__S3_BUCKETS"),
    ({"kind": "parquet", "url": "ftp://x/y"}, 400, "allowed: file:///folder and s3://bucket/prefix"),
    ({"kind": "parquet"}, 422, "url"),
    ({"kind": "otlp", "endpoint": "ftp://x"}, 422, "must begin with https:// or http://"),
    ({"kind": "otlp", "endpoint": "http://x", "headers": {"Host": "y"}}, 422, "'Host' cannot be set"),
    ({"kind": "otlp", "endpoint": "http://x", "headers": {"a b": "y"}}, 422, "'a b' cannot be set"),
    ({"kind": "otlp", "endpoint": "http://x", "headers": {"a": "y\r\nb: c"}}, 422, "printable ASCII"),
    ({"kind": "otlp", "endpoint": "http://x", "headers": {str(number): "" for number in range(33)}}, 422, "33"),
    ({"kind": "otlp", "endpoint": "http://x", "tls": True}, 422, "tls"),
]


async def test_bad_target_is_refused_with_its_place(api: Deliveries) -> None:
    for target, status, words in BAD:
        body = {"subscription": {"slug": "bad", "target": target}}

        refused = await api.call("POST", "/subscriptions/", body, status=status)

        assert words in str(refused["detail"]), target


async def test_private_endpoint_is_400_that_names_the_setting(store: ColumnStore, shared_database: Database) -> None:
    async with deliveries(store, shared_database, delivery_settings(private_addresses="off")) as api:
        for target, words in (
            ({"kind": "otlp", "endpoint": "http://127.0.0.1:4318"}, "CLEARSPAN_DELIVERY__PRIVATE_ADDRESSES"),
            ({"kind": "parquet", "url": "file:///x"}, "CLEARSPAN_DELIVERY__PARQUET_DIRECTORY"),
        ):
            body = {"subscription": {"slug": "bad", "target": target}}
            refused = await api.call("POST", "/subscriptions/", body, status=400)
            assert words in refused["detail"]


async def test_folder_that_cannot_be_written_is_a_warning(api: Deliveries, tmp_path: Path) -> None:
    own = tmp_path / str(api.context.settings.default_project_id)
    own.mkdir()
    (own / "file").write_bytes(b"")
    body = {"subscription": {"slug": "w", "target": {"kind": "parquet", "url": "file:///file"}}}

    created = await api.call("POST", "/subscriptions/", body)

    assert "is not a directory. Delivery is retried." in created["warning"]
