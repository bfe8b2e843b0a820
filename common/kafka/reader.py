"""A consumer of the driver that belongs to no subscription: it reads, or asks, about partitions that it is told.

Membership in a group, with its rebalances, is another matter: ``consumer.py``.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from aiokafka import AIOKafkaConsumer

from common.kafka.driver import ended, prepare_driver, translated
from common.kafka.watermarks import FETCH_WAIT_MS
from common.settings import KafkaSettings


def new_reader(
    settings: KafkaSettings,
    *,
    group: str | None = None,
    fetch_wait_ms: int = FETCH_WAIT_MS,
    partition_bytes_max: int | None = None,
) -> AIOKafkaConsumer:
    """A reader that is not connected yet. It commits nothing.

    ``group``: whose committed offsets it can be asked for, without joining it. ``fetch_wait_ms``: how long the broker holds
    a fetch that finds nothing. ``partition_bytes_max``: of one response, ``message_bytes_max`` when not given.
    """
    prepare_driver()
    return AIOKafkaConsumer(
        bootstrap_servers=settings.bootstrap,
        group_id=group,
        enable_auto_commit=False,
        isolation_level="read_committed",
        auto_offset_reset="earliest",
        fetch_max_wait_ms=fetch_wait_ms,
        max_partition_fetch_bytes=settings.message_bytes_max if partition_bytes_max is None else partition_bytes_max,
        request_timeout_ms=int(settings.request_timeout_s * 1000),
    )


@asynccontextmanager
async def open_reader(
    settings: KafkaSettings,
    *,
    group: str | None = None,
    fetch_wait_ms: int = FETCH_WAIT_MS,
    partition_bytes_max: int | None = None,
) -> AsyncIterator[AIOKafkaConsumer]:
    """A connected ``new_reader``. Raises ``Unavailable`` (transient) when Kafka does not answer in time."""
    reader = new_reader(settings, group=group, fetch_wait_ms=fetch_wait_ms, partition_bytes_max=partition_bytes_max)
    try:
        with translated("connect"):
            async with asyncio.timeout(settings.request_timeout_s):
                await reader.start()
        yield reader
    finally:
        await ended(reader.stop())
