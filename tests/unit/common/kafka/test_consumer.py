"""The options given to the driver's consumer; the contract tests check how brokers act on them."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Collection, Sequence
from contextlib import asynccontextmanager, nullcontext
from types import SimpleNamespace
from typing import Any

import pytest
from aiokafka import ConsumerRecord, TopicPartition

from common.errors import ServiceError, Unavailable
from common.kafka import consumer
from common.kafka.consumer import KafkaSource, as_record
from common.kafka.record import Partition, TopicReplaced
from common.kafka.starts import CommittedOffset
from common.kafka.topics import ClusterTopics
from common.settings import KafkaSettings
from tests.fakes.kafka_driver import RememberedDriver


@pytest.mark.parametrize(("sent_ms", "timestamp_ms"), [(None, -1), (-1, -1), (0, 0), (5, 5)])
def test_record_of_message_format_0_has_no_timestamp(sent_ms: int | None, timestamp_ms: int) -> None:
    record = as_record(ConsumerRecord("t", 0, 7, sent_ms, 0, None, b"v", None, 0, 1, []))

    assert record.timestamp_ms == timestamp_ms
    assert (record.offset, record.value) == (7, b"v")


class _Consumer(RememberedDriver):
    """A driver that gets one partition while it starts."""

    _coordinator = SimpleNamespace(check_errors=lambda: None)
    _subscription = SimpleNamespace(fetch_context=nullcontext)

    def subscribe(self, *, topics: list[str], listener: Any) -> None:
        self.topics = topics
        self.listener = listener

    def seek(self, partition: TopicPartition, offset: int) -> None:
        self.positions = {partition: offset}

    async def start(self) -> None:
        self._client: Any = None
        await self.listener.on_partitions_assigned({TopicPartition("spans", 0)})

    async def getmany(self, *_partitions: TopicPartition, timeout_ms: int, max_records: int) -> dict[Any, Any]:
        await asyncio.sleep(0)
        return {}


@asynccontextmanager
async def no_admin(_settings: KafkaSettings) -> AsyncIterator[Any]:
    yield SimpleNamespace(_client=None)


@pytest.fixture
def made(monkeypatch: pytest.MonkeyPatch) -> list[_Consumer]:
    async def read_committed(_consumer: Any, _partitions: Any) -> dict[TopicPartition, CommittedOffset]:
        return {}

    async def read_held(_consumer: Any, partitions: Collection[TopicPartition]) -> dict[TopicPartition, range]:
        return dict.fromkeys(partitions, range(5, 9))

    monkeypatch.setattr(consumer, "open_admin", no_admin)
    monkeypatch.setattr(consumer, "read_committed", read_committed)
    monkeypatch.setattr(consumer, "read_held", read_held)
    return _Consumer.in_place_of("AIOKafkaConsumer", consumer, monkeypatch)


async def nothing(_partitions: frozenset[Partition]) -> None:
    """Done."""


def answer_with(monkeypatch: pytest.MonkeyPatch, *cluster_ids: str | None) -> None:
    """Let the cluster answer with these ids, one each time it is asked; ``None`` is no answer."""
    answers = iter(cluster_ids)

    async def read_topics(_client: Any, topics: Collection[str], *, node_id: int | None = None) -> ClusterTopics:
        answer = next(answers)
        if answer is None:
            raise Unavailable("away")
        return ClusterTopics(answer, dict.fromkeys(topics, "id"))

    monkeypatch.setattr(consumer, "read_topics", read_topics)


async def test_consumer_neither_commits_itself_nor_reads_uncommitted(
    made: list[_Consumer], monkeypatch: pytest.MonkeyPatch
) -> None:
    answer_with(monkeypatch, "c", "c", "c")
    source = KafkaSource(KafkaSettings())
    await source.open(on_revoked=nothing, on_assigned=nothing)

    expected = {"enable_auto_commit": False, "isolation_level": "read_committed", "auto_offset_reset": "none"}
    assert expected.items() <= made[0].options.items()
    assert made[0].topics == ["otlp_spans", "otlp_spans_json", "spans", "otlp_logs", "otlp_logs_json"]
    assert made[0].positions == {TopicPartition("spans", 0): 5}
    assert await source.poll(timeout_s=1, records_max=1) == []
    await source.close()
    await source.close()
    assert made[0].is_stopped


async def test_failure_of_an_assignment_is_raised_by_the_next_poll(
    made: list[_Consumer], monkeypatch: pytest.MonkeyPatch
) -> None:
    """The driver swallows what its listener raises: records would get the partition id of another cluster."""
    answer_with(monkeypatch, "c", None, "c", "d", "d")
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
    assert source.partition_id_of(Partition("spans", 0)) == "d/id/spans/0"
    assert [driver.is_stopped for driver in made] == [True, False]


class _AssignedWhileStopping(_Consumer):
    """A driver whose last rebalance ends while it stops."""

    async def stop(self) -> None:
        await self.listener.on_partitions_assigned({TopicPartition("spans", 0)})
        await super().stop()


@pytest.mark.usefixtures("made")
async def test_failure_of_an_assignment_while_opening_again_is_forgotten(monkeypatch: pytest.MonkeyPatch) -> None:
    made = _AssignedWhileStopping.in_place_of("AIOKafkaConsumer", consumer, monkeypatch)
    answer_with(monkeypatch, *"cccccc")
    source = KafkaSource(KafkaSettings())
    await source.open(on_revoked=nothing, on_assigned=nothing)

    await source.open(on_revoked=nothing, on_assigned=nothing)

    assert await source.poll(timeout_s=1, records_max=1) == []
    assert [driver.is_stopped for driver in made] == [True, False]


class _Fetched(_Consumer):
    """It returns a record of a partition whose leader is not known."""

    leader: int | None
    node_ids: Sequence[int]

    async def start(self) -> None:
        await super().start()
        self._client = SimpleNamespace(cluster=self)

    async def getmany(self, *_partitions: TopicPartition, timeout_ms: int, max_records: int) -> dict[Any, Any]:
        return {TopicPartition("spans", 0): [ConsumerRecord("spans", 0, 5, 1, 0, None, b"v", None, 0, 1, [])]}

    def leader_for_partition(self, _partition: TopicPartition) -> int | None:
        return self.leader

    def brokers(self) -> list[Any]:
        return [SimpleNamespace(nodeId=node_id) for node_id in self.node_ids]


@pytest.mark.usefixtures("made")
@pytest.mark.parametrize("leader", [None, -1])
@pytest.mark.parametrize(("node_ids", "failure"), [((1, 2), TopicReplaced), ((), Unavailable)])
async def test_records_without_a_known_leader_are_checked(
    monkeypatch: pytest.MonkeyPatch, leader: int | None, node_ids: Sequence[int], failure: type[ServiceError]
) -> None:
    """The topic was created again, and one of two brokers knows it."""

    async def read_topics(_client: Any, topics: Collection[str], *, node_id: int | None = None) -> ClusterTopics:
        return ClusterTopics("c", dict.fromkeys(topics, "second" if node_id == 2 else "first"))

    monkeypatch.setattr(consumer, "read_topics", read_topics)
    _Fetched.in_place_of("AIOKafkaConsumer", consumer, monkeypatch)
    monkeypatch.setattr(_Fetched, "leader", leader, raising=False)
    monkeypatch.setattr(_Fetched, "node_ids", node_ids, raising=False)
    source = KafkaSource(KafkaSettings())
    await source.open(on_revoked=nothing, on_assigned=nothing)

    with pytest.raises(ServiceError) as raised:
        await source.poll(timeout_s=1, records_max=1)

    assert type(raised.value) is failure
    await source.close()


async def test_poll_of_a_closed_source_fails() -> None:
    with pytest.raises(Unavailable, match="not open"):
        await KafkaSource(KafkaSettings()).poll(timeout_s=1, records_max=1)
