"""Questions about the cluster itself: its id, which begins a log's identity (``RecordSource.partition_id_of``), and its topics."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from aiokafka.admin import AIOKafkaAdminClient

from common.kafka.driver import ended, prepare_driver, translated
from common.settings import KafkaSettings


@asynccontextmanager
async def open_admin(settings: KafkaSettings) -> AsyncIterator[AIOKafkaAdminClient]:
    """A connection for questions about the cluster. Raises ``Unavailable``."""
    prepare_driver()
    admin = AIOKafkaAdminClient(
        bootstrap_servers=settings.bootstrap, request_timeout_ms=int(settings.request_timeout_s * 1000)
    )
    with translated("connect"):
        try:
            async with asyncio.timeout(settings.request_timeout_s):
                await admin.start()
            yield admin
        finally:
            await ended(admin.close())


async def read_cluster_id(settings: KafkaSettings) -> str:
    """The id that the cluster was formatted with; a broker that was made anew has another. Raises ``Unavailable``."""
    async with open_admin(settings) as admin:
        return await cluster_id_of(admin, settings)


async def cluster_id_of(admin: AIOKafkaAdminClient, settings: KafkaSettings) -> str:
    """The same, by a connection that is open already."""
    with translated("describe cluster"):
        async with asyncio.timeout(settings.request_timeout_s):
            described = await admin.describe_cluster()
    return str(described.get("cluster_id") or "")


async def partitions_of(settings: KafkaSettings, topic: str) -> list[int]:
    """The partitions of a topic, ascending; empty when there is none of that name. Raises ``Unavailable``."""
    async with open_admin(settings) as admin:
        with translated("describe the topic"):
            async with asyncio.timeout(settings.request_timeout_s):
                described = await admin.describe_topics([topic])
    return sorted(each["partition"] for found in described for each in found["partitions"] if not found["error_code"])
