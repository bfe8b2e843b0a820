"""The embedded broker itself: before its topics exist, while the broker is replaced, and its end offsets."""

from __future__ import annotations

import asyncio
import struct
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest

from clearspan.embedded import first_span
from clearspan.embedded.broker import EmbeddedBroker
from clearspan.embedded.broker_proxy import DRAINING_CLIENT
from clearspan.embedded.layout import StackError
from common.kafka.cluster import ensure_topics, read_cluster_id
from common.kafka.log import KafkaLog
from common.kafka.offsets import KafkaEndOffsets
from common.kafka.producer import KafkaPublisher
from common.settings import KafkaSettings, Settings

TOPIC = "spans"


@pytest.fixture
async def broker(tmp_path: Path) -> AsyncIterator[EmbeddedBroker]:
    running = EmbeddedBroker(tmp_path / "broker.log")
    await running.start(0)
    yield running
    await running.close()


@pytest.fixture
def kafka(broker: EmbeddedBroker) -> KafkaSettings:
    return Settings().kafka.model_copy(update={"bootstrap": broker.bootstrap})


async def test_record_produced_before_the_topics_exist_is_not_lost(
    broker: EmbeddedBroker, kafka: KafkaSettings
) -> None:
    await ensure_topics(kafka)
    broker.admit_produces()
    publisher = KafkaPublisher(kafka)
    await publisher.publish(TOPIC, b"of the old one")  # so that it knows the partitions and sends no request
    await broker.hold_produces()

    publishing = asyncio.create_task(publisher.publish(TOPIC, b"held"))
    await broker.replace()
    await asyncio.sleep(0.3)
    assert not publishing.done(), "acknowledged by a broker without the topic"
    await ensure_topics(kafka)
    broker.admit_produces()
    await publishing

    assert [record.value async for chunk in KafkaLog(kafka).read(TOPIC) for record in chunk] == [b"held"]
    await publisher.close()


async def test_worker_publishes_dead_letters_while_other_clients_are_held(
    broker: EmbeddedBroker, kafka: KafkaSettings
) -> None:
    await ensure_topics(kafka)
    broker.admit_produces()
    worker, other = KafkaPublisher(kafka, client_id=DRAINING_CLIENT), KafkaPublisher(kafka)
    await other.publish(TOPIC, b"before")
    await broker.hold_produces()

    held = asyncio.create_task(other.publish(TOPIC, b"held"))
    await worker.publish(kafka.dead_letter_topic, b"a letter")

    assert not held.done()
    broker.admit_produces()
    await held
    await worker.close()
    await other.close()


async def test_end_offsets_notice_a_new_broker_at_once(broker: EmbeddedBroker, kafka: KafkaSettings) -> None:
    await ensure_topics(kafka)
    broker.admit_produces()
    publisher, ends = KafkaPublisher(kafka), KafkaEndOffsets(kafka)
    await publisher.publish(TOPIC, b"of the old one")
    of_the_old_one = await ends.ask()
    await broker.hold_produces()
    await broker.replace()
    await ensure_topics(kafka)
    broker.admit_produces()

    where = await publisher.publish(TOPIC, b"of the new one")
    of_the_new_one = await ends.ask()

    assert of_the_new_one[f"{await read_cluster_id(kafka)}/{TOPIC}/{where.partition}"] == 1
    assert of_the_new_one.keys().isdisjoint(of_the_old_one)
    await publisher.close()
    await ends.close()


async def test_unwritable_home_directory_is_reported_in_a_sentence(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "file").touch()
    monkeypatch.setenv("HOME", str(tmp_path / "file"))
    broker = EmbeddedBroker(tmp_path / "broker.log")

    with pytest.raises(
        StackError,
        match=r"^The program of the broker cannot be installed: .+ set HOME to a directory that can be written to\.$",
    ):
        await broker.start(0)

    await broker.close()


async def test_first_trace_names_its_encoding_in_a_header(
    broker: EmbeddedBroker, kafka: KafkaSettings, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def find(*_arguments: object) -> list[dict[str, Any]]:
        return []

    monkeypatch.setattr(first_span, "_find", find)
    await ensure_topics(kafka)
    broker.admit_produces()

    await first_span.show_first_span(kafka, "http://nobody")

    records = [record async for chunk in KafkaLog(kafka).read(kafka.otlp_topic) for record in chunk]
    assert [record.headers for record in records] == [(("content-type", b"application/x-protobuf"),)]


def list_offsets_request(version: int, topic: bytes, partitions: dict[int, int]) -> bytes:
    """A request for the offsets of partitions at timestamps, as the protocol guide lays it out."""
    is_flexible, tags = version >= 6, b"\x00" if version >= 6 else b""

    def count(number: int) -> bytes:
        return bytes([number + 1]) if is_flexible else struct.pack(">i", number)

    name = (bytes([len(topic) + 1]) if is_flexible else struct.pack(">h", len(topic))) + topic
    body = struct.pack(">hhih", 2, version, 7, 4) + b"test" + tags + struct.pack(">i", -1)
    body += (b"\x00" if version >= 2 else b"") + count(1) + name + count(len(partitions))
    for partition, timestamp in partitions.items():
        body += struct.pack(">i", partition) + (struct.pack(">i", -1) if version >= 4 else b"")
        body += struct.pack(">q", timestamp) + tags
    return body + tags + tags


@pytest.mark.parametrize("version", [1, 2, 4, 5, 6, 7, 8, 9])
async def test_latest_offset_is_correct_in_every_protocol_version(
    broker: EmbeddedBroker, kafka: KafkaSettings, version: int
) -> None:
    await ensure_topics(kafka)
    broker.admit_produces()
    publisher = KafkaPublisher(kafka)
    published = []
    for _ in range(2):  # in one batch each
        published += await asyncio.gather(*(publisher.publish(TOPIC, b"%d" % n, key=b"k") for n in range(10)))
    await publisher.close()
    host, port = broker.bootstrap.split(":")
    reader, writer = await asyncio.open_connection(host, int(port))
    request = list_offsets_request(version, TOPIC.encode(), {published[0].partition: -1})

    writer.write(struct.pack(">i", len(request)) + request)
    (length,) = struct.unpack(">i", await reader.readexactly(4))
    response = await reader.readexactly(length)
    writer.close()

    assert max(published).offset == 19
    assert struct.pack(">q", 20) in response
