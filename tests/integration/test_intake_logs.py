"""Log records over OTLP/HTTP: records in Kafka with their project and encoding, the response, settings that refuse."""

from __future__ import annotations

import gzip
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import aiohttp
import pytest
from opentelemetry.proto.collector.logs.v1.logs_service_pb2 import ExportLogsServiceResponse

from common.codec import logs_json, logs_protobuf
from common.ids import DEFAULT_PROJECT_ID
from common.kafka.record import CONTENT_TYPE_HEADER, PROJECT_HEADER, Record, Signal
from common.limits import SpanLimits
from common.log_kinds import keep_logs
from common.settings import Encoding, IngestSettings, KafkaSettings, Settings, TopicSettings
from common.times import SystemClock
from query_api.intake.otlp_logs import MESSAGE
from query_api.intake.records import partition_of
from tests.fakes.kafka import MemoryBroker
from tests.support.agent_logs import NAMES, NOW_NS, agent_record, in_json, in_protobuf, logs_request, spans_of
from tests.support.api import KnownKeys, context_of, serving

PROTOBUF, JSON = "application/x-protobuf", "application/json"
KEY = {"Authorization": "ApiKey cs_key"}


@asynccontextmanager
async def api(broker: MemoryBroker, **settings: Any) -> AsyncIterator[aiohttp.ClientSession]:
    keys = KnownKeys({"cs_key": DEFAULT_PROJECT_ID})
    given: dict[str, Any] = {"settings": Settings(**settings)} if settings else {}
    async with serving(context_of(broker=broker, clock=SystemClock(), keys=keys, **given)) as client:
        client.headers.update(KEY)
        yield client


def spans_in(record: Record) -> set[tuple[bytes, bytes]]:
    content_type = (record.header(CONTENT_TYPE_HEADER) or b"").decode()
    codec = {PROTOBUF: logs_protobuf, JSON: logs_json}[content_type]
    decoded = codec.decode(record.value or b"", limits=SpanLimits(), now_ns=NOW_NS)
    kept = keep_logs(decoded)
    assert not decoded.rejections
    assert not kept.refusals
    return {(span.trace_id, span.span_id) for span in kept.spans}


@pytest.mark.parametrize("path", ["/v1/logs", "/otlp/v1/logs", "/api/v1/logs"])
@pytest.mark.parametrize("content_type", [PROTOBUF, JSON])
@pytest.mark.parametrize("name", NAMES)
async def test_what_is_kept_is_published_by_trace(path: str, content_type: str, name: str) -> None:
    broker = MemoryBroker()
    body = in_json(name) if content_type == JSON else in_protobuf(name)
    async with api(broker) as client:
        headers = {"Content-Type": content_type, "Content-Encoding": "gzip"}
        response = await client.post(path, data=gzip.compress(body), headers=headers)
        await response.read()

    records = broker.records("otlp_logs")
    assert (response.status, response.content_type) == (200, content_type)
    assert response.headers["X-Clearspan-Coordinates"]
    published = [spans_in(record) for record in records]
    assert set().union(*published) == {(span.trace_id, span.span_id) for span in spans_of(name)}
    assert {record.header(PROJECT_HEADER) for record in records} == {str(DEFAULT_PROJECT_ID).encode()}
    for record, spans in zip(records, published, strict=True):
        assert {partition_of(trace_id, 2) for trace_id, _ in spans} == {record.partition}


async def test_nothing_is_published_without_a_key() -> None:
    broker = MemoryBroker()
    async with api(broker) as client:
        headers = {"Content-Type": PROTOBUF, "Authorization": "ApiKey cs_other"}
        response = await client.post("/v1/logs", data=logs_request(agent_record()), headers=headers)

    assert response.status == 401
    assert not broker.records("otlp_logs")


OFF: list[dict[str, Any]] = [
    {"ingest": IngestSettings(logs="off")},
    {
        "kafka": KafkaSettings(
            topics={
                "spans": TopicSettings(encoding=Encoding.SPAN_JSON),
                "otlp_spans": TopicSettings(encoding=Encoding.OTLP_PROTO),
            }
        )
    },
]


@pytest.mark.parametrize("settings", OFF, ids=["off", "no topic"])
async def test_all_are_refused_if_no_worker_keeps_them(settings: dict[str, Any]) -> None:
    broker = MemoryBroker()
    async with api(broker, **settings) as client:
        response = await client.post(
            "/v1/logs", data=logs_request(agent_record(), {}), headers={"Content-Type": PROTOBUF}
        )
        partial_success = ExportLogsServiceResponse.FromString(await response.read()).partial_success

    assert response.status == 200
    assert (partial_success.rejected_log_records, partial_success.error_message) == (2, MESSAGE)
    assert not broker.records("otlp_logs")


async def test_topic_of_logs_can_be_another() -> None:
    broker = MemoryBroker()
    topics = {
        "spans": TopicSettings(encoding=Encoding.SPAN_JSON),
        "otlp_spans": TopicSettings(encoding=Encoding.OTLP_PROTO),
        "agents": TopicSettings(encoding=Encoding.OTLP_JSON, signal=Signal.LOGS),
    }
    async with api(broker, kafka=KafkaSettings(topics=topics, logs_topic="agents")) as client:
        await client.post("/v1/logs", data=logs_request(agent_record()), headers={"Content-Type": PROTOBUF})

    assert len(broker.records("agents")) == 1
