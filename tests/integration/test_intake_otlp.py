"""OTLP over HTTP: the responses, and that the records in Kafka decode to what was sent (contract §4)."""

from __future__ import annotations

import asyncio
import gzip
import json
import zlib
from collections.abc import AsyncIterator, Sequence
from pathlib import Path

import aiohttp
import pytest
from google.rpc.status_pb2 import Status  # type: ignore[import-untyped]
from opentelemetry.exporter.otlp.proto.common.trace_encoder import encode_spans
from opentelemetry.exporter.otlp.proto.http import Compression
from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import (
    ExportTraceServiceRequest,
    ExportTraceServiceResponse,
)
from opentelemetry.sdk.resources import Resource
from opentelemetry.sdk.trace import ReadableSpan, TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor, SpanExportResult
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter
from opentelemetry.trace import Link, SpanContext

from common.codec import otlp_json, otlp_protobuf
from common.errors import Unavailable
from common.ids import DEFAULT_PROJECT_ID
from common.limits import SpanLimits
from common.settings import LimitSettings, Settings
from common.span import Span
from common.times import SystemClock
from query_api.intake.otlp import REASONS_MAX, SPANS_MAX
from query_api.intake.records import partition_of
from tests.fakes.kafka import MemoryBroker
from tests.support.api import context_of, serving

SAMPLES = Path(__file__).parents[1] / "data" / "samples"
PROTOBUF, JSON = "application/x-protobuf", "application/json"
CODECS = {PROTOBUF: otlp_protobuf, JSON: otlp_json}
NOW_NS = SystemClock().now_ns()
LIMIT = 2_000
PARTITIONS = [0, 1]


@pytest.fixture
def broker() -> MemoryBroker:
    return MemoryBroker()


@pytest.fixture
async def client(broker: MemoryBroker) -> AsyncIterator[aiohttp.ClientSession]:
    async with serving(context_of(broker=broker, clock=SystemClock())) as client:
        yield client


def _faulty_protobuf(fault: bytes) -> bytes:
    """A request with two spans; the name of one is ``fault``."""
    return _request(b"12345678", b"87654321").SerializeToString().replace(b"\x2a\x01n", b"\x2a\x01" + fault, 1)


def _faulty_json(fault: bytes) -> bytes:
    return _json_request("12" * 8, "34" * 8).replace(b'"name": "n"', b'"name": "%b"' % fault, 1)


def _type(content_type: str, **more: str) -> dict[str, str]:
    return {"Content-Type": content_type, **more}


def _decoded(value: bytes, content_type: str) -> list[Span]:
    decoded = CODECS[content_type].decode(value, limits=SpanLimits(), now_ns=NOW_NS)
    assert not decoded.rejections.in_full
    spans: list[Span] = decoded.spans
    return spans


def _published(broker: MemoryBroker, content_type: str) -> list[Span]:
    """Return all spans of the topic; each record holds traces of its partition, the first of which is its key."""
    found = []
    for record in broker.records("otlp_spans"):
        assert record.header("project-id") == str(DEFAULT_PROJECT_ID).encode()
        assert record.header("content-type") == content_type.encode()
        spans = _decoded(record.value or b"", content_type)
        assert record.key == spans[0].trace_id
        assert {partition_of(span.trace_id, len(PARTITIONS)) for span in spans} == {record.partition}
        found += spans
    return found


def _in_order(spans: list[Span]) -> list[Span]:
    return sorted(spans, key=lambda span: (span.trace_id, span.span_id))


def _request(*span_ids: bytes, trace_id: bytes = b"t" * 16) -> ExportTraceServiceRequest:
    request = ExportTraceServiceRequest()
    spans = request.resource_spans.add().scope_spans.add().spans
    for span_id in span_ids:
        span = spans.add(trace_id=trace_id, span_id=span_id, name="n")
        span.start_time_unix_nano = span.end_time_unix_nano = NOW_NS
    return request


def _json_request(*span_ids: str) -> bytes:
    times = {"startTimeUnixNano": str(NOW_NS), "endTimeUnixNano": str(NOW_NS)}
    spans = [{"traceId": "ab" * 16, "spanId": span_id, "name": "n", **times} for span_id in span_ids]
    return json.dumps({"resourceSpans": [{"scopeSpans": [{"spans": spans}]}]}).encode()


@pytest.mark.parametrize("sample", sorted(SAMPLES.glob("*.otlp_*")), ids=lambda path: path.name)
async def test_samples_are_published_completely_one_record_a_partition(
    sample: Path, client: aiohttp.ClientSession, broker: MemoryBroker
) -> None:
    content_type = PROTOBUF if sample.suffix == ".bin" else JSON
    body = await asyncio.to_thread(sample.read_bytes)
    sent = _decodable(body, content_type)

    response = await client.post("/otlp/v1/traces", data=body, headers=_type(content_type))

    assert response.status == 200
    partitions = [record.partition for record in broker.records("otlp_spans")]
    assert partitions == sorted({partition_of(span.trace_id, len(PARTITIONS)) for span in sent})
    assert _in_order(_published(broker, content_type)) == _in_order(sent)


async def test_each_trace_is_a_record_before_the_partitions_are_known(
    client: aiohttp.ClientSession, broker: MemoryBroker
) -> None:
    broker.is_asked = False
    request = _request(b"12345678", b"23456789")
    request.MergeFrom(_request(b"34567890", trace_id=b"u" * 16))
    body = request.SerializeToString()

    response = await client.post("/otlp/v1/traces", data=body, headers=_type(PROTOBUF))

    assert response.status == 200
    assert sorted(record.key or b"" for record in broker.records("otlp_spans")) == [b"t" * 16, b"u" * 16]
    assert _in_order(_published(broker, PROTOBUF)) == _in_order(_decodable(body, PROTOBUF))


def _decodable(body: bytes, content_type: str) -> list[Span]:
    spans: list[Span] = CODECS[content_type].decode(body, limits=SpanLimits(), now_ns=NOW_NS).spans
    return spans


@pytest.mark.parametrize("path", ["/otlp/v1/traces", "/api/otlp/v1/traces/"])
async def test_api_is_ready(path: str, client: aiohttp.ClientSession) -> None:
    response = await client.get(path)

    assert (response.status, await response.json()) == (200, {"status": "ready"})


async def test_full_success_is_an_empty_response_in_the_requests_encoding(client: aiohttp.ClientSession) -> None:
    protobuf = await client.post(
        "/otlp/v1/traces", data=_request(b"12345678").SerializeToString(), headers=_type(PROTOBUF)
    )
    as_json = await client.post("/otlp/v1/traces", data=_json_request("12" * 8), headers=_type(JSON))

    assert (protobuf.status, protobuf.content_type, await protobuf.read()) == (200, PROTOBUF, b"")
    assert (as_json.status, as_json.content_type, await as_json.json()) == (200, JSON, {"partialSuccess": {}})


@pytest.mark.parametrize("content_type", [PROTOBUF, JSON])
async def test_empty_body_is_accepted(content_type: str, client: aiohttp.ClientSession, broker: MemoryBroker) -> None:
    response = await client.post("/otlp/v1/traces", data=b"", headers=_type(content_type))

    assert response.status == 200
    assert broker.records("otlp_spans") == []


@pytest.mark.parametrize("compressed", [gzip.compress, zlib.compress])
async def test_undeclared_compression_is_recognized_by_its_first_bytes(
    compressed, client: aiohttp.ClientSession, broker: MemoryBroker
) -> None:
    body = compressed(_request(b"12345678").SerializeToString())

    response = await client.post("/otlp/v1/traces", data=body, headers=_type(PROTOBUF))

    assert response.status == 200
    assert len(_published(broker, PROTOBUF)) == 1


async def test_rejected_spans_are_reported_and_the_others_published(
    client: aiohttp.ClientSession, broker: MemoryBroker
) -> None:
    bad = [b"short"] * (REASONS_MAX + 2)
    body = _request(b"12345678", *bad, b"87654321").SerializeToString()

    response = await client.post("/otlp/v1/traces", data=body, headers=_type(PROTOBUF))

    partial = ExportTraceServiceResponse.FromString(await response.read()).partial_success
    assert (response.status, partial.rejected_spans) == (200, len(bad))
    assert partial.error_message.startswith("span 1: ")
    assert partial.error_message.endswith("And 2 more.")
    assert [span.span_id[:8] for span in _published(broker, PROTOBUF)] == [b"12345678", b"87654321"]


async def test_rejected_spans_are_reported_in_json_too(client: aiohttp.ClientSession, broker: MemoryBroker) -> None:
    response = await client.post("/otlp/v1/traces", data=_json_request("12" * 8, "00" * 8), headers=_type(JSON))

    partial = (await response.json())["partialSuccess"]
    assert (partial["rejectedSpans"], partial["errorMessage"][:8]) == ("1", "span 1: ")
    assert len(_published(broker, JSON)) == 1


@pytest.mark.parametrize(
    ("content_type", "body"),
    [
        (PROTOBUF, _faulty_protobuf(b"\xff")),
        (PROTOBUF, _faulty_protobuf(b"\0")),
        (JSON, _faulty_json(b"\xff")),
        (JSON, _faulty_json(b"\\ud800")),
        (JSON, _faulty_json(b"\\u0000")),
        (JSON, _faulty_json(b"\0")),
    ],
)
async def test_text_that_the_worker_repairs_is_accepted(
    content_type: str, body: bytes, client: aiohttp.ClientSession, broker: MemoryBroker
) -> None:
    response = await client.post("/otlp/v1/traces", data=body, headers=_type(content_type))

    assert (response.status, b"rejected" in (await response.read())) == (200, False)
    assert sorted((span.name, span.repaired) for span in _published(broker, content_type)) == [
        ("n", ()),
        ("\ufffd", ("span_name",)),
    ]


@pytest.mark.parametrize("content_type", [PROTOBUF, JSON])
async def test_undecodable_body_is_a_status_in_the_same_encoding(
    content_type: str, client: aiohttp.ClientSession, broker: MemoryBroker
) -> None:
    response = await client.post("/otlp/v1/traces", data=b"\xff\xff{", headers=_type(content_type))

    assert (response.status, response.content_type) == (400, content_type)
    if content_type == PROTOBUF:
        status = Status.FromString(await response.read())
        code, message = status.code, status.message
    else:
        body = await response.json()
        code, message = body["code"], body["message"]
    assert code == 3
    assert "OTLP" in message
    assert broker.records("otlp_spans") == []


@pytest.mark.parametrize(
    "content_type", ["text/plain", "application/octet-stream", "application/x-www-form-urlencoded"]
)
async def test_other_content_types_are_415(content_type: str, client: aiohttp.ClientSession) -> None:
    response = await client.post("/otlp/v1/traces", data=b"x", headers=_type(content_type))

    assert response.status == 415
    assert (await response.json())["detail"].endswith("allowed: application/x-protobuf, application/json.")


@pytest.mark.parametrize(("length", "status"), [(LIMIT, 400), (LIMIT + 1, 413)])
@pytest.mark.parametrize("compressed", [bytes, gzip.compress, zlib.compress])
async def test_body_above_the_limit_is_413_compressed_or_not(length: int, status: int, compressed) -> None:
    settings = Settings(auth="off", limits=LimitSettings(body_bytes_max=LIMIT))
    async with serving(context_of(settings=settings)) as client:
        response = await client.post("/otlp/v1/traces", data=compressed(b"\xff" * length), headers=_type(PROTOBUF))

        assert (response.status, response.content_type) == (status, PROTOBUF)
        assert Status.FromString(await response.read()).message


async def test_kafka_away_is_503_with_retry_after(client: aiohttp.ClientSession, broker: MemoryBroker) -> None:
    broker.publish_faults.append(Unavailable("Kafka is unavailable.", retry_after_s=7))

    response = await client.post("/otlp/v1/traces", data=_json_request("12" * 8), headers=_type(JSON))

    assert (response.status, response.headers["Retry-After"]) == (503, "7")
    assert await response.json() == {"code": 14, "message": "Kafka is unavailable."}


async def test_large_request_of_many_traces_is_accepted(client: aiohttp.ClientSession, broker: MemoryBroker) -> None:
    request = ExportTraceServiceRequest()
    for number in range(1, 1_501):
        request.MergeFrom(_request(number.to_bytes(8, "big"), trace_id=(number % 600 + 1).to_bytes(16, "big")))
    body = request.SerializeToString()

    response = await client.post("/otlp/v1/traces", data=gzip.compress(body), headers=_type(PROTOBUF, **GZIP))

    assert response.status == 200
    assert [record.partition for record in broker.records("otlp_spans")] == PARTITIONS
    assert _in_order(_published(broker, PROTOBUF)) == _in_order(_decodable(body, PROTOBUF))


@pytest.mark.parametrize("compression", [Compression.NoCompression, Compression.Gzip])
async def test_unmodified_python_sdk_exports_by_otlp_http(
    compression: Compression, client: aiohttp.ClientSession, broker: MemoryBroker
) -> None:
    spans = _spans_of_the_sdk()
    address = str(client._base_url).rstrip("/")
    exporter = OTLPSpanExporter(f"{address}/otlp/v1/traces", compression=compression)

    result = await asyncio.to_thread(exporter.export, spans)
    exporter.shutdown()

    sent = _decodable(encode_spans(spans).SerializeToString(), PROTOBUF)
    assert result is SpanExportResult.SUCCESS
    assert len(sent) == 2
    assert _in_order(_published(broker, PROTOBUF)) == _in_order(sent)


def _spans_of_the_sdk() -> Sequence[ReadableSpan]:
    memory = InMemorySpanExporter()
    provider = TracerProvider(resource=Resource.create({"service.name": "shop", "service.version": "1.2"}))
    provider.add_span_processor(SimpleSpanProcessor(memory))
    tracer = provider.get_tracer("tests", "0.1", attributes={"scope": "yes"})
    with tracer.start_as_current_span("root") as root:
        root.set_attributes({"text": "ü", "n": 2**53 + 1, "f": 0.5, "yes": True, "list": ["a", "b"]})
        root.add_event("happened", {"k": 1})
        with tracer.start_as_current_span("child", links=[Link(SpanContext(1, 2, is_remote=True), {"why": "test"})]):
            pass
    provider.shutdown()
    return memory.get_finished_spans()


GZIP = {"Content-Encoding": "gzip"}


@pytest.mark.parametrize("element", ["spans", "scopes"])
@pytest.mark.parametrize("content_type", [PROTOBUF, JSON])
async def test_request_with_too_many_elements_is_413_before_decoding(
    element: str, content_type: str, client: aiohttp.ClientSession, broker: MemoryBroker
) -> None:
    request = ExportTraceServiceRequest()
    scopes = request.resource_spans.add().scope_spans
    for _ in range(SPANS_MAX):
        (scopes.add() if element == "scopes" or not scopes else scopes[0].spans.add())
    if content_type == PROTOBUF:
        body = request.SerializeToString()
    else:
        empty = ",".join(["{}"] * SPANS_MAX)
        inner = empty if element == "scopes" else '{"spans": [' + empty + "]}"
        body = ('{"resourceSpans": [{"scopeSpans": [' + inner + "]}]}").encode()

    response = await client.post("/otlp/v1/traces", data=body, headers=_type(content_type))

    assert response.status == 413
    assert b"more than 250000 spans" in await response.read()


BROKEN_TEXT = b"\x2a\x01\xff"
"""Return the field ``name`` of a span with a value that is not UTF-8."""


@pytest.mark.parametrize("content_type", [PROTOBUF, JSON])
async def test_broken_span_does_not_lift_the_limit_of_its_request(
    content_type: str, client: aiohttp.ClientSession, broker: MemoryBroker
) -> None:
    if content_type == PROTOBUF:
        body = _message(1, _message(2, _message(2, BROKEN_TEXT) + _message(2, b"") * SPANS_MAX))
    else:
        body = b'{"resourceSpans": [{"scopeSpans": [{"spans": ["\xff"' + b",{}" * SPANS_MAX + b"]}]}]}"

    response = await client.post("/otlp/v1/traces", data=body, headers=_type(content_type))

    assert response.status == 413
    assert b"more than 250000 spans" in await response.read()


def _message(number: int, content: bytes) -> bytes:
    """Return a length-delimited field."""
    size = bytearray()
    rest = len(content)
    while rest > 0x7F:
        size.append(rest & 0x7F | 0x80)
        rest >>= 7
    return bytes([number << 3 | 2, *size, rest]) + content
