"""Dead letters and the status over HTTP: with the embedded broker, the engine and Postgres."""

from __future__ import annotations

import base64
from collections.abc import AsyncIterator, Callable
from contextlib import AsyncExitStack
from pathlib import Path
from typing import Any

import aiohttp
import pytest

from common.clickhouse.connect import open_store
from common.kafka.cluster import ensure_topics
from common.kafka.dead_letter_index import DeadLetterIndex
from common.kafka.dead_letters import drop, list_dead_letters
from common.kafka.log import KafkaLog
from common.kafka.offsets import KafkaEndOffsets
from common.kafka.producer import KafkaPublisher
from common.postgres.pool import Database
from common.settings import ClickHouseSettings, Encoding, KafkaSettings, Settings, TopicSettings
from common.times import SystemClock
from query_api.request.progress import KnownEndOffsets
from tests.support.api import context_of, serving
from tests.support.dead_letters import headers_of, publish_dead_letter
from tests.support.kafka import Broker
from tests.support.ports import free_port

pytestmark = pytest.mark.timeout(60)


class Installation:
    """An API over a broker, with a topic of dead letters of its own."""

    def __init__(self, client: aiohttp.ClientSession, kafka: KafkaSettings, publisher: KafkaPublisher) -> None:
        self.client = client
        self.kafka = kafka
        self.publisher = publisher
        self.log = KafkaLog(kafka)

    async def add(self, offset: int, *, value: bytes = b"no json") -> str:
        """Publish a dead letter that was rejected after those with a lower offset; return its id."""
        [source] = self.kafka.topics
        return await publish_dead_letter(
            self.publisher, offset, value=value, topic=self.kafka.dead_letter_topic, source=source
        )

    async def ask(self, method: str, path: str, *, status: int = 200, **sent: Any) -> dict[str, Any]:
        async with self.client.request(method, f"/admin/{path}", **sent) as response:
            answer: dict[str, Any] = await response.json()
            assert response.status == status, answer
        return answer

    async def ids(self) -> set[str]:
        """Return the open ids, which the command line lists too."""
        listed = await self.ask("GET", "dead-letters")
        of_command_line = (await list_dead_letters(self.log, self.kafka.dead_letter_topic)).dead_letters
        ids = {each["id"] for each in listed["dead_letters"]}
        assert ids == {each.id for each in of_command_line}
        return ids


@pytest.fixture
async def installation(embedded: Broker, unique: str) -> AsyncIterator[Installation]:
    kafka = embedded.settings(
        dead_letter_topic=f"{unique}.dead_letter",
        topics={unique: TopicSettings(encoding=Encoding.SPAN_JSON)},
        intake_topic=unique,
        otlp_topic=unique,
        partitions=3,
    )
    await ensure_topics(kafka)
    async with AsyncExitStack() as resources:
        publisher = KafkaPublisher(kafka)
        resources.push_async_callback(publisher.close)
        index = DeadLetterIndex(KafkaLog(kafka), kafka.dead_letter_topic, SystemClock())
        resources.push_async_callback(index.close)
        context = context_of(settings=Settings(auth="off", kafka=kafka), publisher=publisher, dead_letters=index)
        client = await resources.enter_async_context(serving(context))
        yield Installation(client, kafka, publisher)


async def test_dead_letters_are_listed_shown_replayed_and_dropped(installation: Installation) -> None:
    assert await installation.ids() == set()
    ids = [await installation.add(number, value=b"%d" % number) for number in range(6)]
    assert await installation.ids() == {*ids}

    shown = await installation.ask("GET", f"dead-letters/{ids[4]}")
    replayed = await installation.ask("POST", f"dead-letters/{ids[0]}/replay", json={})
    await installation.ask("DELETE", f"dead-letters/{ids[1]}")

    assert base64.b64decode(shown["dead_letter"]["value_base64"]) == b"4"
    went_to = replayed["dead_letter"]["went_to"]
    [topic] = installation.kafka.topics
    assert (went_to["topic"], went_to["offset"]) == (topic, 0)
    assert await installation.ids() == {*ids[2:]}
    assert (await installation.ask("POST", "dead-letters/replay", json={"limit": 3}))["remaining"] == 1
    assert await installation.ids() == {ids[5]}
    assert (await installation.ask("POST", "dead-letters/drop", json={}))["count"] == 1
    assert await installation.ids() == set()
    replayed_values = [record.value async for chunk in installation.log.read(topic) for record in chunk]
    assert sorted(value or b"" for value in replayed_values) == [b"0", b"2", b"3", b"4"]


async def test_many_are_replayed_in_order(installation: Installation) -> None:
    """Of a span that was rejected twice the later version is stored."""
    [topic] = installation.kafka.topics
    for number in range(300):
        headers = headers_of(number, at_s=number, topic=topic)
        value = b"%d" % number + b" " * 500 * (number % 7)
        await installation.publisher.publish(
            installation.kafka.dead_letter_topic, value, key=b"one trace", headers=headers
        )

    answer = await installation.ask("POST", "dead-letters/replay", json={})

    assert (answer["count"], answer["remaining"]) == (300, 0)
    replayed = [record.value or b"" async for chunk in installation.log.read(topic) for record in chunk]
    assert [int(value) for value in replayed] == list(range(300))


async def test_what_the_command_line_drops_is_not_listed(installation: Installation) -> None:
    ids = [await installation.add(number) for number in range(2)]
    assert await installation.ids() == {*ids}

    await drop(installation.log, installation.publisher, installation.kafka.dead_letter_topic, ids[0])

    assert await installation.ids() == {ids[1]}
    await installation.ask("POST", f"dead-letters/{ids[0]}/replay", status=404)


async def test_unreachable_broker_is_503(unique: str) -> None:
    kafka = KafkaSettings(bootstrap=f"127.0.0.1:{free_port()}", request_timeout_s=1)
    index = DeadLetterIndex(KafkaLog(kafka), kafka.dead_letter_topic, SystemClock())
    context = context_of(settings=Settings(auth="off", kafka=kafka), dead_letters=index)
    async with serving(context) as client:
        for method, path in (("GET", ""), ("GET", "/0-0"), ("POST", "/0-0/replay"), ("DELETE", "/0-0")):
            async with client.request(method, f"/admin/dead-letters{path}") as response:
                assert (response.status, await response.json()) == (503, {"detail": "Kafka is unavailable."})
    await index.close()


@pytest.mark.kafka
async def test_missing_topic_is_503(kafka: Broker, unique: str) -> None:
    """The embedded broker creates a topic when it is asked for one."""
    settings = kafka.settings(dead_letter_topic=unique)
    index = DeadLetterIndex(KafkaLog(settings), unique, SystemClock())
    context = context_of(settings=Settings(auth="off", kafka=settings), dead_letters=index)
    async with serving(context) as client, client.get("/admin/dead-letters") as response:
        assert (response.status, await response.json()) == (503, {"detail": f"There is no topic {unique}."})
    await index.close()


async def complete_status(client: aiohttp.ClientSession) -> dict[str, Any]:
    """Return the first status without a missing part: each part has seconds, and a busy machine may need more."""
    while True:
        async with client.get("/admin/status") as response:
            answer: dict[str, Any] = await response.json()
        if "behind_records" in answer and "open" in answer["dead_letters"] and "reasons" not in answer["versions"]:
            return answer


async def test_status_has_all_parts(
    installation: Installation,
    chdb_dir: Path,
    chdb_settings: Callable[[], ClickHouseSettings],
    shared_database: Database,
) -> None:
    await installation.add(0)
    [topic] = installation.kafka.topics
    await installation.publisher.publish(topic, b"not stored yet")
    clock = SystemClock()
    store = open_store(chdb_settings(), data_dir=chdb_dir)
    ends = KnownEndOffsets(KafkaEndOffsets(installation.kafka), clock)
    index = DeadLetterIndex(installation.log, installation.kafka.dead_letter_topic, clock)
    context = context_of(
        settings=Settings(auth="off", kafka=installation.kafka),
        clock=clock,
        store=store,
        ends=ends,
        database=shared_database,
        dead_letters=index,
    )
    try:
        async with serving(context) as client:
            answer = await complete_status(client)
    finally:
        for opened in (index, ends, store):
            await opened.close()

    assert answer["behind_records"] == 1
    assert sorted(each["behind_records"] for each in answer["partitions"]) == [0, 0, 1]
    assert answer["dead_letters"]["open"] == 1
    assert {*answer["versions"]} == {"clearspan", "clickhouse", "postgres"}
    assert all(answer["versions"].values())
