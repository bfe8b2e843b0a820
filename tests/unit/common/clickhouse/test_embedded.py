"""Handles without an engine: which caller gets one, when it is idle again, and what happens after a failure."""

from __future__ import annotations

import asyncio
import gc
import threading
import time
from typing import Any
from uuid import UUID

import pytest

from common.clickhouse import embedded
from common.clickhouse.embedded import HandlePool
from common.errors import DeadlineExceeded, Overloaded, Unavailable
from common.fair_share import Tenant, working_for


class Client:
    """A connection that remembers whether it was closed."""

    def __init__(self) -> None:
        self.is_closed = False

    def close(self) -> None:
        self.is_closed = True


class Opening:
    """Opens clients and remembers them."""

    def __init__(self) -> None:
        self.clients: list[Client] = []

    def __call__(self):
        self.clients.append(Client())
        return self.clients[-1]


def fail(_client):
    raise ValueError("no")


async def test_handle_is_opened_once_when_first_used():
    opening = Opening()
    pool = HandlePool(opening, count=2, name="test")
    assert opening.clients == []

    first = await pool.run(lambda client: client, deadline_s=60)
    second = await pool.run(lambda client: client, deadline_s=60)

    assert first is second
    await pool.close()
    assert [client.is_closed for client in opening.clients] == [True]


async def test_failed_handle_is_closed_and_opened_again():
    opening = Opening()
    pool = HandlePool(opening, count=1, name="test")

    with pytest.raises(ValueError, match="no"):
        await pool.run(fail, deadline_s=60)
    await pool.run(lambda client: None, deadline_s=60)

    assert [client.is_closed for client in opening.clients] == [True, False]
    await pool.close()


async def test_handle_stays_busy_while_an_abandoned_call_runs():
    pool = HandlePool(Opening(), count=1, name="test")
    go_on = threading.Event()
    abandoned = asyncio.create_task(pool.run(lambda client: go_on.wait(60), deadline_s=60))
    await asyncio.sleep(0)
    abandoned.cancel()

    with pytest.raises(Overloaded):
        await pool.run(lambda client: None, deadline_s=0.05)
    go_on.set()

    assert await pool.run(lambda client: "served", deadline_s=60) == "served"
    await pool.close()


async def test_failure_of_an_abandoned_call_is_not_logged():
    complaints: list[dict[str, Any]] = []
    asyncio.get_running_loop().set_exception_handler(lambda _, context: complaints.append(context))
    pool = HandlePool(Opening(), count=1, name="test")
    may_fail = threading.Event()

    def fail_late(_client):
        may_fail.wait(60)
        raise ValueError("no")

    running = asyncio.create_task(pool.run(fail_late, deadline_s=60))
    await asyncio.sleep(0.01)
    running.cancel()
    await asyncio.wait({running})
    del running  # its frames keep the failure alive
    may_fail.set()
    await pool.run(lambda client: None, deadline_s=60)
    gc.collect()

    assert complaints == []
    await pool.close()


async def test_waiting_for_a_handle_does_not_shorten_the_deadline(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(embedded, "GRACE_S", 0)
    pool = HandlePool(Opening(), count=1, name="test")
    first = asyncio.create_task(pool.run(lambda client: time.sleep(0.8), deadline_s=60))
    second = asyncio.create_task(pool.run(lambda client: time.sleep(0.8), deadline_s=1.4))

    await first
    await second
    await pool.close()


async def test_project_at_its_share_waits_while_others_do_not():
    greedy, neighbor = (Tenant(UUID(int=number), has_neighbors=True, queue_s=0.05) for number in (1, 2))
    pool = HandlePool(Opening(), count=2, name="test")
    go_on = threading.Event()
    with working_for(greedy):
        first = asyncio.create_task(pool.run(lambda client: go_on.wait(60), deadline_s=60))
        await asyncio.sleep(0)
        with pytest.raises(Overloaded):
            await pool.run(lambda client: None, deadline_s=60)

    with working_for(neighbor):
        assert await pool.run(lambda client: "served", deadline_s=60) == "served"
    go_on.set()
    await first
    await pool.close()


async def test_abandoned_call_counts_to_the_share_of_its_project():
    greedy = Tenant(UUID(int=1), has_neighbors=True, queue_s=0.05)
    pool = HandlePool(Opening(), count=2, name="test")
    go_on = threading.Event()
    with working_for(greedy):
        abandoned = asyncio.create_task(pool.run(lambda client: go_on.wait(60), deadline_s=60))
        await asyncio.sleep(0)
        abandoned.cancel()
        with pytest.raises(Overloaded):
            await pool.run(lambda client: None, deadline_s=60)
    go_on.set()
    await pool.close()


async def test_caller_stops_waiting_for_an_engine_that_overruns(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(embedded, "GRACE_S", 0.01)
    pool = HandlePool(Opening(), count=1, name="test")
    go_on = threading.Event()

    with pytest.raises(DeadlineExceeded):
        await pool.run(lambda client: go_on.wait(60), deadline_s=0.01)

    go_on.set()
    await pool.close()


async def test_waiting_caller_gets_an_error_when_the_pool_closes():
    pool = HandlePool(Opening(), count=1, name="test")
    go_on = threading.Event()
    running = asyncio.create_task(pool.run(lambda client: go_on.wait(60), deadline_s=60))
    waiting = asyncio.create_task(pool.run(lambda client: None, deadline_s=60))
    await asyncio.sleep(0)
    closing = asyncio.create_task(pool.close())
    await asyncio.sleep(0)
    go_on.set()

    assert await running
    with pytest.raises(Unavailable):
        await waiting
    await closing


async def test_handles_in_use_are_counted():
    pool = HandlePool(Opening(), count=3, name="test")
    both_are_busy = threading.Barrier(2, timeout=60)

    def busy_for_a_while(_client: Any) -> int:
        both_are_busy.wait()
        count = pool.busy_count
        both_are_busy.wait()
        return count

    async def count() -> int:
        return await pool.run(busy_for_a_while, deadline_s=60)

    assert sorted(await asyncio.gather(count(), count())) == [2, 2]
    assert pool.busy_count == 0
    await pool.close()
