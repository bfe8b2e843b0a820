"""The id of each partition: ``cluster/topic/partition``, or with the topic id if the topic is not the first (ADR 0027).

The first topic of a name that an installation reads keeps the plain id, which everything stored before topic ids were
known has. A topic that was deleted and created again gets ``cluster+topic id/topic/partition``: its offsets begin at 0
anew and must not be compared with the older ones. Which topic came first is remembered in a ``TopicHistory``, because
workers and APIs must agree on the ids.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Protocol

from common.kafka.record import Partition
from common.kafka.topics import ClusterTopics


class TopicHistory(Protocol):
    """Remembers the ids that topics have had."""

    async def read(self, cluster_id: str, /) -> Mapping[str, Sequence[str]]:
        """Return the ids of each topic of a cluster, the one that came first at the beginning. Raises transient
        errors.
        """
        ...

    async def add(self, cluster_id: str, topic_ids: Mapping[str, str], /) -> None:
        """Remember one id of each of these topics. Raises transient errors; adding an id twice changes nothing."""
        ...


class PartitionIds:
    """The partition ids of one cluster as it is now. A worker ``adds`` what is new to the history, an API only reads.

    Without a history every id is the plain one, until a topic is replaced while this object exists.
    """

    def __init__(self, history: TopicHistory | None = None, *, adds: bool) -> None:
        self._history = history
        self._adds = adds
        self._known: dict[tuple[str, str], list[str]] = {}
        self._learned: dict[tuple[str, str], str] = {}
        """The id that each topic had when ``learn`` was last called while it existed."""
        self.topics = ClusterTopics("", {})
        """What ``learn`` was called with last."""

    async def learn(self, topics: ClusterTopics) -> frozenset[str]:
        """Take in what the cluster says now; return the topics that were created again since their last known id.

        A topic is returned also if another worker has added its new id to the history already, because each worker
        reports the gaps of its own partitions. Raises the errors of the history; asks it only if an id is new.
        """
        replaced = {
            name
            for name, topic_id in topics.topic_ids.items()
            if topic_id and self._learned.get((topics.cluster_id, name), topic_id) != topic_id
        }
        if any(topic_id and topic_id not in self._ids_of(topics, name) for name, topic_id in topics.topic_ids.items()):
            await self._read(topics.cluster_id)
            new = {
                name: topic_id
                for name, topic_id in topics.topic_ids.items()
                if topic_id and topic_id not in self._ids_of(topics, name)
            }
            replaced |= {name for name in new if self._ids_of(topics, name)}
            if self._adds and new:
                await self._add(topics.cluster_id, new)
        self.topics = topics
        self._learned.update({(topics.cluster_id, name): topic_id for name, topic_id in topics.topic_ids.items()})
        return frozenset(replaced)

    def id_of(self, partition: Partition) -> str:
        """Return the id of a partition of ``topics``."""
        cluster_id, topic_ids = self.topics
        topic_id = topic_ids.get(partition.topic, "")
        known = self._known.get((cluster_id, partition.topic))
        if topic_id and known and known[0] != topic_id:
            cluster_id = f"{cluster_id}+{topic_id}"
        return f"{cluster_id}/{partition.topic}/{partition.partition}"

    def _ids_of(self, topics: ClusterTopics, name: str) -> Sequence[str]:
        return self._known.get((topics.cluster_id, name), ())

    async def _read(self, cluster_id: str) -> None:
        if self._history is not None:
            for name, topic_ids in (await self._history.read(cluster_id)).items():
                self._known[cluster_id, name] = list(topic_ids)

    async def _add(self, cluster_id: str, new: Mapping[str, str]) -> None:
        if self._history is None:
            for name, topic_id in new.items():
                self._known.setdefault((cluster_id, name), []).append(topic_id)
        else:
            await self._history.add(cluster_id, new)
            await self._read(cluster_id)
