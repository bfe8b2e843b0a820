"""OTLP where SDKs send by default: ``/v1/…`` at the root, and signals other than traces (contract §4)."""

from __future__ import annotations

import gzip
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from typing import Any

import aiohttp
import orjson
import pytest
from google.rpc.status_pb2 import Status  # type: ignore[import-untyped]
from opentelemetry.proto.collector.logs.v1.logs_service_pb2 import ExportLogsServiceRequest, ExportLogsServiceResponse
from opentelemetry.proto.collector.metrics.v1.metrics_service_pb2 import (
    ExportMetricsServiceRequest,
    ExportMetricsServiceResponse,
)
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest

from common.ids import DEFAULT_PROJECT_ID
from common.times import SystemClock
from query_api.http.routes import OTLP_ROUTES, ROUTES
from query_api.request.route import Route
from tests.fakes.kafka import MemoryBroker
from tests.support.api import KnownKeys, context_of, serving, status_of

PROTOBUF, JSON = "application/x-protobuf", "application/json"
PREFIXES = ["", "/otlp", "/api", "/api/otlp"]
NOW_NS = SystemClock().now_ns()


@asynccontextmanager
async def api(*, routes: tuple[Route, ...] = ROUTES, broker: MemoryBroker | None = None) -> AsyncIterator[Any]:
    context = context_of(broker=broker, clock=SystemClock(), keys=KnownKeys({"cs_key": DEFAULT_PROJECT_ID}))
    async with serving(context, routes=routes) as client:
        client.headers["Authorization"] = "ApiKey cs_key"
        yield client


def _metrics() -> ExportMetricsServiceRequest:
    """Nine data points of every kind, in two resources; a metric without data has none."""
    request = ExportMetricsServiceRequest()
    first, metrics = (request.resource_metrics.add().scope_metrics.add().metrics for _ in range(2))
    for metric in (first, metrics):
        metric.add(name="empty")
        metric.add(name="gauge").gauge.data_points.add(as_int=1)
    metrics.add().sum.data_points.extend(metrics[1].gauge.data_points)
    for kind in ("histogram", "exponential_histogram", "summary"):
        points = getattr(metrics.add(), kind).data_points
        points.add()
        points.add()
    return request


def _logs() -> ExportLogsServiceRequest:
    request = ExportLogsServiceRequest()
    for count in (1, 2):
        records = request.resource_logs.add().scope_logs.add().log_records
        for _ in range(count):
            records.add(severity_text="INFO")
    return request


METRICS_JSON = {
    "resourceMetrics": [
        {"scopeMetrics": [{"metrics": [{"name": "empty"}, {"gauge": {"dataPoints": [{"asInt": "1"}]}}]}]},
        {
            "scopeMetrics": [
                {
                    "metrics": [
                        {"gauge": {"dataPoints": [{}]}},
                        {"sum": {"dataPoints": [{}]}},
                        {"histogram": {"dataPoints": [{}, {}]}},
                        {"exponentialHistogram": {"dataPoints": [{}, {}]}},
                        {"summary": {"dataPoints": [{}, {}]}},
                    ]
                }
            ]
        },
    ]
}
LOGS_JSON: dict[str, Any] = {
    "resourceLogs": [{"scopeLogs": [{"logRecords": [{}]}]}, {"scopeLogs": [{"logRecords": [{}, {}]}]}, {}]
}
SIGNALS = pytest.mark.parametrize(
    ("signal", "as_protobuf", "as_json", "response_type", "member", "count"),
    [
        ("metrics", _metrics(), METRICS_JSON, ExportMetricsServiceResponse, "rejectedDataPoints", 9),
        ("logs", _logs(), LOGS_JSON, ExportLogsServiceResponse, "rejectedLogRecords", 3),
    ],
    ids=["metrics", "logs"],
)


@SIGNALS
@pytest.mark.parametrize("prefix", PREFIXES)
@pytest.mark.parametrize("compressed", [bytes, gzip.compress], ids=["plain", "gzip"])
async def test_other_signals_are_counted_and_rejected(
    prefix: str, signal: str, as_protobuf: Any, as_json: Any, response_type: Any, member: str, count: int,
    compressed: Callable[[bytes], bytes],
) -> None:  # fmt: skip
    broker = MemoryBroker()
    encoding = {"Content-Encoding": "gzip"} if compressed is gzip.compress else {}
    async with api(broker=broker) as client:
        path = f"{prefix}/v1/{signal}"
        answer = await client.post(
            path, data=compressed(as_protobuf.SerializeToString()), headers={"Content-Type": PROTOBUF, **encoding}
        )
        partial_success = response_type.FromString(await answer.read()).partial_success
        in_json = await client.post(
            path, data=compressed(orjson.dumps(as_json)), headers={"Content-Type": JSON, **encoding}
        )
        partial_success_in_json = (await in_json.json())["partialSuccess"]

    assert (answer.status, in_json.status) == (200, 200)
    assert (answer.content_type, in_json.content_type) == (PROTOBUF, JSON)
    assert getattr(partial_success, "rejected_data_points" if signal == "metrics" else "rejected_log_records") == count
    assert partial_success_in_json[member] == str(count)
    assert partial_success_in_json["errorMessage"].split(":")[0] == partial_success.error_message.split(":")[0]
    assert {"metrics": "stores no metrics", "logs": "has no time"}[signal] in partial_success.error_message
    assert not any(broker.records(topic) for topic in ("otlp_spans", "spans", "otlp_logs"))


@SIGNALS
async def test_empty_export_is_a_full_success(
    signal: str, as_protobuf: Any, as_json: Any, response_type: Any, member: str, count: int
) -> None:
    async with api() as client:
        for content_type, body, answer in (
            (PROTOBUF, b"", b""),
            (JSON, b"{}", b'{"partialSuccess":{}}'),
            (JSON, b"", b'{"partialSuccess":{}}'),
        ):
            response = await client.post(f"/v1/{signal}", data=body, headers={"Content-Type": content_type})
            assert (response.status, await response.read()) == (200, answer)


@SIGNALS
@pytest.mark.parametrize(
    ("content_type", "body"),
    [
        (PROTOBUF, b"\xff\xff{"),
        (JSON, b"{"),
        (JSON, b"[]"),
        (JSON, b'{"resourceMetrics": {}, "resourceLogs": {}}'),
        (JSON, b'{"resourceMetrics": [1], "resourceLogs": [1]}'),
    ],
)
async def test_unreadable_body_is_a_status_in_the_same_encoding(
    content_type: str, body: bytes, signal: str, as_protobuf: Any, as_json: Any, response_type: Any, member: str, count: int
) -> None:  # fmt: skip
    async with api() as client:
        response = await client.post(f"/v1/{signal}", data=body, headers={"Content-Type": content_type})
        content = await response.read()

    assert (response.status, response.content_type) == (400, content_type)
    status = orjson.loads(content)["code"] if content_type == JSON else Status.FromString(content).code
    assert status == 3


@pytest.mark.parametrize("routes", [ROUTES, OTLP_ROUTES], ids=["API", "port of OTLP"])
@pytest.mark.parametrize("prefix", PREFIXES)
async def test_traces_are_accepted_at_the_usual_path(prefix: str, routes: tuple[Route, ...]) -> None:
    broker = MemoryBroker()
    request = ExportTraceServiceRequest()
    span = request.resource_spans.add().scope_spans.add().spans.add(trace_id=b"t" * 16, span_id=b"12345678", name="n")
    span.start_time_unix_nano = span.end_time_unix_nano = NOW_NS
    async with api(routes=routes, broker=broker) as client:
        headers = {"Content-Type": PROTOBUF}
        response = await client.post(f"{prefix}/v1/traces", data=request.SerializeToString(), headers=headers)
        ready = await client.get(f"{prefix}/v1/traces")

    assert (response.status, ready.status) == (200, 200)
    assert [record.key for record in broker.records("otlp_spans")] == [b"t" * 16]


@pytest.mark.parametrize("signal", ["traces", "metrics", "logs"])
async def test_otlp_port_requires_a_key(signal: str) -> None:
    async with api(routes=OTLP_ROUTES) as client:
        del client.headers["Authorization"]
        assert await status_of(client.post(f"/v1/{signal}", data=b"", headers={"Content-Type": PROTOBUF})) == 401


async def test_otlp_port_serves_only_otlp_and_health() -> None:
    async with api(routes=OTLP_ROUTES) as client:
        answered = {path: await status_of(client.get(path)) for path in ("/livez", "/readyz", "/health")}
        others = (
            "/",
            "/docs",
            "/openapi.json",
            "/metrics",
            "/spans",
            "/traces",
            "/applications/query",
            "/admin/simple/accounts",
        )
        hidden = {path: await status_of(client.get(path)) for path in others}

    assert set(answered.values()) == {200}
    assert set(hidden.values()) <= {401, 404}
    assert hidden["/spans"] == 404


@pytest.mark.parametrize("path", ["/", "/api", "/api/"])
@pytest.mark.parametrize(
    ("accept", "content_type"),
    [
        ("text/html,application/xhtml+xml,*/*;q=0.8", "text/html"),
        ("*/*", "application/json"),
        ("application/json", "application/json"),
        ("text/html;q=0, application/json", "application/json"),
    ],
)
async def test_root_is_the_explorer_for_browsers_and_links_for_programs(
    path: str, accept: str, content_type: str
) -> None:
    async with api() as client:
        response = await client.get(path, headers={"Accept": accept})
        content = await response.text()
        links = (await (await client.get("/", headers={"Accept": "application/json"})).json())["links"]
        statuses = {await status_of(client.get(link.removeprefix("."))) for link in links.values()}

    assert (response.status, response.content_type) == (200, content_type)
    assert "Accept" in response.headers["Vary"].split(", ")
    assert statuses == {200}
    if content_type == "text/html":
        assert response.headers["Content-Security-Policy"].startswith("default-src 'none'; ")
        assert "files/main.js" in content


async def test_root_needs_no_key() -> None:
    async with api() as client:
        del client.headers["Authorization"]
        response: aiohttp.ClientResponse = await client.get("/")
        assert response.status == 200
