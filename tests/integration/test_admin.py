"""The status over HTTP: with the embedded broker, the engine and Postgres."""

from __future__ import annotations

from typing import Any

import aiohttp
import pytest

from common.clickhouse.store import ColumnStore
from common.ids import DEFAULT_PROJECT_ID
from common.kafka.cluster import ensure_topics
from common.kafka.offsets import KafkaEndOffsets
from common.kafka.producer import KafkaPublisher
from common.postgres.pool import Database
from common.settings import Encoding, Settings, TopicSettings
from common.times import SystemClock
from query_api.request.progress import KnownEndOffsets
from tests.support.api import context_of, serving
from tests.support.dead_letters import add_dead_letter
from tests.support.kafka import Broker

pytestmark = pytest.mark.timeout(60)


async def complete_status(client: aiohttp.ClientSession) -> dict[str, Any]:
    """Return the first status without a missing part: each part has seconds, and a busy machine may need more."""
    while True:
        async with client.get("/admin/status", params={"project": str(DEFAULT_PROJECT_ID)}) as response:
            answer: dict[str, Any] = await response.json()
        parts = (answer["dead_letters"], answer["versions"], answer["instrumentations"])
        if "behind_records" in answer and not any(part.keys() & {"reason", "reasons"} for part in parts):
            return answer


async def test_status_has_all_parts(
    embedded: Broker, unique: str, store: ColumnStore, shared_database: Database
) -> None:
    kafka = embedded.settings(
        dead_letter_topic=f"{unique}.dead_letter",
        topics={unique: TopicSettings(encoding=Encoding.SPAN_JSON)},
        intake_topic=unique,
        otlp_topic=unique,
        partitions=3,
    )
    await ensure_topics(kafka)
    publisher = KafkaPublisher(kafka)
    await publisher.publish(unique, b"not stored yet")
    await publisher.close()
    await add_dead_letter(store, 0)
    clock = SystemClock()
    ends = KnownEndOffsets(KafkaEndOffsets(kafka), clock)
    context = context_of(
        settings=Settings(auth="off", kafka=kafka),
        clock=clock,
        store=store,
        ends=ends,
        database=shared_database,
    )
    try:
        async with serving(context) as client:
            answer = await complete_status(client)
    finally:
        await ends.close()

    assert answer["behind_records"] == 1
    assert sorted(each["behind_records"] for each in answer["partitions"]) == [0, 0, 1]
    assert answer["dead_letters"]["open"] == 1
    assert {*answer["versions"]} == {"clearspan", "clickhouse", "postgres"}
    assert all(answer["versions"].values())
    assert answer["instrumentations"] == {"last_week": {"count": 0, "instrumentations": []}}
