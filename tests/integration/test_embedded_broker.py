"""The embedded broker with aiokafka as its client, and with clients that send anything."""

from __future__ import annotations

import asyncio
import struct
import time
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager, suppress
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from aiokafka import AIOKafkaConsumer, AIOKafkaProducer, TopicPartition
from aiokafka.admin import AIOKafkaAdminClient, NewPartitions, NewTopic, RecordsToDelete
from aiokafka.errors import KafkaStorageError, MessageSizeTooLargeError, UnknownTopicOrPartitionError

from clearspan.embedded import first_span
from clearspan.embedded.broker_server.messages import APIS
from clearspan.embedded.broker_server.server import BrokerServer, ConnectionLimits
from clearspan.embedded.broker_server.store import Store, StoreSettings
from common.kafka.cluster import ensure_topics
from common.kafka.log import KafkaLog
from common.settings import Settings
from tests.support.kafka import Broker, embedded_broker

MIB = 1024 * 1024
TOPIC, GROUP = "spans", "worker"
FIRST = TopicPartition(TOPIC, 0)


def store_settings(directory: Path, **changes: Any) -> StoreSettings:
    return replace(StoreSettings(directory, 64 * MIB, GROUP, frozenset({TOPIC})), **changes)


@asynccontextmanager
async def served(settings: StoreSettings, limits: ConnectionLimits | None = None) -> AsyncIterator[str]:
    """The address of a broker in this process."""
    server = BrokerServer(Store(settings), limits)
    port = await server.start(0)
    try:
        yield f"127.0.0.1:{port}"
    finally:
        await server.close()


@pytest.fixture
async def address(tmp_path: Path) -> AsyncIterator[str]:
    async with served(store_settings(tmp_path)) as address:
        yield address


@asynccontextmanager
async def admin_of(address: str) -> AsyncIterator[AIOKafkaAdminClient]:
    admin = AIOKafkaAdminClient(bootstrap_servers=address)
    await admin.start()
    try:
        yield admin
    finally:
        await admin.close()


async def create(address: str, *, partitions: int = 1, **configs: str) -> None:
    names = {name.replace("_", "."): value for name, value in configs.items()}
    async with admin_of(address) as admin:
        await admin.create_topics([NewTopic(TOPIC, partitions, 1, topic_configs=names)])


@asynccontextmanager
async def producer_to(address: str, **options: Any) -> AsyncIterator[AIOKafkaProducer]:
    producer = AIOKafkaProducer(bootstrap_servers=address, **options)
    await producer.start()
    try:
        yield producer
    finally:
        await producer.stop()


@asynccontextmanager
async def consumer_of(address: str, *topics: str, **options: Any) -> AsyncIterator[AIOKafkaConsumer]:
    options = {"auto_offset_reset": "earliest", "enable_auto_commit": False, "heartbeat_interval_ms": 100, **options}
    consumer = AIOKafkaConsumer(*topics, bootstrap_servers=address, **options)
    await consumer.start()
    try:
        yield consumer
    finally:
        await consumer.stop()


async def read_all(address: str) -> list[bytes]:
    """The values of partition 0."""
    async with consumer_of(address) as consumer:
        consumer.assign([FIRST])
        await consumer.seek_to_beginning()
        end = (await consumer.end_offsets([FIRST]))[FIRST]
        values: list[bytes] = []
        while await consumer.position(FIRST) < end:
            values += [record.value for record in (await consumer.getmany(timeout_ms=100)).get(FIRST, [])]
        return values


async def until(condition: Callable[[], bool]) -> None:
    deadline_s = time.monotonic() + 30
    while not condition():
        assert time.monotonic() < deadline_s
        await asyncio.sleep(0.02)


@pytest.mark.parametrize("codec", [None, "gzip", "snappy", "lz4", "zstd"])
@pytest.mark.parametrize("idempotent", [False, True])
async def test_records_arrive_in_order(address: str, codec: str | None, *, idempotent: bool) -> None:
    await create(address)
    values = [b"%d" % number for number in range(500)]
    async with producer_to(address, compression_type=codec, enable_idempotence=idempotent) as producer:
        sent = [await producer.send(TOPIC, value) for value in values]
        offsets = [record.offset for record in await asyncio.gather(*sent)]

    assert offsets == list(range(500))
    assert await read_all(address) == values


async def test_partitions_are_shared_among_the_members_of_a_group(address: str) -> None:
    await create(address, partitions=4)
    async with consumer_of(address, TOPIC, group_id=GROUP) as first:
        await first.getmany(timeout_ms=10)
        polling = asyncio.create_task(_poll(first))
        async with consumer_of(address, TOPIC, group_id=GROUP) as second:
            await until(lambda: (len(first.assignment()), len(second.assignment())) == (2, 2))
            async with admin_of(address) as admin:
                [described] = await admin.describe_consumer_groups([GROUP])
                assert await admin.list_consumer_groups() == [(GROUP, "consumer")]
        await until(lambda: len(first.assignment()) == 4)
        polling.cancel()
    assert described.groups[0][2] == "Stable"


async def test_member_that_is_gone_is_removed(address: str) -> None:
    await create(address, partitions=2)
    async with consumer_of(address, TOPIC, group_id=GROUP, session_timeout_ms=500) as lost:
        lost._coordinator._maybe_leave_group = _nothing
    async with consumer_of(address, TOPIC, group_id=GROUP) as other:
        await until(lambda: len(other.assignment()) == 2)


async def _nothing() -> None:
    pass


async def _poll(consumer: AIOKafkaConsumer) -> None:
    while True:
        await consumer.getmany(timeout_ms=50)


async def test_everything_acknowledged_survives_kill_9(tmp_path: Path) -> None:
    with embedded_broker(tmp_path) as broker:
        await create(broker.bootstrap)
        async with producer_to(broker.bootstrap, enable_idempotence=True) as producer:
            await producer.send_and_wait(TOPIC, b"before")
            async with consumer_of(broker.bootstrap, group_id=GROUP) as consumer:
                consumer.assign([FIRST])
                await consumer.commit({FIRST: 1})
            async with admin_of(broker.bootstrap) as admin:
                cluster_id = (await admin.describe_cluster())["cluster_id"]
            broker.kill()
            broker.start()
            after = await producer.send_and_wait(TOPIC, b"after")
        async with consumer_of(broker.bootstrap, group_id=GROUP) as consumer:
            assert await consumer.committed(FIRST) == 1
        async with admin_of(broker.bootstrap) as admin:
            assert (await admin.describe_cluster())["cluster_id"] == cluster_id
        assert after.offset == 1
        assert await read_all(broker.bootstrap) == [b"before", b"after"]


async def test_topics_are_changed(address: str) -> None:
    await create(address)
    async with admin_of(address) as admin, producer_to(address) as producer:
        for value in (b"0", b"1", b"2"):
            await producer.send_and_wait(TOPIC, value)
        await admin.delete_records({FIRST: RecordsToDelete(before_offset=2)})
        left = await read_all(address)
        await admin.create_partitions({TOPIC: NewPartitions(total_count=3)})
        [described] = await admin.describe_topics([TOPIC])
        await admin.delete_topics([TOPIC])
        topics = await admin.list_topics()
    assert left == [b"2"]
    assert len(described["partitions"]) == 3
    assert topics == []


async def test_timestamp_finds_the_first_batch_that_is_not_older(address: str) -> None:
    await create(address)
    async with producer_to(address) as producer, consumer_of(address) as consumer:
        for number in range(5):
            await producer.send_and_wait(TOPIC, b"", timestamp_ms=1_000 * number)
        later = await consumer.offsets_for_times({FIRST: 2_500})
        none = await consumer.offsets_for_times({FIRST: 9_000})
    assert later[FIRST].offset == 3
    assert none[FIRST] is None


async def test_records_that_are_not_stored_are_refused_with_an_error(address: str) -> None:
    await create(address, max_message_bytes="1000")
    async with producer_to(address, request_timeout_ms=2_000) as producer:
        with pytest.raises(MessageSizeTooLargeError):
            await producer.send_and_wait(TOPIC, b"x" * 1_000)
        await producer.send_and_wait(TOPIC, b"small")
        with pytest.raises(UnknownTopicOrPartitionError):
            await producer.send_and_wait("absent", b"")


async def test_producer_waits_for_room_until_the_worker_has_committed(tmp_path: Path) -> None:
    async with served(store_settings(tmp_path, bytes_max=4 * MIB)) as address:
        await create(address)
        async with producer_to(address) as producer, consumer_of(address, group_id=GROUP) as consumer:
            for _ in range(8):
                await producer.send_and_wait(TOPIC, b"x" * 500_000)
            held = asyncio.create_task(producer.send_and_wait(TOPIC, b"x" * 500_000))
            await asyncio.sleep(0.3)
            assert not held.done()
            consumer.assign([FIRST])
            await consumer.commit({FIRST: 8})
            assert (await held).offset == 8
            first = (await consumer.beginning_offsets([FIRST]))[FIRST]
    assert first > 0
    assert bytes_in(tmp_path) <= 4 * MIB


def bytes_in(directory: Path) -> int:
    return sum(path.stat().st_size for path in directory.rglob("*.log"))


async def test_full_disk_space_is_an_error_in_the_end(tmp_path: Path) -> None:
    async with served(store_settings(tmp_path, bytes_max=2 * MIB)) as address:
        await create(address)
        async with producer_to(address, request_timeout_ms=1_000, retry_backoff_ms=2_000) as producer:
            for _ in range(4):
                await producer.send_and_wait(TOPIC, b"x" * 500_000)
            with pytest.raises(KafkaStorageError):
                await producer.send_and_wait(TOPIC, b"x" * 500_000)
        assert len(await read_all(address)) == 4


def request_of(key: int, version: int, body: bytes = b"") -> bytes:
    frame = struct.pack(">hhih", key, version, 7, -1) + body
    return struct.pack(">i", len(frame)) + frame


GARBAGE = [
    pytest.param(b"GET / HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n", id="HTTP"),
    pytest.param(struct.pack(">i", -1) + b"x" * 20, id="negative length"),
    pytest.param(struct.pack(">ihhi", 2**31 - 1, 0, 8, 1), id="2 GiB"),
    pytest.param(struct.pack(">ihhi", 3, 0, 8, 1), id="shorter than a head"),
    pytest.param(request_of(99, 0), id="unknown request"),
    pytest.param(request_of(1, 99), id="unknown version"),
    pytest.param(request_of(3, 5, struct.pack(">i", 2**31 - 1)), id="array without an end"),
    pytest.param(request_of(3, 10, b"\x00" + b"\xff" * 10), id="varint without an end"),
    pytest.param(request_of(11, 2, b"\xff" * 40), id="nulls"),
    pytest.param(request_of(1, 4, struct.pack(">iiiibi", -1, 1, 1, 1, 0, -1)), id="null array"),
    *(pytest.param(request_of(key, api.versions[-1], b"\x01" * 64), id=api.name) for key, api in APIS.items()),
]


@pytest.mark.parametrize("sent", GARBAGE)
async def test_garbage_ends_its_connection_alone(address: str, sent: bytes) -> None:
    await create(address)
    reader, writer = await asyncio.open_connection(*address.split(":"))
    writer.write(sent)
    writer.write_eof()
    async with asyncio.timeout(10):
        while await reader.read(1_000):
            pass
    writer.close()
    async with producer_to(address) as producer:
        await producer.send_and_wait(TOPIC, b"still there")


async def test_slow_client_is_disconnected_and_does_not_block_others(tmp_path: Path) -> None:
    limits = ConnectionLimits(transfer_s=0.5, memory_bytes=MIB, small_bytes=1_000)
    async with served(store_settings(tmp_path), limits) as address:
        await create(address)
        reader, writer = await asyncio.open_connection(*address.split(":"))
        writer.write(struct.pack(">ihhi", MIB, 0, 8, 1))
        began_s = time.monotonic()
        async with producer_to(address) as producer:
            await producer.send_and_wait(TOPIC, b"x" * 10_000)
        assert await reader.read() == b""
        writer.close()
    assert time.monotonic() - began_s < 20


async def test_more_connections_than_allowed_are_refused(tmp_path: Path) -> None:
    async with served(store_settings(tmp_path), ConnectionLimits(connections=2)) as address:
        opened = [await asyncio.open_connection(*address.split(":")) for _ in range(3)]
        with suppress(ConnectionResetError):
            assert not await opened[2][0].read()
        for _, writer in opened:
            writer.close()


async def test_first_trace_names_its_encoding_in_a_header(embedded: Broker, monkeypatch: pytest.MonkeyPatch) -> None:
    async def find(*_arguments: object) -> list[dict[str, Any]]:
        return []

    monkeypatch.setattr(first_span, "_find", find)
    kafka = Settings().kafka.model_copy(update={"bootstrap": embedded.bootstrap})
    await ensure_topics(kafka)

    await first_span.show_first_span(kafka, "http://nobody")

    records = [record async for chunk in KafkaLog(kafka).read(kafka.otlp_topic) for record in chunk]
    assert [record.headers for record in records] == [(("content-type", b"application/x-protobuf"),)]
