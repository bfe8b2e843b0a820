"""Partition ids: the first topic of a name keeps the plain one."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from common.kafka.partition_ids import PartitionIds
from common.kafka.record import Partition
from common.kafka.topics import ClusterTopics

AT = Partition("spans", 3)


class MemoryHistory:
    """A ``TopicHistory`` in memory."""

    def __init__(self) -> None:
        self.ids: dict[tuple[str, str], list[str]] = {}
        self.reads_count = 0

    async def read(self, cluster_id: str, /) -> Mapping[str, Sequence[str]]:
        self.reads_count += 1
        return {topic: list(ids) for (cluster, topic), ids in self.ids.items() if cluster == cluster_id}

    async def add(self, cluster_id: str, topic_ids: Mapping[str, str], /) -> None:
        for topic, topic_id in topic_ids.items():
            self.ids.setdefault((cluster_id, topic), []).append(topic_id)


def topics(topic_id: str, *, cluster_id: str = "c") -> ClusterTopics:
    return ClusterTopics(cluster_id, {"spans": topic_id})


async def test_first_topic_has_the_plain_id_and_the_next_one_another() -> None:
    ids = PartitionIds(MemoryHistory(), adds=True)

    assert await ids.learn(topics("a")) == frozenset()
    assert ids.id_of(AT) == "c/spans/3"
    assert await ids.learn(topics("b")) == {"spans"}
    assert ids.id_of(AT) == "c+b/spans/3"


async def test_other_processes_find_the_same_ids() -> None:
    history = MemoryHistory()
    worker, api = PartitionIds(history, adds=True), PartitionIds(history, adds=False)
    await api.learn(topics("a"))
    assert (api.id_of(AT), history.ids) == ("c/spans/3", {})  # an API does not say which topic came first
    await worker.learn(topics("a"))
    await worker.learn(topics("b"))

    await api.learn(topics("b"))
    second = PartitionIds(history, adds=True)

    assert api.id_of(AT) == "c+b/spans/3"
    assert await second.learn(topics("b")) == frozenset()  # known already, so nothing was replaced since
    assert second.id_of(AT) == "c+b/spans/3"


async def test_each_running_worker_learns_that_a_topic_was_created_again() -> None:
    """Each reports the gaps of its own partitions, so it does not matter who adds the new id to the history."""
    history = MemoryHistory()
    workers = [PartitionIds(history, adds=True) for _ in range(3)]
    for worker in workers:
        await worker.learn(topics("a"))
    await workers[2].learn(ClusterTopics("c", {}))  # deleted, and not created again yet

    assert [await worker.learn(topics("b")) for worker in workers] == [{"spans"}] * 3
    assert [await worker.learn(topics("b")) for worker in workers] == [frozenset()] * 3
    assert history.ids == {("c", "spans"): ["a", "b"]}


async def test_other_cluster_has_its_own_first_topic() -> None:
    ids = PartitionIds(MemoryHistory(), adds=True)
    await ids.learn(topics("a"))

    assert await ids.learn(topics("b", cluster_id="d")) == frozenset()
    assert ids.id_of(AT) == "d/spans/3"


async def test_known_ids_are_not_read_again() -> None:
    history = MemoryHistory()
    ids = PartitionIds(history, adds=True)
    await ids.learn(topics("a"))
    reads_count = history.reads_count

    await ids.learn(topics("a"))

    assert history.reads_count == reads_count


async def test_broker_without_topic_ids_has_plain_ids() -> None:
    history = MemoryHistory()
    ids = PartitionIds(history, adds=True)

    assert await ids.learn(topics("")) == frozenset()
    assert ids.id_of(AT) == "c/spans/3"
    assert history.ids == {}
