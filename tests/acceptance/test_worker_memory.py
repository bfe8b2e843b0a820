"""The worker stays below 1 GB with a backlog of small spans and of spans of 4 MiB."""

from __future__ import annotations

import asyncio
import json
import logging
import random
import signal
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Final

import pytest
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest

from bench.records import llm_records, plain_records
from common.clickhouse.migrate import migrate
from common.kafka.cluster import ensure_topics
from common.kafka.offsets import uncommitted_count
from common.settings import Encoding, KafkaSettings, TopicSettings
from tests.support.clickhouse import clickhouse_server
from tests.support.kafka import Broker
from tests.support.memory import memory_bytes
from tests.support.otlp import START_NS
from tests.support.ports import free_port
from tests.support.postgres import PostgresServer
from tests.support.produce import produce
from tests.support.scale import scaled
from tests.support.worker import worker_process

pytestmark = pytest.mark.long

MEMORY_BYTES_MAX: Final = 1_000_000_000
SMALL_SPANS: Final = scaled(20_000, 2_000_000)
LARGE_SPANS: Final = scaled(8, 200)
LARGE_SPAN_BYTES: Final = 4 * 1024 * 1024 - 4_096
WITHIN_S: Final = scaled(300.0, 5_400.0)
PUBLISHED_TOGETHER: Final = 200


def large_records(count: int) -> Iterator[bytes]:
    """Yield records of one span with a long text; the texts have different words."""
    source = random.Random(3)
    for number in range(count):
        message = ExportTraceServiceRequest()
        span = message.resource_spans.add().scope_spans.add().spans.add()
        span.name, span.trace_id, span.span_id = "large", source.randbytes(16), source.randbytes(8)
        span.start_time_unix_nano, span.end_time_unix_nano = START_NS + number, START_NS + number + 1
        words = [source.randbytes(6).hex() for _ in range(2_000)]
        text = " ".join(source.choice(words) for _ in range(LARGE_SPAN_BYTES // 13))
        span.attributes.add(key="input.value").value.string_value = text
        yield message.SerializeToString()


def backlog() -> Iterator[bytes]:
    yield from large_records(LARGE_SPANS)
    yield from plain_records(SMALL_SPANS // 2, spans_per_record=100)
    yield from llm_records(SMALL_SPANS // 2)


def publish(settings: KafkaSettings, topic: str) -> None:
    waiting: list[bytes] = []
    for record in backlog():
        waiting.append(record)
        if len(waiting) == PUBLISHED_TOGETHER or len(record) > LARGE_SPAN_BYTES:
            produce(settings.bootstrap, topic, waiting)
            waiting.clear()
    produce(settings.bootstrap, topic, waiting)


@pytest.mark.kafka
@pytest.mark.scaled
def test_worker_stays_below_a_gigabyte(kafka: Broker, postgres: PostgresServer, unique: str, tmp_path: Path) -> None:
    settings = kafka.settings(
        group=unique,
        topics={unique: TopicSettings(encoding=Encoding.OTLP_PROTO)},
        dead_letter_topic=f"{unique}.dead",
        session_timeout_s=30.0,
    )
    asyncio.run(ensure_topics(settings))
    publish(settings, unique)
    with clickhouse_server(tmp_path / "clickhouse", port=free_port()) as engine:
        asyncio.run(migrate(engine.settings(), data_dir=tmp_path))
        environment = {
            "CLEARSPAN_KAFKA__BOOTSTRAP": kafka.bootstrap,
            "CLEARSPAN_KAFKA__GROUP": unique,
            "CLEARSPAN_KAFKA__SESSION_TIMEOUT_S": "30",
            "CLEARSPAN_KAFKA__TOPICS": json.dumps({unique: {"encoding": "otlp_proto"}}),
            "CLEARSPAN_KAFKA__DEAD_LETTER_TOPIC": f"{unique}.dead",
            "CLEARSPAN_CLICKHOUSE__PORT": str(engine.port),
            "CLEARSPAN_POSTGRES__DSN": asyncio.run(postgres.migrated_database()).dsn.get_secret_value(),
        }
        with worker_process(environment, tmp_path / "worker.log") as worker:
            worker.start()
            peak_bytes = 0
            deadline_s, asked_s = time.monotonic() + WITHIN_S, 0.0
            while True:
                peak_bytes = max(peak_bytes, memory_bytes(worker.process_id))
                if time.monotonic() - asked_s > 2.0:
                    if asyncio.run(uncommitted_count(settings, [unique])) == 0:
                        break
                    asked_s = time.monotonic()
                assert time.monotonic() < deadline_s, "the backlog is not stored in time"
                time.sleep(0.1)
            assert worker.metric("clearspan_spans_stored_total") == LARGE_SPANS + SMALL_SPANS
            assert worker.end(signal.SIGTERM) == 0

    logging.getLogger(__name__).info("The peak was %d MB.", peak_bytes // 1_000_000)  # shown with --log-cli-level=INFO
    assert 100_000_000 < peak_bytes < MEMORY_BYTES_MAX
