"""Threads of the event loop's executor: within the share of the project that they work for."""

from __future__ import annotations

import asyncio
import threading
from uuid import UUID

import pytest

from common import fair_share
from common.errors import Overloaded
from common.fair_share import Tenant, in_thread, working_for

A, B = (Tenant(UUID(int=number), has_neighbors=True, queue_s=0.05) for number in (1, 2))


async def test_result_or_exception_of_the_function_is_returned() -> None:
    assert await in_thread(divmod, 7, 2) == (3, 1)
    with pytest.raises(ZeroDivisionError):
        await in_thread(divmod, 7, 0)


async def test_project_at_its_share_leaves_threads_to_its_neighbors(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(fair_share, "THREADS_COUNT", 2)
    go_on = threading.Event()
    with working_for(A):
        first = asyncio.create_task(in_thread(go_on.wait, 5))
        await asyncio.sleep(0)
        with pytest.raises(Overloaded, match="threads"):
            await in_thread(go_on.wait, 5)

    with working_for(B):
        assert await in_thread(str, 5) == "5"
    go_on.set()
    assert await first


async def test_abandoned_thread_counts_until_it_ends(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(fair_share, "THREADS_COUNT", 2)
    go_on = threading.Event()
    with working_for(A):
        abandoned = asyncio.create_task(in_thread(go_on.wait, 5))
        await asyncio.sleep(0)
        abandoned.cancel()
        await asyncio.wait({abandoned})

        with pytest.raises(Overloaded):
            await in_thread(str, 5)
        go_on.set()
        await asyncio.sleep(0.01)
        assert await in_thread(str, 5) == "5"
