"""Which cluster answers, and the id of each of its topics.

Kafka gives a topic a new id when it is created (KIP-516), so a topic that was deleted and created again is another one,
although its name, its partitions and its offsets are the same (ADR 0027). The driver (aiokafka 0.14) asks for metadata
up to version 5, which has no ids. So this module has the request of version 10, which Kafka answers since 2.8. A broker
that does not know it gives no ids: its topics count as never created again.
"""

from __future__ import annotations

import base64
from collections.abc import Collection, Mapping
from io import BytesIO
from typing import Any, Final, NamedTuple

from aiokafka.client import AIOKafkaClient
from aiokafka.errors import UnknownTopicOrPartitionError, for_code
from aiokafka.protocol.api import Request as DriverRequest
from aiokafka.protocol.api import RequestStruct
from aiokafka.protocol.api import Response as DriverResponse
from aiokafka.protocol.metadata import MetadataRequest
from aiokafka.protocol.types import (
    AbstractType,
    Boolean,
    CompactArray,
    CompactString,
    Int16,
    Int32,
    Schema,
    TaggedFields,
)
from typing_extensions import override

from common.kafka.record import Partition

NO_ID: Final = bytes(16)
NO_ERROR: Final = 0
_METADATA: Final = 3


class ClusterTopics(NamedTuple):
    """The id of a cluster, and of each of the topics asked for that exists; an empty id if the broker gives none."""

    cluster_id: str
    topic_ids: Mapping[str, str]

    def partition_id(self, partition: Partition) -> str:
        """Return ``cluster id/topic id/topic/partition``: offsets are compared only within one such id."""
        return f"{self.cluster_id}/{self.topic_ids.get(partition.topic, '')}/{partition.topic}/{partition.partition}"


class _TopicId(AbstractType):  # type: ignore[misc] # the driver ships no types
    """A topic id as Kafka's tools show it: 22 characters of base64; an empty text if there is none."""

    @classmethod
    @override
    def encode(cls, value: str) -> bytes:
        return base64.urlsafe_b64decode(f"{value}==") if value else NO_ID

    @classmethod
    @override
    def decode(cls, data: BytesIO) -> str:
        found = data.read(16)
        return "" if found == NO_ID else base64.urlsafe_b64encode(found).decode().rstrip("=")


class _MetadataResponse(DriverResponse):  # type: ignore[misc] # the driver ships no types
    API_KEY = _METADATA
    API_VERSION = 10
    SCHEMA = Schema(
        ("throttle_time_ms", Int32),
        (
            "brokers",
            CompactArray(
                ("node_id", Int32),
                ("host", CompactString("utf-8")),
                ("port", Int32),
                ("rack", CompactString("utf-8")),
                ("tags", TaggedFields),
            ),
        ),
        ("cluster_id", CompactString("utf-8")),
        ("controller_id", Int32),
        (
            "topics",
            CompactArray(
                ("error_code", Int16),
                ("name", CompactString("utf-8")),
                ("topic_id", _TopicId),
                ("is_internal", Boolean),
                (
                    "partitions",
                    CompactArray(
                        ("error_code", Int16),
                        ("partition", Int32),
                        ("leader", Int32),
                        ("leader_epoch", Int32),
                        ("replicas", CompactArray(Int32)),
                        ("isr", CompactArray(Int32)),
                        ("offline_replicas", CompactArray(Int32)),
                        ("tags", TaggedFields),
                    ),
                ),
                ("topic_authorized_operations", Int32),
                ("tags", TaggedFields),
            ),
        ),
        ("cluster_authorized_operations", Int32),
        ("tags", TaggedFields),
    )


class _MetadataStruct(RequestStruct):  # type: ignore[misc] # the driver ships no types
    FLEXIBLE_VERSION = True
    API_KEY = _METADATA
    API_VERSION = 10
    RESPONSE_TYPE = _MetadataResponse
    SCHEMA = Schema(
        ("topics", CompactArray(("topic_id", _TopicId), ("name", CompactString("utf-8")), ("tags", TaggedFields))),
        ("allow_auto_topic_creation", Boolean),
        ("include_cluster_authorized_operations", Boolean),
        ("include_topic_authorized_operations", Boolean),
        ("tags", TaggedFields),
    )


class _TopicsRequest(DriverRequest[_MetadataStruct]):  # type: ignore[misc] # the driver ships no types
    API_KEY = _METADATA

    def __init__(self, topics: Collection[str]) -> None:
        self._topics = topics

    @override
    def build(self, request_struct_class: type[_MetadataStruct]) -> _MetadataStruct:
        return request_struct_class(
            topics=[("", topic, {}) for topic in self._topics],
            allow_auto_topic_creation=False,
            include_cluster_authorized_operations=False,
            include_topic_authorized_operations=False,
            tags={},
        )


async def read_topics(client: AIOKafkaClient, topics: Collection[str], *, node_id: int | None = None) -> ClusterTopics:
    """Ask a broker, any by default, which cluster this is and which of these topics exist.

    Raises the errors of the driver.
    """
    node_id = client.get_random_node() if node_id is None else node_id
    try:
        response = await client.send(node_id, _TopicsRequest(topics))
    except NotImplementedError:  # the broker does not know this version
        response = await client.send(node_id, MetadataRequest(list(topics), allow_auto_topic_creation=False))
        known = [(topic[0], topic[1], "") for topic in response.topics]
    else:
        known = [topic[:3] for topic in response.topics]
    return ClusterTopics(str(response.cluster_id or ""), dict(_existing(known)))


def _existing(topics: Collection[tuple[int, str, str]]) -> list[tuple[str, str]]:
    found: list[tuple[str, str]] = []
    for error_code, name, topic_id in topics:
        error: Any = for_code(error_code)
        if error_code == NO_ERROR:
            found.append((name, topic_id))
        elif error is not UnknownTopicOrPartitionError:
            raise error(name)
    return found
