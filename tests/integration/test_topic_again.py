"""Offsets that Kafka no longer has: what is missing is named, and everything that follows is stored (ADR 0027).

Real Kafka, the real engine, and the worker in this process.
"""

from __future__ import annotations

import asyncio
import threading
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path
from uuid import UUID

import pytest
from aiokafka.admin import RecordsToDelete
from aiokafka.structs import OffsetAndMetadata, TopicPartition
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest

from common.clickhouse.connect import open_store
from common.clickhouse.store import ColumnStore
from common.clickhouse.stored_through import read_positions_of
from common.kafka.cluster import ensure_topics, open_admin
from common.kafka.consumer import KafkaSource
from common.kafka.driver import open_reader
from common.kafka.offsets import KafkaEndOffsets
from common.kafka.producer import KafkaPublisher
from common.kafka.record import Gap, GapCause, Partition, TopicReplaced
from common.readiness import Readiness
from common.settings import ClickHouseSettings, Encoding, IngestSettings, KafkaSettings, Settings, TopicSettings
from common.stored_position import ALL_PROJECTS
from common.times import SystemClock
from ingest.app import open_worker
from ingest.worker import Worker
from query_api.request.context import ApiContext
from tests.support.api import context_of
from tests.support.feed import Reader, versions
from tests.support.kafka import Broker
from tests.support.otlp import START_NS

pytestmark = pytest.mark.kafka
WITHIN_S = 120.0


class AnyProject:
    """Every project exists."""

    async def exists(self, project_id: UUID, /) -> bool:
        return True


@dataclass
class Scene:
    """A topic of one partition, a store, and a reader of the feed from its beginning."""

    settings: Settings
    store: ColumnStore
    context: ApiContext
    reader: Reader
    readiness: Readiness = field(default_factory=Readiness)
    found: list[tuple[str, int]] = field(default_factory=list)

    @property
    def kafka(self) -> KafkaSettings:
        return self.settings.kafka

    @property
    def topic(self) -> str:
        return next(iter(self.kafka.topics))

    @asynccontextmanager
    async def worker(self) -> AsyncIterator[Worker]:
        """A worker that runs while inside, and is drained at the end."""
        async with open_worker(
            self.settings, projects=AnyProject(), store=self.store, readiness=self.readiness
        ) as worker:
            running = asyncio.create_task(worker.run())
            try:
                yield worker
            finally:
                worker.stop()
                async with asyncio.timeout(WITHIN_S):
                    await running

    async def publish(self, *numbers: int, version: int = 1) -> None:
        """Publish one record with one span for each number."""
        publisher = KafkaPublisher(self.kafka)
        try:
            for number in numbers:
                await publisher.publish(self.topic, record(number, version), key=b"k")
        finally:
            await publisher.close()

    async def delete_topic(self, topic: str | None = None) -> None:
        topic = topic or self.topic
        async with open_admin(self.kafka) as admin:
            await admin.delete_topics([topic])
            async with asyncio.timeout(WITHIN_S):
                while topic in await admin.list_topics():  # noqa: ASYNC110 - of another process
                    await asyncio.sleep(0.1)

    async def replace_topic(self) -> None:
        await self.delete_topic()
        await ensure_topics(self.kafka)

    async def delete_records(self, before: int) -> None:
        """Do what retention does: remove the records before an offset."""
        async with open_admin(self.kafka) as admin:
            await admin.delete_records({TopicPartition(self.topic, 0): RecordsToDelete(before_offset=before)})

    async def read_feed(self, count: int) -> list[tuple[str, int]]:
        """Return every version that the feed has returned, when they are ``count``."""
        async with asyncio.timeout(WITHIN_S):
            while len(self.found) < count:
                page = await self.reader.page(wait_s=0.2)
                self.found += versions(page["spans"], attribute="v")
        return self.found


def record(number: int, version: int) -> bytes:
    message = ExportTraceServiceRequest()
    span = message.resource_spans.add().scope_spans.add().spans.add()
    span.name = "s"
    span.trace_id, span.span_id = number.to_bytes(16, "big"), number.to_bytes(8, "big")
    span.start_time_unix_nano, span.end_time_unix_nano = START_NS, START_NS + 1
    attribute = span.attributes.add()
    attribute.key, attribute.value.int_value = "v", version
    return message.SerializeToString()


async def nothing(_: frozenset[Partition]) -> None:
    """Do nothing when partitions move."""


async def read_offsets(source: KafkaSource, count: int) -> list[int]:
    """Return the offsets of the next records."""
    offsets: list[int] = []
    async with asyncio.timeout(WITHIN_S):
        while len(offsets) < count:
            offsets += [record.offset for record in await source.poll(timeout_s=0.1, records_max=1)]
    return offsets


def spans(*numbers: int, version: int = 1) -> list[tuple[str, int]]:
    return [(number.to_bytes(16, "big").hex() + number.to_bytes(8, "big").hex(), version) for number in numbers]


@pytest.fixture
async def scene(
    kafka: Broker, unique: str, chdb_dir: Path, chdb_settings: Callable[[], ClickHouseSettings]
) -> AsyncIterator[Scene]:
    clickhouse = chdb_settings()
    settings = Settings(
        data_dir=chdb_dir,
        worker_port=0,
        clickhouse=clickhouse,
        kafka=kafka.settings(
            group=unique,
            topics={unique: TopicSettings(encoding=Encoding.OTLP_PROTO)},
            intake_topic=unique,
            otlp_topic=unique,
            dead_letter_topic=f"{unique}.dead",
            stored_topic=f"{unique}.stored",
            partitions=1,
        ),
        ingest=IngestSettings(decode_processes=0, batch_age_max_s=0.1),
    )
    store = open_store(clickhouse, data_dir=chdb_dir)
    context = context_of(store=store, clock=SystemClock())
    await ensure_topics(settings.kafka)
    yield Scene(settings, store, context, Reader(context, windowing={"limit": 100}))
    await store.close()


async def test_records_of_a_topic_that_is_created_again_are_stored(scene: Scene) -> None:
    """The same offsets and counts as before: neither the engine nor the feed takes them for the old records."""
    async with scene.worker():
        await scene.publish(1, 2, 3)
        await scene.read_feed(3)
    await scene.replace_topic()

    async with scene.worker():
        await scene.publish(4, 5, 6)
        found = await scene.read_feed(6)

    assert found == spans(1, 2, 3, 4, 5, 6)


async def test_topic_may_be_created_again_while_the_worker_runs(scene: Scene) -> None:
    async with scene.worker():
        await scene.publish(1, 2, 3)
        await scene.read_feed(3)

        await scene.replace_topic()
        await scene.publish(*range(4, 14))
        found = await scene.read_feed(13)

    assert found == spans(*range(1, 14))


async def test_topic_that_is_replaced_unnoticed_is_told_apart_by_its_id(scene: Scene) -> None:
    """The new topic is longer than the position in the old one, so Kafka returns its later records without an error."""
    kafka = scene.kafka.model_copy(update={"session_timeout_s": 30.0})
    source = KafkaSource(kafka)
    await scene.publish(1, 2, 3)
    await source.open(on_revoked=nothing, on_assigned=nothing)
    await read_offsets(source, 1)  # the driver has the other two, so it fetches nothing now

    async def replace_topic() -> None:
        await scene.replace_topic()
        await scene.publish(*range(10))

    replacing = threading.Thread(target=asyncio.run, args=[replace_topic()])
    replacing.start()
    replacing.join(WITHIN_S)  # nothing else of this loop runs meanwhile
    with pytest.raises(TopicReplaced, match="deleted and created again"):
        await read_offsets(source, 12)
    before = source.partition_id_of(Partition(scene.topic, 0))

    await source.open(on_revoked=nothing, on_assigned=nothing)

    assert await read_offsets(source, 10) == list(range(10))
    assert source.partition_id_of(Partition(scene.topic, 0)) != before
    await source.close()


async def test_offset_that_was_committed_for_an_older_topic_is_not_used(scene: Scene) -> None:
    await scene.publish(1, 2, 3)
    async with open_reader(scene.kafka, group=scene.kafka.group) as reader:
        at = TopicPartition(scene.topic, 0)
        reader.assign([at])
        await reader.commit({at: OffsetAndMetadata(2, "id-of-the-older-topic")})

    async with scene.worker():
        found = await scene.read_feed(3)

    assert found == spans(1, 2, 3)
    assert (
        "Records of the deleted topic, from offset 2 on, are lost unless a worker had read them."
        in scene.readiness.gaps[f"{scene.topic}/0"]
    )


async def test_later_version_in_the_new_topic_is_the_latest(scene: Scene) -> None:
    async with scene.worker():
        await scene.publish(9, 8, 1)
        await scene.read_feed(3)
    await scene.replace_topic()

    async with scene.worker():
        await scene.publish(1, version=2)
        found = await scene.read_feed(4)

    page = await Reader(scene.context, windowing={"limit": 100}).page()
    assert found[-1:] == spans(1, version=2)
    assert sorted(versions(page["spans"], attribute="v")) == sorted(spans(9, 8) + spans(1, version=2))


async def test_workers_and_apis_agree_on_the_ids_of_a_topic_that_is_created_again(scene: Scene) -> None:
    ends = KafkaEndOffsets(scene.kafka)
    [(first, end)] = (await ends.ask()).items()
    assert end == 0
    async with scene.worker():
        await scene.publish(1, 2, 3)
        await scene.read_feed(3)
        assert await ends.ask() == {first: 3}

        await scene.replace_topic()
        await scene.publish(4)
        await scene.read_feed(4)
        (again, end), *_ = (await ends.ask()).items()
    fresh = KafkaEndOffsets(scene.kafka)

    assert (again != first, end) == (True, 1)
    assert again.rsplit("/", 2)[1:] == [scene.topic, "0"]
    assert await fresh.ask() == {again: 1}
    stored = await read_positions_of(scene.store, ALL_PROJECTS, deadline_s=60.0)
    assert {position.partition_id: position.through_offset for position in stored} == {first: 2, again: 0}
    await ends.close()
    await fresh.close()


async def test_topic_that_is_missing_for_a_while_is_read_when_it_is_back(scene: Scene) -> None:
    async with scene.worker():
        await scene.publish(1, 2, 3)
        await scene.read_feed(3)

        await scene.delete_topic()
        async with asyncio.timeout(WITHIN_S):
            while "does not exist" not in scene.readiness.reasons.get("kafka", ""):  # noqa: ASYNC110 - of the worker
                await asyncio.sleep(0.1)
        await ensure_topics(scene.kafka)
        await scene.publish(4, 5)
        found = await scene.read_feed(5)

    assert found == spans(1, 2, 3, 4, 5)
    assert "deleted and created again" in scene.readiness.gaps[f"{scene.topic}/0"]


async def test_records_that_retention_deleted_unread_are_named(scene: Scene) -> None:
    async with scene.worker():
        await scene.publish(1, 2, 3)
        await scene.read_feed(3)
    assert scene.readiness.gaps == {}
    await scene.publish(4, 5, 6, 7)
    await scene.delete_records(before=5)

    async with scene.worker():
        found = await scene.read_feed(5)

    assert found == spans(1, 2, 3, 6, 7)
    assert list(scene.readiness.gaps) == [f"{scene.topic}/0"]
    assert "deleted the offsets 3 to 4 before they were read; reading goes on at 5" in str(scene.readiness.gaps)
    assert "kafka" not in scene.readiness.reasons


async def test_new_group_misses_nothing_in_a_log_that_begins_late(scene: Scene) -> None:
    await scene.publish(1, 2, 3)
    await scene.delete_records(before=2)

    async with scene.worker():
        found = await scene.read_feed(1)

    assert found == spans(3)
    assert scene.readiness.gaps == {}


async def test_offset_beyond_the_end_is_named_and_the_log_is_read_again(scene: Scene) -> None:
    async with scene.worker():
        await scene.publish(1, 2, 3)
        await scene.read_feed(3)
    async with open_reader(scene.kafka, group=scene.kafka.group) as reader:
        at = TopicPartition(scene.topic, 0)
        reader.assign([at])
        await reader.commit({at: 100})
    await scene.publish(4)

    async with scene.worker():
        found = await scene.read_feed(4)

    assert found == spans(1, 2, 3, 4)
    assert "lost the offsets 4 to 99" in scene.readiness.gaps[f"{scene.topic}/0"]


async def test_reader_that_retention_overtakes_goes_on_at_the_first_record(scene: Scene) -> None:
    """A response holds three records of 10 kB, so the fourth has not been fetched when Kafka deletes it."""
    kafka = scene.kafka.model_copy(update={"message_bytes_max": 20_000})
    publisher = KafkaPublisher(kafka)
    for number in range(12):
        await publisher.publish(scene.topic, b"%d" % number * 10_000, key=b"k")
    await publisher.close()
    gaps: list[Gap] = []
    source = KafkaSource(kafka, report_gap=gaps.append)

    await source.open(on_revoked=nothing, on_assigned=nothing)
    offsets = await read_offsets(source, 1)
    await scene.delete_records(before=10)
    while offsets[-1] != 11:
        offsets += await read_offsets(source, 1)
    await source.close()

    read_count = len(offsets) - 2
    assert offsets == [*range(read_count), 10, 11]
    assert [gap[:4] for gap in gaps] == [(Partition(scene.topic, 0), read_count, 10, GapCause.DELETED)]
