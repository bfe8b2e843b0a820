from __future__ import annotations

import asyncio
from uuid import UUID

from common.errors import Unavailable
from common.stored_position import StoredPosition, decode_positions
from ingest.announce import PENDING_MAX, Announcer, open_announcer
from tests.fakes.kafka import MemoryBroker

TOPIC = "spans.stored"


def position(offset: int, *, project: int = 1, partition_id: str = "c/t/0") -> StoredPosition:
    return StoredPosition(UUID(int=project), partition_id, offset, 5, 6)


def announced(broker: MemoryBroker) -> list[StoredPosition]:
    return [each for record in broker.records(TOPIC) for each in decode_positions(record.value or b"")]


async def test_what_is_settled_is_published() -> None:
    broker = MemoryBroker(partitions=1)
    async with open_announcer(broker.publisher(), topic=TOPIC) as announcer:
        announcer.announce([position(1), position(2, project=2)])
        async with asyncio.timeout(5):
            while not announced(broker):  # noqa: ASYNC110 - of another loop
                await asyncio.sleep(0.001)

    assert announced(broker) == [position(1), position(2, project=2)]


async def test_the_last_batch_is_announced_before_the_end() -> None:
    broker = MemoryBroker(partitions=1)
    async with open_announcer(broker.publisher(), topic=TOPIC) as announcer:
        announcer.announce([position(1)])

    assert announced(broker) == [position(1)]


async def test_of_one_project_and_log_the_latest_alone_is_published() -> None:
    broker = MemoryBroker(partitions=1)
    announcer = Announcer(broker.publisher(), topic=TOPIC)
    announcer.announce([position(1), position(1, partition_id="c/t/1")])
    announcer.announce([position(2)])

    await announcer.publish_pending()

    assert announced(broker) == [position(1, partition_id="c/t/1"), position(2)]


async def test_what_cannot_be_published_is_dropped_and_the_next_is_not() -> None:
    broker = MemoryBroker(partitions=1)
    broker.publish_faults.append(Unavailable("away"))
    announcer = Announcer(broker.publisher(), topic=TOPIC)
    announcer.announce([position(1)])
    await announcer.publish_pending()

    announcer.announce([position(2)])
    await announcer.publish_pending()

    assert announced(broker) == [position(2)]


async def test_so_many_are_kept_and_of_one_more_the_oldest_goes() -> None:
    broker = MemoryBroker(partitions=1)
    announcer = Announcer(broker.publisher(), topic=TOPIC)
    announcer.announce([position(1, project=number) for number in range(PENDING_MAX)])
    announcer.announce([position(1, project=PENDING_MAX)])

    await announcer.publish_pending()

    assert [each.project_id.int for each in announced(broker)] == list(range(1, PENDING_MAX + 1))
