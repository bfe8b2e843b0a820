"""The options given to the driver's consumer; the contract tests check how brokers act on them."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest
from aiokafka import ConsumerRecord, TopicPartition

from common.errors import Unavailable
from common.kafka import consumer
from common.kafka.consumer import KafkaSource, as_record
from common.kafka.record import Partition
from common.settings import KafkaSettings
from tests.fakes.kafka_driver import RememberedDriver


@pytest.mark.parametrize(("sent_ms", "timestamp_ms"), [(None, -1), (-1, -1), (0, 0), (5, 5)])
def test_record_of_message_format_0_has_no_timestamp(sent_ms: int | None, timestamp_ms: int) -> None:
    record = as_record(ConsumerRecord("t", 0, 7, sent_ms, 0, None, b"v", None, 0, 1, []))

    assert record.timestamp_ms == timestamp_ms
    assert (record.offset, record.value) == (7, b"v")


class _Consumer(RememberedDriver):
    """A driver that gets one partition while it starts."""

    def subscribe(self, *, topics: list[str], listener: Any) -> None:
        self.topics = topics
        self.listener = listener

    async def start(self) -> None:
        await self.listener.on_partitions_assigned({TopicPartition("spans", 0)})

    async def getmany(self, *_partitions: TopicPartition, timeout_ms: int, max_records: int) -> dict[Any, Any]:
        await asyncio.sleep(0)
        return {}


@pytest.fixture
def made(monkeypatch: pytest.MonkeyPatch) -> list[_Consumer]:
    return _Consumer.in_place_of("AIOKafkaConsumer", consumer, monkeypatch)


async def nothing(_partitions: frozenset[Partition]) -> None:
    """Done."""


async def test_consumer_neither_commits_itself_nor_reads_uncommitted(
    made: list[_Consumer], monkeypatch: pytest.MonkeyPatch
) -> None:
    async def read_cluster_id(_settings: KafkaSettings) -> str:
        return "c"

    monkeypatch.setattr(consumer, "read_cluster_id", read_cluster_id)
    source = KafkaSource(KafkaSettings())
    await source.open(on_revoked=nothing, on_assigned=nothing)

    expected = {"enable_auto_commit": False, "isolation_level": "read_committed", "auto_offset_reset": "earliest"}
    assert expected.items() <= made[0].options.items()
    assert made[0].topics == ["otlp_spans", "otlp_spans_json", "spans"]
    assert await source.poll(timeout_s=1, records_max=1) == []
    await source.close()
    await source.close()
    assert made[0].is_stopped


async def test_failure_of_an_assignment_is_raised_by_the_next_poll(
    made: list[_Consumer], monkeypatch: pytest.MonkeyPatch
) -> None:
    """The driver swallows what its listener raises: records would get the partition id of another cluster."""
    answers: list[str | None] = ["c", None, "c", "d"]

    async def read_cluster_id(_settings: KafkaSettings) -> str:
        answer = answers.pop(0)
        if answer is None:
            raise Unavailable("away")
        return answer

    monkeypatch.setattr(consumer, "read_cluster_id", read_cluster_id)
    source = KafkaSource(KafkaSettings())
    assigned: list[frozenset[Partition]] = []

    async def on_assigned(partitions: frozenset[Partition]) -> None:
        assigned.append(partitions)

    await source.open(on_revoked=nothing, on_assigned=on_assigned)
    with pytest.raises(Unavailable, match="away"):
        await source.poll(timeout_s=1, records_max=1)
    assert assigned == []

    await source.open(on_revoked=nothing, on_assigned=on_assigned)
    assert await source.poll(timeout_s=1, records_max=1) == []
    assert assigned == [frozenset({Partition("spans", 0)})]
    assert source.partition_id_of(Partition("spans", 0)) == "d/spans/0"
    assert [driver.is_stopped for driver in made] == [True, False]


async def test_poll_of_a_closed_source_fails() -> None:
    with pytest.raises(Unavailable, match="not open"):
        await KafkaSource(KafkaSettings()).poll(timeout_s=1, records_max=1)
