"""Batches to OTLP/HTTP endpoints: a receiver that answers as it is asked to, and our own intake."""

from __future__ import annotations

import asyncio
import gzip
from collections.abc import AsyncIterator, Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest
from aiohttp import web
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import (
    ExportTracePartialSuccess,
    ExportTraceServiceRequest,
    ExportTraceServiceResponse,
)

from common.clickhouse.connect import open_store
from common.clickhouse.span_columns import SPANS_TABLE, stamped
from common.ids import DEFAULT_PROJECT_ID
from common.kafka.record import Record
from common.limits import SpanLimits
from common.settings import ClickHouseSettings, Encoding, TopicSettings
from common.times import SystemClock
from ingest.decode import Rules
from ingest.decoding.chunk import Chunk, decode_chunk
from query_api.delivery.addresses import AddressRules
from query_api.delivery.targets.otlp import OtlpTarget, traces_url
from query_api.delivery.targets.target import RejectedSpans, TargetRefused, TargetUnavailable
from tests.fakes.kafka import MemoryBroker
from tests.support.api import context_of, serving
from tests.support.delivered import batch_of, span_object
from tests.support.ports import free_port
from tests.support.sample_records import SPANS_COUNT
from tests.support.stored_samples import StoredSamples, stored_samples


@dataclass
class Receiver:
    """An OTLP endpoint: keeps requests and answers with ``response``."""

    response: Callable[[], web.Response] = web.Response
    requests: list[tuple[dict[str, str], bytes]] = field(default_factory=list)
    url: str = ""
    delay_s: float = 0.0

    async def handle(self, request: web.Request) -> web.Response:
        self.requests.append((dict(request.headers), await request.content.read()))
        await asyncio.sleep(self.delay_s)
        return self.response()


@pytest.fixture
async def receiver() -> AsyncIterator[Receiver]:
    receiver = Receiver()
    app = web.Application()
    app.router.add_post("/v1/traces", receiver.handle)
    runner = web.AppRunner(app, auto_decompress=False)
    await runner.setup()
    await web.TCPSite(runner, "127.0.0.1", 0).start()
    receiver.url = f"http://127.0.0.1:{runner.addresses[0][1]}"
    yield receiver
    await runner.cleanup()


def _target(
    url: str, *, ag: bool = False, timeout_s: float = 60.0, private_addresses: bool = True, **headers: str
) -> OtlpTarget:
    return OtlpTarget(url, headers, ag=ag, timeout_s=timeout_s, rules=AddressRules(private_addresses=private_addresses))


async def test_batch_is_one_compressed_request(receiver: Receiver) -> None:
    target = _target(receiver.url, Authorization="Bearer x", Host="other.example")

    assert await target.deliver(batch_of(5)) is None
    await target.close()

    [(headers, body)] = receiver.requests
    assert headers["Content-Type"] == "application/x-protobuf"
    assert headers["Content-Encoding"] == "gzip"
    assert headers["Authorization"] == "Bearer x"
    request = ExportTraceServiceRequest.FromString(gzip.decompress(body))
    assert [span.name for span in request.resource_spans[0].scope_spans[0].spans] == [f"span {n}" for n in range(5)]


async def test_running_spans_are_not_sent(receiver: Receiver) -> None:
    target = _target(receiver.url)
    running = {name: value for name, value in span_object(1, state="running").items() if "end_time" not in name}

    assert await target.deliver(batch_of([running])) is None
    assert await target.deliver(batch_of([span_object(0), running, span_object(2)])) is None
    await target.close()

    [(_, body)] = receiver.requests
    request = ExportTraceServiceRequest.FromString(gzip.decompress(body))
    assert [span.name for span in request.resource_spans[0].scope_spans[0].spans] == ["span 0", "span 2"]


@pytest.mark.parametrize(
    ("response", "rejected"),
    [
        (
            lambda: web.Response(
                body=ExportTraceServiceResponse(
                    partial_success=ExportTracePartialSuccess(rejected_spans=2, error_message="too old")
                ).SerializeToString()
            ),
            RejectedSpans(2, "too old"),
        ),
        (
            lambda: web.json_response({"partialSuccess": {"rejectedSpans": "900", "errorMessage": "quota"}}),
            RejectedSpans(5, "quota"),
        ),
        (lambda: web.json_response({"partialSuccess": {}}), None),
        (lambda: web.json_response(["x"]), None),
        (lambda: web.Response(text="accepted"), None),
        (lambda: web.Response(status=204), None),
    ],
)
async def test_partial_success_is_returned(
    receiver: Receiver, response: Callable[[], web.Response], rejected: RejectedSpans | None
) -> None:
    receiver.response = response
    target = _target(receiver.url)

    assert await target.deliver(batch_of(5)) == rejected
    await target.close()


@pytest.mark.parametrize(("status", "after_s"), [(429, 7.0), (503, 7.0), (500, 7.0), (408, 7.0)])
async def test_endpoint_that_is_busy_is_tried_again_when_it_asks(
    receiver: Receiver, status: int, after_s: float
) -> None:
    receiver.response = lambda: web.Response(status=status, headers={"Retry-After": "7"})
    target = _target(receiver.url)

    with pytest.raises(TargetUnavailable, match=str(status)) as failed:
        await target.deliver(batch_of(1))

    assert failed.value.retry_after_s == after_s
    await target.close()


@pytest.mark.parametrize("status", [400, 401, 404, 413, 301])
async def test_endpoint_that_refuses_is_not_tried_again(receiver: Receiver, status: int) -> None:
    receiver.response = lambda: web.Response(status=status, headers={"Location": "http://127.0.0.1/"})
    target = _target(receiver.url)

    with pytest.raises(TargetRefused, match=str(status)):
        await target.deliver(batch_of(1))

    assert len(receiver.requests) == 1
    await target.close()


async def test_endpoint_that_is_away_or_silent_is_unavailable(receiver: Receiver) -> None:
    receiver.delay_s = 1.5
    for url, words in ((f"http://127.0.0.1:{free_port()}", "cannot be reached"), (receiver.url, "did not answer")):
        target = _target(url, timeout_s=1.0)
        with pytest.raises(TargetUnavailable, match=words):
            await target.deliver(batch_of(1))
        await target.close()


async def test_private_address_is_not_reached(receiver: Receiver) -> None:
    target = _target(receiver.url, private_addresses=False)

    with pytest.raises(TargetRefused, match="CLEARSPAN_DELIVERY__PRIVATE_ADDRESSES"):
        await target.deliver(batch_of(1))

    assert receiver.requests == []
    await target.close()


@pytest.mark.parametrize(
    ("endpoint", "url"),
    [
        ("https://otlp.example.org", "https://otlp.example.org/v1/traces"),
        ("https://otlp.example.org:4318/", "https://otlp.example.org:4318/v1/traces"),
        ("https://example.org/api/otlp/traces", "https://example.org/api/otlp/traces"),
        ("https://example.org/?token=x", "https://example.org/?token=x"),
    ],
)
def test_host_alone_gets_the_path_of_traces(endpoint: str, url: str) -> None:
    assert traces_url(endpoint) == url


async def test_another_clearspan_stores_equal_spans(
    chdb_dir: Path, chdb_settings: Callable[[], ClickHouseSettings]
) -> None:
    """Every sample: from the store through OTLP and the intake into another store."""
    broker = MemoryBroker()
    other = open_store(chdb_settings(), data_dir=chdb_dir)
    async with stored_samples(chdb_settings(), chdb_dir) as samples:
        sent = await samples.spans()
    async with serving(context_of(broker=broker, store=other, clock=SystemClock())) as client:
        target = _target(f"http://{client._base_url.host}:{client._base_url.port}", ag=True)  # type: ignore[union-attr]
        assert await target.deliver(batch_of(sent)) is None
        await target.close()
        await _store_all(broker, other)
        received = await StoredSamples(client).spans()
    await other.close()

    assert len(received) == len(sent) == SPANS_COUNT
    assert _comparable(received) == _comparable(sent)


async def _store_all(broker: MemoryBroker, store: Any) -> None:
    records = [
        Record("otlp_spans", record.partition, record.offset, record.timestamp_ms, record.key, record.value)
        for record in broker.records("otlp_spans")
    ]
    partition_ids = {record.source: f"cluster/otlp_spans/{record.partition}" for record in records}
    topics = {"otlp_spans": TopicSettings(encoding=Encoding.OTLP_PROTO, project_id=DEFAULT_PROJECT_ID)}
    rules = Rules(topics, SpanLimits(), DEFAULT_PROJECT_ID)
    decoded = decode_chunk(Chunk(records, partition_ids, SystemClock().now_ns()), rules)
    await store.insert(SPANS_TABLE, stamped(decoded.rows, stored_us=5), dedup_token="again", deadline_s=60.0)


def _comparable(spans: list[dict[str, Any]]) -> dict[str, dict[str, Any]]:
    return {
        f"{span['trace_id']} {span['span_id']}": {name: value for name, value in span.items() if name != "created_at"}
        for span in spans
    }
