"""The topics Clearspan needs: made at the start where they are missing, never changed where they exist."""

from __future__ import annotations

import asyncio
from typing import Any, Final

from aiokafka.admin import AIOKafkaAdminClient, NewTopic
from aiokafka.errors import for_code

from common.errors import ServiceError, Unavailable
from common.kafka.cluster import open_admin
from common.kafka.driver import translated
from common.settings import KafkaSettings

NO_ERROR: Final = 0
TOPIC_ALREADY_EXISTS: Final = 36
DEAD_LETTER_RETENTION_MS: Final = -1
"""A dead letter is kept until somebody has looked at it."""

STORED_RETENTION_MS: Final = 3_600_000
"""An announcement is for who waits now; what it says stands in a table."""


async def ensure_topics(settings: KafkaSettings) -> list[str]:
    """Create the topics of ``settings`` that are missing; returns the names of those this call created, sorted.

    Safe to run twice and from two places at once: a topic that somebody else made meanwhile counts as there. Raises
    ``Unavailable`` (transient), ``ServiceError`` where the broker refuses for good.
    """
    wanted = {*settings.topics, settings.intake_topic, settings.otlp_topic}
    wanted |= {settings.dead_letter_topic, settings.stored_topic}
    async with open_admin(settings) as admin:
        with translated("create topics"):
            async with asyncio.timeout(settings.request_timeout_s):
                missing = sorted(wanted - set(await admin.list_topics()))
                return await _create(admin, missing, settings) if missing else []


async def _create(admin: AIOKafkaAdminClient, names: list[str], settings: KafkaSettings) -> list[str]:
    answer = await admin.create_topics([_new_topic(name, settings) for name in names])
    created = []
    for name, code, *_ in answer.topic_errors:
        if code == NO_ERROR:
            created.append(name)
        elif code != TOPIC_ALREADY_EXISTS:
            raise _refusal(name, code)
    return sorted(created)


def _new_topic(name: str, settings: KafkaSettings) -> NewTopic:
    # The broker's own default of 1 MiB is smaller than a record may be (contract §6).
    configs: dict[str, Any] = {"max.message.bytes": str(settings.message_bytes_max)}
    if name == settings.dead_letter_topic:
        configs["retention.ms"] = str(DEAD_LETTER_RETENTION_MS)
    partitions = settings.partitions
    if name == settings.stored_topic:
        configs["retention.ms"] = str(STORED_RETENTION_MS)
        partitions = 1
    return NewTopic(name, partitions, settings.replication_factor, topic_configs=configs)


def _refusal(name: str, code: int) -> ServiceError:
    error = for_code(code)
    sentence = f"The broker did not create the topic {name}: {error.__name__}."
    return Unavailable(sentence) if error.retriable else ServiceError(sentence)
