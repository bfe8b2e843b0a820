"""The cluster itself: its id, which begins every partition id (``RecordSource.partition_id_of``), and its topics.

Missing topics are created at startup; existing ones are never changed.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Collection
from contextlib import asynccontextmanager
from typing import Any, Final

from aiokafka import TopicPartition
from aiokafka.admin import AIOKafkaAdminClient, NewTopic
from aiokafka.errors import for_code

from common.errors import ServiceError, Unavailable
from common.kafka.driver import AWAY, ended, prepare_driver, started, translated
from common.kafka.security import DENIED, LastFailure, client_options
from common.settings import KafkaSettings

NO_ERROR: Final = 0
TOPIC_ALREADY_EXISTS: Final = 36
DEAD_LETTER_RETENTION_MS: Final = -1
"""Dead letters are kept forever: until a person replays or drops them."""

STORED_RETENTION_MS: Final = 3_600_000
"""Announcements are for requests that wait now; the table ``stored_through`` holds the same facts."""


@asynccontextmanager
async def open_admin(settings: KafkaSettings) -> AsyncIterator[AIOKafkaAdminClient]:
    """Connect an admin client. Raises ``Unavailable`` (transient)."""
    prepare_driver()
    connecting = LastFailure(settings)
    with translated("connect", connecting):
        admin = AIOKafkaAdminClient(
            **client_options(settings), request_timeout_ms=int(settings.request_timeout_s * 1000)
        )
    try:
        with translated("connect", connecting):
            async with asyncio.timeout(settings.request_timeout_s):
                await started(admin.start())
        yield admin
    finally:
        with translated("close", connecting):
            await ended(admin.close())


async def read_cluster_id(settings: KafkaSettings) -> str:
    """Return the id that the cluster was formatted with. Raises ``Unavailable`` (transient)."""
    async with open_admin(settings) as admin:
        return await cluster_id_of(admin, settings)


async def cluster_id_of(admin: AIOKafkaAdminClient, settings: KafkaSettings) -> str:
    """Return the cluster id, over an open connection. Raises ``Unavailable`` (transient)."""
    with translated("describe the cluster", LastFailure(settings)):
        async with asyncio.timeout(settings.request_timeout_s):
            described = await admin.describe_cluster()
    return str(described.get("cluster_id") or "")


async def partitions_of(settings: KafkaSettings, topics: Collection[str]) -> list[TopicPartition]:
    """Return the partitions of these topics, ascending; none of a topic that does not exist. Raises ``Unavailable``."""
    async with open_admin(settings) as admin:
        return await describe_partitions(admin, settings, topics)


async def describe_partitions(
    admin: AIOKafkaAdminClient, settings: KafkaSettings, topics: Collection[str]
) -> list[TopicPartition]:
    """Return the same as ``partitions_of``, over an open connection. Raises ``Unavailable`` (transient)."""
    with translated("describe the topics", LastFailure(settings)):
        async with asyncio.timeout(settings.request_timeout_s):
            found = await admin.describe_topics(list(topics))
    return sorted(
        TopicPartition(topic["topic"], partition["partition"])
        for topic in found
        if not topic["error_code"]
        for partition in topic["partitions"]
    )


async def ensure_topics(settings: KafkaSettings) -> list[str]:
    """Create the topics of ``settings`` that are missing; return the names of those that this call created, sorted.

    Safe to run twice and from two places at once: a topic that another process created meanwhile counts as present.
    Raises ``Unavailable`` (transient), or ``ServiceError`` if the broker refuses permanently.
    """
    needed = {*settings.topics, settings.intake_topic, settings.otlp_topic}
    needed |= {settings.dead_letter_topic, settings.stored_topic}
    async with open_admin(settings) as admin:
        with translated("create topics"):
            async with asyncio.timeout(settings.request_timeout_s):
                missing = sorted(needed - set(await admin.list_topics()))
                return await _create(admin, missing, settings) if missing else []


async def _create(admin: AIOKafkaAdminClient, names: list[str], settings: KafkaSettings) -> list[str]:
    response = await admin.create_topics([_new_topic(name, settings) for name in names])
    created = []
    for name, code, *_ in response.topic_errors:
        if code == NO_ERROR:
            created.append(name)
        elif code != TOPIC_ALREADY_EXISTS:
            error = for_code(code)
            sentence = f"The broker did not create the topic {name}: {error.__name__}."
            if issubclass(error, DENIED):
                sentence = f"This user may not create the topic {name}. Create it, or grant Create."
                raise Unavailable(sentence, public_message=AWAY)
            raise Unavailable(sentence) if error.retriable else ServiceError(sentence)
    return sorted(created)


def _new_topic(name: str, settings: KafkaSettings) -> NewTopic:
    # The broker's own default of 1 MiB is smaller than a record may be (contract §6).
    configs: dict[str, Any] = {"max.message.bytes": str(settings.message_bytes_max)}
    partitions = settings.partitions
    if name == settings.dead_letter_topic:
        configs["retention.ms"] = str(DEAD_LETTER_RETENTION_MS)
    if name == settings.stored_topic:
        configs["retention.ms"] = str(STORED_RETENTION_MS)
        partitions = 1
    return NewTopic(name, partitions, settings.replication_factor, topic_configs=configs)
