"""Subscriptions and alerts deliver to a topic of a real Apache Kafka: in order, readable by another Clearspan."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator, Sequence
from typing import Any

import orjson
import pytest
from aiokafka.admin import AIOKafkaAdminClient, NewTopic

from common.clickhouse.store import ColumnStore
from common.codec import span_json
from common.kafka.log import KafkaLog
from common.kafka.record import Record
from common.limits import SpanLimits
from common.postgres.pool import Database
from common.settings import KafkaSettings
from tests.support.delivery import Deliveries, deliveries, delivery_settings, span_of
from tests.support.kafka import Broker
from tests.support.span_corpus import store_record

pytestmark = pytest.mark.kafka


@pytest.fixture
async def api(store: ColumnStore, shared_database: Database, kafka: Broker) -> AsyncIterator[Deliveries]:
    settings = delivery_settings(batch_spans_max=3, alert_every_min_s=1)
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


async def store_now(api: Deliveries, numbers: Sequence[int]) -> None:
    """Store spans that began a moment ago."""
    start_ns = time.time_ns() - 1_000_000_000
    spans = [span_of(number)._replace(start_ns=start_ns, end_ns=start_ns) for number in numbers]
    await store_record(api.context.store, spans, project_id=api.context.settings.default_project_id)


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


async def test_messages_of_an_alert_are_records_with_its_slug_as_the_key(api: Deliveries, kafka: Broker, unique: str):
    await make_topic(kafka, unique)
    await store_now(api, [1, 2, 3])
    alert = {"slug": "busy", "measure": {"of": "count"}, "above": 2, "window": "1h", "every": "1s"}
    created = await api.call("POST", "/alerts/", {"alert": {**alert, "target": target(kafka, unique)}})
    async with api.delivering():
        [begins] = await records_of(kafka, unique, count=1)
        await api.call("DELETE", f"/traces/{1:032x}", status=202)
        begins, ends = await records_of(kafka, unique, count=2)
    began, ended = (orjson.loads(each.value or b"") for each in (begins, ends))
    common = {"alert": "busy", "alert_id": created["alert"]["id"], "by": {}, "measure": {"of": "count"}, "above": 2}

    assert (begins.partition, begins.key) == (ends.partition, ends.key) == (ends.partition, b"busy")
    assert began == {
        "type": "alert.begins",
        "timestamp": began["data"]["since"],
        "data": {
            **common,
            "value": 3,
            "window": "1h",
            "oldest": began["data"]["oldest"],
            "newest": began["data"]["since"],
            "since": began["data"]["since"],
        },
    }
    assert ended == {
        "type": "alert.ends",
        "timestamp": ended["data"]["ended_at"],
        "data": {
            **common,
            "value": 2,
            "window": "1h",
            "oldest": ended["data"]["oldest"],
            "newest": ended["data"]["ended_at"],
            "since": began["data"]["since"],
            "ended_at": ended["data"]["ended_at"],
        },
    }
    ids = [each.header("clearspan-message-id") or b"" for each in (begins, ends)]
    assert len(set(ids)) == 2
    assert all(id_.startswith(b"msg_" + created["alert"]["id"].replace("-", "").encode()) for id_ in ids)
    assert {each.header("content-type") for each in (begins, ends)} == {b"application/json"}


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
