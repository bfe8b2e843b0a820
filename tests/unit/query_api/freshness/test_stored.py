from __future__ import annotations

import asyncio
from uuid import UUID

from common.stored_position import StoredPosition
from query_api.request.progress import PROJECTS_MAX, StoredThrough, Through

A, B = UUID(int=1), UUID(int=2)


def settled(offset: int, *, project_id: UUID = A, partition_id: str = "x") -> StoredPosition:
    return StoredPosition(project_id, partition_id, offset, 10 * offset, 100 * offset)


def test_highest_offset_of_a_partition_counts_in_any_order() -> None:
    stored = StoredThrough()
    stored.learn([settled(5), settled(3), settled(1, partition_id="y")])
    stored.learn([settled(4)])

    assert stored.through(A) == {"x": Through(5, 50, 500), "y": Through(1, 10, 100)}
    assert stored.through(B) == {}


def test_returned_positions_do_not_change_later() -> None:
    """Answers promise what was stored before they were made."""
    stored = StoredThrough()
    stored.learn([settled(5)])
    before = stored.through(A)

    stored.learn([settled(6)])

    assert before == {"x": Through(5, 50, 500)}


def test_offsets_of_the_partitions_stored_last_are_returned() -> None:
    stored = StoredThrough()
    stored.learn(StoredPosition(A, f"log {number}", number, 1, 10 - number) for number in range(5))

    assert stored.offsets(A, max_count=5) == {f"log {number}": number for number in range(5)}
    assert stored.offsets(A, max_count=2) == {"log 0": 0, "log 1": 1}
    assert stored.offsets(B, max_count=2) == {}


def test_known_position_is_no_news() -> None:
    stored = StoredThrough()
    stored.learn([settled(5)])
    count = stored.news_count(A)

    stored.learn([settled(5), settled(4), settled(9, project_id=B)])

    assert stored.news_count(A) == count


async def test_news_wakes_only_waiters_of_its_project() -> None:
    stored = StoredThrough()
    of_a = asyncio.create_task(stored.wait_for_news(A, since=0, timeout_s=5))
    of_b = asyncio.create_task(stored.wait_for_news(B, since=0, timeout_s=0.05))
    await asyncio.sleep(0)
    assert stored.waiting_count == 2

    stored.learn([settled(1)])

    assert await of_a is True
    assert await of_b is False
    assert stored.waiting_count == 0


async def test_news_between_look_and_wait_is_not_missed() -> None:
    stored = StoredThrough()
    since = stored.news_count(A)
    stored.learn([settled(1)])

    async with asyncio.timeout(1):
        assert await stored.wait_for_news(A, since=since, timeout_s=5) is True


async def test_cancelled_waiter_is_removed() -> None:
    stored = StoredThrough()
    waiting = asyncio.create_task(stored.wait_for_news(A, since=0, timeout_s=5))
    await asyncio.sleep(0)

    waiting.cancel()
    await asyncio.wait({waiting})

    assert stored.waiting_count == 0


async def test_release_wakes_every_waiter() -> None:
    stored = StoredThrough()
    waiting = asyncio.create_task(stored.wait_for_news(A, since=0, timeout_s=30))
    await asyncio.sleep(0)

    stored.release()

    async with asyncio.timeout(1):
        assert await waiting is False
        assert await stored.wait_for_news(A, since=0, timeout_s=30) is False


async def test_quietest_project_without_waiters_is_dropped_above_the_limit() -> None:
    stored = StoredThrough()
    waiting = asyncio.create_task(stored.wait_for_news(UUID(int=10**9), since=0, timeout_s=5))
    await asyncio.sleep(0)
    for number in range(PROJECTS_MAX - 1):
        stored.learn([settled(1, project_id=UUID(int=number))])
    stored.learn([settled(2, project_id=UUID(int=0))])
    assert stored.through(UUID(int=1))

    stored.learn([settled(1, project_id=UUID(int=PROJECTS_MAX))])

    assert not stored.through(UUID(int=1))
    assert stored.through(UUID(int=0))
    assert stored.through(UUID(int=2))
    stored.learn([settled(1, project_id=UUID(int=10**9))])
    assert await waiting is True


async def test_timed_out_wait_keeps_nothing_in_memory() -> None:
    stored = StoredThrough()
    stored.learn([settled(1)])
    assert await stored.wait_for_news(A, since=1, timeout_s=0.001) is False

    stored.learn(settled(1, project_id=UUID(int=100 + number)) for number in range(PROJECTS_MAX))

    assert not stored.through(A)
