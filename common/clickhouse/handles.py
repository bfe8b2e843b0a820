"""Handles to the engine inside this process: blocking calls, moved off the event loop and never cut in half.

Why this is more than a thread pool, measured on chDB 4.4 (engine 26.9):

- A handle serialises its calls; several handles on one path run in parallel. So there are several, each used by one
  call at a time.
- Cancelling an await does not stop a call. So a handle is idle again, and counts to its tenant's share until then, when its call
  has ended, not when somebody lost interest.
- What a failed statement had already written stands in front of the **next answer on the same handle**. So a handle
  that saw a failure is closed, and opened anew when it is needed (about 15 ms).
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from typing import Final, TypeAlias, TypeVar

from clickhouse_connect.driver.client import Client

from common.errors import DeadlineExceeded, Unavailable
from common.fair_share import FairShare
from common.tenant import Tenant, current_tenant
from common.waiting import shielded

Answer = TypeVar("Answer")
Call: TypeAlias = Callable[[Client, float], Answer]
"""What is done with a handle, given the seconds that are left for it."""

GRACE_S: Final = 1.0
"""How far a call may overrun its deadline before it is left alone: the engine looks at its clock between blocks."""

REMAINING_S_MIN: Final = 0.001
"""Zero would mean 'no limit' to the engine."""


class HandlePool:
    """Handles of one kind, and as many threads. DecodedRecord when first used."""

    def __init__(self, open_client: Callable[[], Client], *, count: int, name: str) -> None:
        self._handles = [_Handle(open_client) for _ in range(count)]
        self._idle = list(self._handles)
        self._places = FairShare("handles to the engine", count)
        self._threads = ThreadPoolExecutor(count, thread_name_prefix=name)
        self._closed = False

    async def run(self, call: Call[Answer], /, *, deadline_s: float) -> Answer:
        """Return what ``call`` returns, within ``deadline_s`` from when the current tenant has its handle.

        Raises ``Overloaded`` when none came free in time, ``DeadlineExceeded`` when the engine overran.
        """
        tenant = current_tenant()
        handle = await self._take(tenant, timeout_s=deadline_s)
        loop = asyncio.get_running_loop()
        running = loop.run_in_executor(self._threads, partial(handle.run, call, max(deadline_s, REMAINING_S_MIN)))
        running.add_done_callback(lambda _: self._give_back(handle, tenant))
        try:
            async with asyncio.timeout(deadline_s + GRACE_S):
                return await shielded(running)
        except TimeoutError:
            raise DeadlineExceeded(f"The engine did not end a statement within {deadline_s:g} s.") from None

    async def close(self) -> None:
        """Wait for what runs, then close every handle. Safe to call twice."""
        self._closed = True
        await asyncio.to_thread(self._threads.shutdown)
        for handle in self._handles:
            await asyncio.to_thread(handle.close)

    async def _take(self, tenant: Tenant, *, timeout_s: float) -> _Handle:
        await self._places.acquire(tenant, timeout_s=timeout_s)
        if self._closed:
            self._places.release(tenant)
            raise Unavailable("The engine has been closed.")
        return self._idle.pop()

    def _give_back(self, handle: _Handle, tenant: Tenant) -> None:
        self._idle.append(handle)
        self._places.release(tenant)


class _Handle:
    """One handle, used by one thread at a time."""

    def __init__(self, open_client: Callable[[], Client]) -> None:
        self._open_client = open_client
        self._client: Client | None = None

    def run(self, call: Call[Answer], remaining_s: float) -> Answer:
        try:
            if self._client is None:
                self._client = self._open_client()
            return call(self._client, remaining_s)
        except BaseException:
            self.close()
            raise

    def close(self) -> None:
        client, self._client = self._client, None
        if client is not None:
            client.close()
