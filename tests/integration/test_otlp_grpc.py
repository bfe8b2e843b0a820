"""OTLP over gRPC: the SDK's exporter, the same answers as over HTTP, and clients that misbehave (contract §4)."""

from __future__ import annotations

import asyncio
import socket
from collections.abc import AsyncIterator, Callable
from contextlib import ExitStack, asynccontextmanager
from typing import Any

import grpc
import pytest
from google.rpc.error_details_pb2 import RetryInfo  # type: ignore[import-untyped]
from google.rpc.status_pb2 import Status  # type: ignore[import-untyped]
from opentelemetry.exporter.otlp.proto.grpc.trace_exporter import OTLPSpanExporter
from opentelemetry.proto.collector.logs.v1.logs_service_pb2 import ExportLogsServiceRequest, ExportLogsServiceResponse
from opentelemetry.proto.collector.metrics.v1.metrics_service_pb2 import (
    ExportMetricsServiceRequest,
    ExportMetricsServiceResponse,
)
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import (
    ExportTraceServiceRequest,
    ExportTraceServiceResponse,
)
from opentelemetry.sdk.trace import ReadableSpan, TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor, SpanExportResult
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter

from common.errors import Overloaded, Unavailable
from common.ids import DEFAULT_PROJECT_ID
from common.settings import HttpSettings, InvalidSettings, LimitSettings, Settings
from common.times import SystemClock
from query_api.http import otlp_grpc
from query_api.http.dispatch import StartupState
from tests.fakes.kafka import MemoryBroker
from tests.support.api import PROJECT_A, KnownKeys, context_of, serving
from tests.support.otlp_grpc import LOGS, METRICS, TRACES, serving_grpc
from tests.support.ports import free_port

NOW_NS = SystemClock().now_ns()
BODY_MAX = 100_000
KEYS = KnownKeys({"cs_a": PROJECT_A, "cs_b": DEFAULT_PROJECT_ID})
A = (("authorization", "ApiKey cs_a"),)


def _settings(**http: float) -> Settings:
    limits = LimitSettings(body_bytes_max=BODY_MAX, record_bytes_max=BODY_MAX, span_bytes_max=BODY_MAX)
    return Settings(limits=limits, http=HttpSettings(connections_max=10, **http), auth="on")


@asynccontextmanager
async def connected(
    broker: MemoryBroker | None = None, *, publisher: Any = None, settings: Settings | None = None
) -> AsyncIterator[grpc.aio.Channel]:
    context = context_of(
        broker=broker, clock=SystemClock(), keys=KEYS, settings=settings or _settings(), publisher=publisher
    )
    async with serving_grpc(context) as address, grpc.aio.insecure_channel(address) as channel:
        yield channel


def _request(*span_ids: bytes, padding: int = 0) -> bytes:
    request = ExportTraceServiceRequest()
    spans = request.resource_spans.add().scope_spans.add().spans
    for span_id in span_ids:
        span = spans.add(trace_id=b"t" * 16, span_id=span_id, name="n" + "x" * padding)
        span.start_time_unix_nano = span.end_time_unix_nano = NOW_NS
    body: bytes = request.SerializeToString()
    return body


async def _refused(call: Any) -> tuple[grpc.StatusCode, str, float | None]:
    """Return code, message and when to retry."""
    with pytest.raises(grpc.aio.AioRpcError) as caught:
        await call
    error = caught.value
    details = dict(error.trailing_metadata() or ()).get("grpc-status-details-bin")
    retry_s = None
    if details is not None:
        status = Status.FromString(details)
        assert (status.code, status.message) == (error.code().value[0], error.details())
        for detail in status.details:
            info = RetryInfo()
            assert detail.Unpack(info)
            retry_s = info.retry_delay.ToTimedelta().total_seconds()
    return error.code(), error.details() or "", retry_s


def _spans(count: int) -> list[ReadableSpan]:
    memory = InMemorySpanExporter()
    provider = TracerProvider(shutdown_on_exit=False)
    provider.add_span_processor(SimpleSpanProcessor(memory))
    for number in range(count):
        provider.get_tracer("test").start_span(f"s{number}").end()
    return list(memory.get_finished_spans())


async def _export(address: str, spans: list[ReadableSpan], **options: Any) -> SpanExportResult:
    """Export with the SDK's exporter in a thread."""

    def export() -> SpanExportResult:
        exporter = OTLPSpanExporter(endpoint=f"http://{address}", timeout=60, **options)
        try:
            return exporter.export(spans)
        finally:
            exporter.shutdown()

    return await asyncio.to_thread(export)


@pytest.mark.parametrize("compression", [None, grpc.Compression.Gzip], ids=["plain", "gzip"])
async def test_default_exporter_of_the_sdk_stores_spans_in_the_project_of_its_key(
    compression: grpc.Compression | None,
) -> None:
    broker = MemoryBroker()
    context = context_of(broker=broker, clock=SystemClock(), keys=KEYS, settings=_settings())
    async with serving_grpc(context) as address:
        headers = {"authorization": "ApiKey cs_a"}
        result = await _export(address, _spans(3), compression=compression, headers=headers)
        wrong = await _export(address, _spans(1), headers={"authorization": "ApiKey cs_c"})

    assert (result, wrong) == (SpanExportResult.SUCCESS, SpanExportResult.FAILURE)
    records = broker.records("otlp_spans")
    names = [
        span.name
        for record in records
        for resource in ExportTraceServiceRequest.FromString(record.value or b"").resource_spans
        for scope in resource.scope_spans
        for span in scope.spans
    ]
    assert sorted(names) == ["s0", "s1", "s2"]
    assert {record.header("project-id") for record in records} == {str(PROJECT_A).encode()}


async def test_exporter_waits_for_a_server_that_is_down() -> None:
    broker, port = MemoryBroker(), free_port()
    context = context_of(broker=broker, clock=SystemClock(), keys=KEYS, settings=_settings())
    exporting = asyncio.create_task(_export(f"127.0.0.1:{port}", _spans(1), headers={"authorization": "cs_a"}))
    await asyncio.sleep(0.3)
    async with serving_grpc(context, port=port):
        assert await exporting is SpanExportResult.SUCCESS

    assert len(broker.records("otlp_spans")) == 1


async def test_wrong_key_is_unauthenticated_before_the_message_is_read() -> None:
    broker = MemoryBroker()
    async with connected(broker) as channel:
        for metadata in ((), (("authorization", "ApiKey cs_c"),), (("authorization", "Bearer cs_a"),)):
            call = channel.stream_unary(TRACES)(metadata=metadata)  # sends no message
            code, _, retry_s = await _refused(call)
            assert (code, retry_s) == (grpc.StatusCode.UNAUTHENTICATED, None)

    assert not broker.records("otlp_spans")


@pytest.mark.parametrize("path", [TRACES, METRICS, LOGS])
async def test_rejected_parts_are_reported_exactly_as_over_http(path: str) -> None:
    metrics, logs = ExportMetricsServiceRequest(), ExportLogsServiceRequest()
    gauge = metrics.resource_metrics.add().scope_metrics.add().metrics.add(name="m").gauge
    gauge.data_points.add(as_int=1)
    logs.resource_logs.add().scope_logs.add().log_records.add(severity_text="INFO")
    bodies: dict[str, tuple[bytes, str, Any]] = {
        TRACES: (_request(b"12345678", b"short"), "traces", ExportTraceServiceResponse),
        METRICS: (metrics.SerializeToString(), "metrics", ExportMetricsServiceResponse),
        LOGS: (logs.SerializeToString(), "logs", ExportLogsServiceResponse),
    }
    body, signal, response_type = bodies[path]
    context = context_of(clock=SystemClock(), keys=KEYS, settings=_settings())
    async with serving(context) as client, connected() as channel:
        response = await client.post(
            f"/v1/{signal}",
            data=body,
            headers={"Content-Type": "application/x-protobuf", "Authorization": "ApiKey cs_a"},
        )
        over_http = await response.read()
        over_grpc = await channel.unary_unary(path)(body, metadata=A)
        empty = await channel.unary_unary(path)(b"", metadata=A)

    assert over_grpc == over_http
    partial_success = response_type.FromString(over_grpc).partial_success
    assert "rejected" in str(partial_success)
    assert partial_success.error_message
    assert empty == b""


async def test_garbage_is_an_invalid_argument() -> None:
    async with connected() as channel:
        code, message, retry_s = await _refused(channel.unary_unary(TRACES)(b"\xff\xff{", metadata=A))

    assert (code, retry_s) == (grpc.StatusCode.INVALID_ARGUMENT, None)
    assert message


@pytest.mark.parametrize("compression", [None, grpc.Compression.Gzip], ids=["plain", "gzip"])
async def test_message_that_is_too_large_is_not_to_be_retried(compression: grpc.Compression | None) -> None:
    broker = MemoryBroker()
    async with connected(broker) as channel:
        send = channel.unary_unary(TRACES)
        fits = BODY_MAX - len(_request(b"12345678")) - 40
        await send(_request(b"12345678", padding=fits), metadata=A, compression=compression)
        code, message, retry_s = await _refused(
            send(_request(b"12345678", padding=BODY_MAX), metadata=A, compression=compression)
        )

    assert (code, retry_s) == (grpc.StatusCode.RESOURCE_EXHAUSTED, None)
    assert "larger than max" in message
    assert len(broker.records("otlp_spans")) == 1


@pytest.mark.parametrize(
    ("error", "code"),
    [
        (Overloaded("Busy.", retry_after_s=2.5), grpc.StatusCode.RESOURCE_EXHAUSTED),
        (Unavailable("Kafka is away.", retry_after_s=2.5), grpc.StatusCode.UNAVAILABLE),
    ],
)
async def test_back_pressure_says_when_to_retry(error: Exception, code: grpc.StatusCode) -> None:
    class Failing:
        def partitions_count(self, topic: str) -> None:
            return None

        async def publish(self, *arguments: Any, **more: Any) -> None:
            raise error

    async with connected(publisher=Failing()) as channel:
        refused = await _refused(channel.unary_unary(TRACES)(_request(b"12345678"), metadata=A))

    assert refused == (code, str(error), 3.0)


async def test_bug_of_ours_is_internal_and_names_only_its_log_entry() -> None:
    class Broken:
        def partitions_count(self, topic: str) -> None:
            return None

        async def publish(self, *arguments: Any, **more: Any) -> None:
            raise RuntimeError("secret")

    async with connected(publisher=Broken()) as channel:
        code, message, _ = await _refused(channel.unary_unary(TRACES)(_request(b"12345678"), metadata=A))

    assert code is grpc.StatusCode.INTERNAL
    assert "secret" not in message
    assert "operation_id" in message


async def test_error_that_cannot_be_reported_is_internal_and_names_only_its_log_entry(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def broken(*_: Any) -> bytes:
        raise RuntimeError("secret")

    monkeypatch.setattr("query_api.http.otlp_grpc.code_of", broken)
    async with connected() as channel:
        code, message, _ = await _refused(channel.unary_unary(TRACES)(b"garbage", metadata=A))

    assert code is grpc.StatusCode.INTERNAL
    assert "secret" not in message
    assert "RuntimeError" not in message
    assert "operation_id" in message


async def test_start_without_postgres_is_unavailable() -> None:
    context = context_of(clock=SystemClock(), keys=KEYS, settings=_settings())
    state = StartupState(context, waits_for="Starting: waiting for Postgres.")
    async with serving_grpc(context, state=state) as address, grpc.aio.insecure_channel(address) as channel:
        code, message, retry_s = await _refused(channel.unary_unary(TRACES)(_request(b"12345678"), metadata=A))

    assert (code, message, retry_s) == (grpc.StatusCode.UNAVAILABLE, state.waits_for, 1.0)


async def test_coordinates_and_request_id_follow_the_response() -> None:
    async with connected() as channel:
        call = channel.unary_unary(TRACES)(_request(b"12345678"), metadata=(*A, ("x-request-id", "mine-1")))
        await call
        trailing = dict(await call.trailing_metadata())

    assert trailing["x-request-id"] == "mine-1"
    assert trailing["x-clearspan-coordinates"]


async def test_message_that_never_comes_ends_in_time_and_frees_its_place(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(otlp_grpc, "RECEIVING_MAX", 2)
    async with connected(settings=_settings(body_timeout_s=0.5)) as channel:
        silent = [channel.stream_unary(TRACES)(metadata=A) for _ in range(2)]
        refusals = await asyncio.gather(*map(_refused, silent))
        code = grpc.StatusCode.INVALID_ARGUMENT
        while code is grpc.StatusCode.INVALID_ARGUMENT:  # a busy machine may need half a second for this message too
            code = await channel.unary_unary(TRACES)(_request(b"12345678"), metadata=A).code()

    assert code is grpc.StatusCode.OK
    assert {code for code, _, _ in refusals} == {grpc.StatusCode.INVALID_ARGUMENT}
    assert all("too slowly" in message for _, message, _ in refusals)


async def test_silent_calls_of_one_project_do_not_delay_its_neighbor(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(otlp_grpc, "RECEIVING_MAX", 2)
    receive, arrived = otlp_grpc.OtlpGrpcServer._receive, 0

    async def counted(server: otlp_grpc.OtlpGrpcServer, call: Any) -> bytes:
        nonlocal arrived
        arrived += 1
        return await receive(server, call)

    monkeypatch.setattr(otlp_grpc.OtlpGrpcServer, "_receive", counted)
    async with connected() as channel:
        silent = [channel.stream_unary(TRACES)(metadata=A) for _ in range(5)]  # 5 of 10 calls: the share
        while arrived < len(silent):  # noqa: ASYNC110 - what is waited for is the effect of another call
            await asyncio.sleep(0.01)
        neighbor = channel.unary_unary(TRACES)(_request(b"12345678"), metadata=(("authorization", "cs_b"),), timeout=60)
        assert await neighbor == b""
        code, message, retry_s = await _refused(channel.unary_unary(TRACES)(b"", metadata=A))
        for call in silent:
            call.cancel()

    assert (code, message, retry_s) == (grpc.StatusCode.RESOURCE_EXHAUSTED, "Too many calls are being served.", 1.0)


async def test_burst_of_calls_is_served_or_told_when_to_retry() -> None:
    broker = MemoryBroker()
    async with connected(broker) as channel:
        calls = [channel.unary_unary(TRACES)(_request(b"12345678"), metadata=A) for _ in range(300)]
        codes = await asyncio.gather(*(call.code() for call in calls))
        refused = [call for call, code in zip(calls, codes, strict=True) if code is not grpc.StatusCode.OK]
        refusals = [await _refused(call) for call in refused]

    assert len(broker.records("otlp_spans")) == 300 - len(refused) > 0
    assert set(refusals) <= {(grpc.StatusCode.RESOURCE_EXHAUSTED, "Too many calls are being served.", 1.0)}


async def test_half_open_connections_are_closed_and_their_number_is_limited() -> None:
    context = context_of(clock=SystemClock(), keys=KEYS, settings=_settings(header_timeout_s=1.0))
    async with serving_grpc(context) as address:
        host, port = address.split(":")
        with ExitStack() as opened:
            silent = [opened.enter_context(socket.create_connection((host, int(port)))) for _ in range(15)]
            silent[0].sendall(b"GET / HTTP/1.1\r\nHost: x\r\n\r\n")
            silent[1].sendall(b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n" + b"\xff" * 1_000)
            closed = await asyncio.gather(*(asyncio.to_thread(_is_closed_in_time, each) for each in silent))
        async with grpc.aio.insecure_channel(address) as channel:
            assert await channel.unary_unary(TRACES)(_request(b"12345678"), metadata=A, wait_for_ready=True) == b""

    assert all(closed)


def _is_closed_in_time(connection: socket.socket) -> bool:
    connection.settimeout(20.0)
    try:
        while connection.recv(10_000):
            pass
    except TimeoutError:
        return False
    except ConnectionError:
        pass
    return True


async def test_taken_port_is_named_with_its_setting() -> None:
    with socket.create_server(("127.0.0.1", 0)) as holder:
        port = holder.getsockname()[1]
        with pytest.raises(InvalidSettings, match=f"CLEARSPAN_OTLP_GRPC_PORT are 127.0.0.1:{port}"):
            async with serving_grpc(context_of(), port=port):
                pass


async def test_stop_waits_for_calls_that_run() -> None:
    published, go_on = asyncio.Event(), asyncio.Event()
    broker = MemoryBroker()
    inner: Callable[..., Any] = broker.publisher().publish

    class Slow:
        partitions_count = broker.publisher().partitions_count

        async def publish(self, *arguments: Any, **more: Any) -> Any:
            published.set()
            await go_on.wait()
            return await inner(*arguments, **more)

    slow: Any = Slow()
    context = context_of(clock=SystemClock(), keys=KEYS, settings=_settings(), publisher=slow)
    serving_now = serving_grpc(context)
    address = await serving_now.__aenter__()
    async with grpc.aio.insecure_channel(address) as channel:
        running = asyncio.ensure_future(_await(channel.unary_unary(TRACES)(_request(b"12345678"), metadata=A)))
        await published.wait()
        stopping = asyncio.create_task(serving_now.__aexit__(None, None, None))
        await asyncio.sleep(0.1)
        assert not stopping.done()
        go_on.set()
        assert await running == b""
        await stopping

    assert len(broker.records("otlp_spans")) == 1


async def _await(call: Any) -> Any:
    return await call
