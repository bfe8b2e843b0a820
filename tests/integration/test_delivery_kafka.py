"""Subscriptions deliver to a topic of a real Apache Kafka: in order, keyed by trace, readable by another Clearspan."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable
from pathlib import Path
from typing import Any

import orjson
import pytest
from aiokafka.admin import AIOKafkaAdminClient, NewTopic

from common.clickhouse.connect import open_store
from common.clickhouse.store import ColumnStore
from common.codec import span_json
from common.kafka.log import KafkaLog
from common.kafka.record import Record
from common.limits import SpanLimits
from common.postgres.pool import Database
from common.settings import ClickHouseSettings, KafkaSettings
from tests.support.delivery import Deliveries, deliveries, delivery_settings
from tests.support.kafka import Broker

pytestmark = pytest.mark.kafka


@pytest.fixture
async def store(chdb_dir: Path, chdb_settings: Callable[[], ClickHouseSettings]) -> AsyncIterator[ColumnStore]:
    opened = open_store(chdb_settings(), data_dir=chdb_dir)
    yield opened
    await opened.close()


@pytest.fixture
async def api(store: ColumnStore, shared_database: Database, kafka: Broker) -> AsyncIterator[Deliveries]:
    settings = delivery_settings(batch_spans_max=3)
    own = settings.kafka.model_copy(update={"bootstrap": kafka.bootstrap})
    async with deliveries(store, shared_database, settings.model_copy(update={"kafka": own})) as api:
        yield api


async def make_topic(kafka: Broker, name: str) -> None:
    admin = AIOKafkaAdminClient(bootstrap_servers=kafka.bootstrap)
    await admin.start()
    await admin.create_topics([NewTopic(name, 2, 1)])
    await admin.close()


async def records_of(kafka: Broker, topic: str, *, count: int) -> list[Record]:
    """Return all records of a topic as soon as there are ``count``."""
    log = KafkaLog(KafkaSettings(bootstrap=kafka.bootstrap))
    async with asyncio.timeout(120):
        while True:
            records = [record async for chunk in log.read(topic) for record in chunk]
            if len(records) >= count:
                return records
            await asyncio.sleep(0.1)


def target(kafka: Broker, topic: str) -> dict[str, Any]:
    return {"kind": "kafka", "bootstrap": kafka.bootstrap, "topic": topic}


async def test_each_span_is_a_record_that_another_clearspan_reads(api: Deliveries, kafka: Broker, unique: str):
    await make_topic(kafka, unique)
    async with api.delivering():
        await api.create("copy", target(kafka, unique))
        await api.store([1, 2, 3, 4, 5])
        await api.store([6, 7])
        records = await records_of(kafka, unique, count=7)
        state = await api.until(lambda state: state["delivered"]["spans"] == 7, slug="copy")
    found = {span["span_id"]: span for span in (await api.call("POST", "/spans/query", {}))["spans"]}

    assert len(records) == 7
    for partition in (0, 1):
        numbers = [
            int(orjson.loads(each.value or b"")["span_id"], 16) for each in records if each.partition == partition
        ]
        assert numbers == sorted(numbers)
    for record in records:
        span = orjson.loads(record.value or b"")
        assert span == found[span["span_id"]]
        assert record.key == span["trace_id"].encode()
        assert record.header("content-type") == b"application/vnd.clearspan.span+json"
        assert record.header("project-id") is None
        decoded = span_json.decode(record.value or b"", limits=SpanLimits(), now_ns=api.context.clock.now_ns())
        assert [each.name for each in decoded.spans] == [span["span_name"]]
    assert {record.header("clearspan-subscription") for record in records} == {b"copy"}
    assert len({record.header("clearspan-batch-id") for record in records}) == state["delivered"]["batches"] == 3


async def test_missing_topic_is_a_warning_and_delivery_waits_for_it(api: Deliveries, kafka: Broker, unique: str):
    answer = await api.call(
        "POST", "/subscriptions", {"subscription": {"slug": "copy", "target": target(kafka, unique)}}
    )
    await make_topic(kafka, unique)
    async with api.delivering():
        await api.store([1])
        await records_of(kafka, unique, count=1)

    assert f"there is no topic {unique}" in answer["warning"]


async def test_topic_of_clearspan_itself_is_refused_under_any_address(api: Deliveries, kafka: Broker, unique: str):
    own = api.context.settings.kafka.model_copy(update={"intake_topic": unique})
    settings = api.context.settings.model_copy(update={"kafka": own})
    object.__setattr__(api.context, "settings", settings)
    refused = await api.call(
        "POST", "/subscriptions", {"subscription": {"slug": "loop", "target": target(kafka, unique)}}, status=400
    )
    alias = {**target(kafka, unique), "bootstrap": kafka.bootstrap.replace("127.0.0.1", "localhost")}
    async with api.delivering():
        await api.create("loop", alias)
        await api.store([1])
        state = await api.until(lambda state: state["status"] == "paused", slug="loop")

    assert "Clearspan itself uses" in refused["detail"]
    assert "Clearspan itself uses" in state["reason"]
