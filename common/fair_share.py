"""Places of a shared resource, divided so that no project can take all of them (contract §2).

A project with neighbours holds at most half of the places, rounded up. A free place goes to the waiting project that
holds the fewest and may hold one more; within a project, first come, first served. Nothing is kept of a project that
neither holds nor waits.
"""

from __future__ import annotations

import asyncio
from collections import Counter, deque
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from itertools import count
from uuid import UUID

from common.errors import Overloaded
from common.tenant import Tenant, current_tenant


@dataclass(slots=True, eq=False)
class _Waiter:
    tenant: Tenant
    number: int
    """Increases in the order of arrival."""

    granted: asyncio.Event = field(default_factory=asyncio.Event)


class FairShare:
    """A semaphore with a share for each project. Belongs to one event loop.

    ``name`` names the places in error messages, in the plural.
    """

    def __init__(self, name: str, places_count: int) -> None:
        self._name = name
        self._places_count = places_count
        self._free_count = places_count
        self._held: Counter[UUID] = Counter()
        self._waiting: dict[UUID, deque[_Waiter]] = {}
        self._numbers: Iterator[int] = count()

    @property
    def share(self) -> int:
        """The most places that a project with neighbours may hold: half, rounded up."""
        return (self._places_count + 1) // 2

    @asynccontextmanager
    async def place(self, *, timeout_s: float) -> AsyncIterator[None]:
        """Hold a place for the current tenant while inside. Raises as ``acquire``."""
        tenant = current_tenant()
        await self.acquire(tenant, timeout_s=timeout_s)
        try:
            yield
        finally:
            self.release(tenant)

    async def acquire(self, tenant: Tenant, *, timeout_s: float) -> None:
        """Take a place; ``release`` gives it back.

        Raises ``Overloaded`` after ``tenant.queue_s`` seconds, or ``timeout_s`` if that is ``None``.
        """
        timeout_s = timeout_s if tenant.queue_s is None else tenant.queue_s
        waiter = _Waiter(tenant, next(self._numbers))
        self._waiting.setdefault(tenant.project_id, deque()).append(waiter)
        self._grant()
        if waiter.granted.is_set():
            return
        try:
            async with asyncio.timeout(timeout_s):
                await waiter.granted.wait()
        except BaseException as exc:
            self._leave(waiter)
            if isinstance(exc, TimeoutError):
                raise Overloaded(self._message(tenant, timeout_s)) from None
            raise

    def release(self, tenant: Tenant) -> None:
        """Give back a place of ``tenant``."""
        self._free_count += 1
        self._held[tenant.project_id] -= 1
        if not self._held[tenant.project_id]:
            del self._held[tenant.project_id]
        self._grant()

    def _grant(self) -> None:
        """Grant free places while a waiter may have one."""
        while self._free_count and (waiter := self._next_waiter()) is not None:
            project_id = waiter.tenant.project_id
            self._remove(waiter)
            self._free_count -= 1
            self._held[project_id] += 1
            waiter.granted.set()

    def _next_waiter(self) -> _Waiter | None:
        firsts = (waiters[0] for waiters in self._waiting.values())
        admitted = (waiter for waiter in firsts if self._may_have_one_more(waiter.tenant))
        return min(admitted, key=lambda waiter: (self._held[waiter.tenant.project_id], waiter.number), default=None)

    def _may_have_one_more(self, tenant: Tenant) -> bool:
        return not tenant.has_neighbours or self._held[tenant.project_id] < self.share

    def _leave(self, waiter: _Waiter) -> None:
        """Stop waiting; a place that was granted at the same moment goes to the next waiter."""
        if waiter.granted.is_set():
            self.release(waiter.tenant)
        else:
            self._remove(waiter)

    def _remove(self, waiter: _Waiter) -> None:
        project_id = waiter.tenant.project_id
        waiters = self._waiting[project_id]
        waiters.remove(waiter)
        if not waiters:
            del self._waiting[project_id]

    def _message(self, tenant: Tenant, timeout_s: float) -> str:
        max_count = self.share if tenant.has_neighbours else self._places_count
        waited = f"None of the {self._name} became free within {timeout_s:g} s"
        return f"{waited}; this project may use {max_count} at the same time."
