"""Every encoding with every compression gives equal rows, through the embedded broker and real Kafka."""

from __future__ import annotations

import asyncio
import base64
import json
from collections.abc import Sequence
from typing import Any
from uuid import UUID

import pytest
from google.protobuf.json_format import MessageToDict
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest
from opentelemetry.proto.common.v1.common_pb2 import AnyValue, KeyValue
from opentelemetry.proto.trace.v1.trace_pb2 import Status

from common.ids import DEFAULT_PROJECT_ID
from common.kafka.cluster import ensure_topics
from common.kafka.consumer import KafkaSource
from common.kafka.producer import KafkaPublisher
from common.limits import SpanLimits
from common.settings import Encoding, TopicSettings
from ingest.batch import FlushPolicy, SpanBatch
from ingest.decode import Rules
from ingest.decoding.decoder import ThreadDecoder
from ingest.policy import Dependencies, Policy
from ingest.sink import RejectedRow, SpanRows
from ingest.worker import Worker
from tests.fakes.dead_letters import MemoryDeadLetters
from tests.support.kafka import Broker
from tests.support.otlp import START_NS
from tests.support.produce import produce

COMPRESSIONS = (None, "gzip", "snappy", "lz4", "zstd")
COORDINATES = {"partition_id", "version", "record_ms", "stored_us"}
TRACE, SPAN, PARENT = bytes(range(1, 17)), bytes(range(1, 9)), bytes(range(9, 17))


class Rows:
    """A sink that keeps rows."""

    name = "rows"

    def __init__(self) -> None:
        self.rows: list[dict[str, Any]] = []
        self.arrived = asyncio.Event()

    async def write(self, spans: SpanRows, /) -> Sequence[RejectedRow]:
        self.rows += spans.columns.to_pylist()
        self.arrived.set()
        return []

    async def record(self, batch: SpanBatch, /) -> None:
        """Keep nothing."""


class AllProjects:
    async def exists(self, project_id: UUID, /) -> bool:
        return True


def rich_request() -> ExportTraceServiceRequest:
    """One span with all seven kinds of value, events, links, a status, and nanoseconds."""
    message = ExportTraceServiceRequest()
    group = message.resource_spans.add()
    group.resource.attributes.append(KeyValue(key="service.name", value=AnyValue(string_value="shop")))
    scoped = group.scope_spans.add()
    scoped.scope.name, scoped.scope.version = "tracer", "1.2"
    span = scoped.spans.add(
        trace_id=TRACE,
        span_id=SPAN,
        parent_span_id=PARENT,
        name="pay",
        kind=3,
        trace_state="a=b",
        flags=257,
        start_time_unix_nano=START_NS + 123_456_789,
        end_time_unix_nano=START_NS + 987_654_321,
        dropped_attributes_count=1,
    )
    array, nested = AnyValue(), AnyValue()
    array.array_value.values.extend([AnyValue(int_value=1), AnyValue(string_value="two")])
    nested.kvlist_value.values.append(KeyValue(key="inner", value=AnyValue(bool_value=False)))
    for key, value in {
        "text": AnyValue(string_value="naïve 😀"),
        "flag": AnyValue(bool_value=True),
        "big": AnyValue(int_value=2**63 - 1),
        "ratio": AnyValue(double_value=0.1),
        "blob": AnyValue(bytes_value=b"\x00\xff"),
        "list": array,
        "map": nested,
    }.items():
        span.attributes.append(KeyValue(key=f"kinds.{key}", value=value))
    event = span.events.add(name="retry", time_unix_nano=START_NS + 5)
    event.attributes.append(KeyValue(key="attempt", value=AnyValue(int_value=2)))
    span.links.add(trace_id=bytes(range(2, 18)), span_id=bytes(range(2, 10)), trace_state="c=d", flags=1)
    span.status.code, span.status.message = Status.STATUS_CODE_ERROR, "declined"
    return message


def as_otlp_json(message: ExportTraceServiceRequest) -> bytes:
    """The JSON of the protocol: protobuf's JSON with ids in hex."""

    def in_hex(node: Any) -> Any:
        if isinstance(node, dict):
            return {
                key: base64.b64decode(value).hex() if key in {"traceId", "spanId", "parentSpanId"} else in_hex(value)
                for key, value in node.items()
            }
        return [in_hex(each) for each in node] if isinstance(node, list) else node

    return json.dumps(in_hex(MessageToDict(message, use_integers_for_enums=True))).encode()


def as_span_json() -> bytes:
    """The same span as the API returns it."""
    span = {
        "trace_id": TRACE.hex(),
        "span_id": SPAN.hex(),
        "parent_id": PARENT.hex(),
        "span_name": "pay",
        "span_kind": "SPAN_KIND_CLIENT",
        "start_time_unix_nano": str(START_NS + 123_456_789),
        "end_time_unix_nano": str(START_NS + 987_654_321),
        "status_code": "STATUS_CODE_ERROR",
        "status_message": "declined",
        "trace_state": "a=b",
        "flags": 257,
        "dropped_attributes_count": 1,
        "attributes": {
            "kinds": {
                "text": "naïve 😀",
                "flag": True,
                "big": 2**63 - 1,
                "ratio": 0.1,
                "blob": base64.b64encode(b"\x00\xff").decode(),
                "list": [1, "two"],
                "map": {"inner": False},
            }
        },
        "events": [{"name": "retry", "time_unix_nano": str(START_NS + 5), "attributes": {"attempt": 2}}],
        "links": [
            {
                "trace_id": bytes(range(2, 18)).hex(),
                "span_id": bytes(range(2, 10)).hex(),
                "trace_state": "c=d",
                "flags": 1,
            }
        ],
        "resource": {"attributes": {"service": {"name": "shop"}}},
        "scope": {"name": "tracer", "version": "1.2"},
    }
    return json.dumps(span, ensure_ascii=False).encode()


def comparable(row: dict[str, Any]) -> dict[str, Any]:
    """The row without its coordinates, and with parsed JSON: the order of members may differ."""
    shown = {name: value for name, value in row.items() if name not in COORDINATES}
    shown["attributes_template"] = shown["attributes_template"].replace(
        b"\0", b"0"
    )  # a scalar, which is among the leaves
    for name in ("attributes_template", "events", "links", "resource", "scope"):
        shown[name] = json.loads(shown[name] or "null")
    return shown | {"leaves": sorted(row["leaves"])}


@pytest.mark.parametrize("broker", ["embedded", pytest.param("kafka", marks=pytest.mark.kafka)])
def test_every_encoding_with_every_compression_gives_equal_rows(
    broker: str, unique: str, request: pytest.FixtureRequest
) -> None:
    running: Broker = request.getfixturevalue(broker)
    settings = running.settings(
        group=unique, topics={f"{unique}.{each}": TopicSettings(encoding=each) for each in Encoding}
    )
    asyncio.run(ensure_topics(settings))
    values = {
        Encoding.OTLP_PROTO: rich_request().SerializeToString(),
        Encoding.OTLP_JSON: as_otlp_json(rich_request()),
        Encoding.SPAN_JSON: as_span_json(),
    }
    for encoding, value in values.items():
        for compression in COMPRESSIONS:
            produce(running.bootstrap, f"{unique}.{encoding}", [value], compression=compression)

    async def consume() -> list[dict[str, Any]]:
        sink, publisher = Rows(), KafkaPublisher(settings)
        policy = Policy(
            rules=Rules(settings.topics, SpanLimits(), DEFAULT_PROJECT_ID), flush=FlushPolicy(age_s_max=0.1)
        )
        source = KafkaSource(settings)
        decoder = ThreadDecoder(policy.rules)
        dependencies = Dependencies(
            source=source,
            decoder=decoder,
            sinks=(sink,),
            positions=sink,
            dead_letters=MemoryDeadLetters(),
            publisher=publisher,
            projects=AllProjects(),
        )
        worker = Worker(policy, dependencies)
        async with asyncio.timeout(180), asyncio.TaskGroup() as tasks:
            tasks.create_task(worker.run())
            while len(sink.rows) < len(values) * len(COMPRESSIONS):
                await sink.arrived.wait()
                sink.arrived.clear()
            worker.stop()
        await publisher.close()
        return sink.rows

    rows = asyncio.run(consume())

    of_protobuf = next(
        comparable(row) for row in rows if str(row["partition_id"]).split(".")[-1].startswith("otlp_proto")
    )
    assert len(rows) == len(values) * len(COMPRESSIONS)
    for row in rows:
        assert comparable(row) == of_protobuf, row["partition_id"]
