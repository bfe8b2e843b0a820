"""Divide what requests share, so that no project can take all of it (contract §2, ADR 0012).

``Tenant`` is whose work is being done. ``FairShare`` divides the places of one resource: a project with neighbors
holds at most half of them, rounded up. A free place goes to the waiting project that holds the fewest and may hold one
more; within a project, to the request that arrived first (``RequestTurn``), else first come, first served. Nothing is
kept of a project that neither holds nor waits.
``in_thread`` runs blocking work in threads that are divided in this way, and that nothing else uses.
"""

from __future__ import annotations

import asyncio
import os
import time
from bisect import insort
from collections import Counter
from collections.abc import AsyncIterator, Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import asynccontextmanager, contextmanager, nullcontext
from contextvars import ContextVar, copy_context
from dataclasses import dataclass, field
from functools import partial
from itertools import count
from operator import attrgetter
from typing import Any, Final, NamedTuple, ParamSpec, TypeVar
from uuid import UUID
from weakref import WeakKeyDictionary

from common.errors import Overloaded

Arguments = ParamSpec("Arguments")
Result = TypeVar("Result")

THREADS_COUNT: Final = min(32, (os.cpu_count() or 1) + 4)
"""Threads for the work of requests; as many as ``concurrent.futures.ThreadPoolExecutor`` has by default."""

QUEUE_S: Final = 60.0
"""How long the program's own work waits for a thread."""

_THREADS: Final[WeakKeyDictionary[asyncio.AbstractEventLoop, _Threads]] = WeakKeyDictionary()
"""By event loop. They are not those of the loop: work of the program itself, such as inserts, has those."""


TURN_WORK_S: Final = 1.0
"""How long a request may work, besides waiting, and keep its turn."""

_NUMBERS: Final[Iterator[int]] = count()
"""Increase in the order of arrival."""


@dataclass(slots=True, eq=False)
class RequestTurn:
    """The turn of a request: its calls go before those of requests that arrived later, while it is short.

    Otherwise a request that needs four statements waits for all others four times, and requests that arrive together
    all end at the end. A request that has worked for ``TURN_WORK_S`` queues for each further call.
    """

    number: int = field(default_factory=_NUMBERS.__next__)
    _began_s: float = field(default_factory=time.monotonic)
    _waited_s: float = 0.0
    _waiting_count: int = 0
    _waiting_since_s: float = 0.0

    @property
    def waited_s(self) -> float:
        """How long calls of the request have waited until now; calls that wait at the same time count once."""
        return self._waited_s + (time.monotonic() - self._waiting_since_s if self._waiting_count else 0.0)

    @property
    def is_over(self) -> bool:
        """Whether the request has worked for so long that it gives way to others."""
        return time.monotonic() - self._began_s - self.waited_s > TURN_WORK_S

    @contextmanager
    def waiting(self) -> Iterator[None]:
        """Count the time inside."""
        if not self._waiting_count:
            self._waiting_since_s = time.monotonic()
        self._waiting_count += 1
        try:
            yield
        finally:
            self._waiting_count -= 1
            if not self._waiting_count:
                self._waited_s += time.monotonic() - self._waiting_since_s


@dataclass(frozen=True, slots=True)
class Tenant:
    """A project that uses shared resources."""

    project_id: UUID
    has_neighbors: bool = False
    """Whether other projects have keys; then this one gets at most its share."""

    queue_s: float | None = None
    """How long a request waits for its turn, in seconds; ``None``: as long as the user of the resource allows."""

    turn: RequestTurn | None = field(default=None, compare=False)
    """``None``: each call takes its own turn, as those of long work do, so that it gives way to requests."""


OWN_WORK: Final = Tenant(UUID(int=0))
"""Work of the program itself: inserts, health checks, the lookup of keys."""

_CURRENT: Final[ContextVar[Tenant]] = ContextVar("tenant", default=OWN_WORK)
"""A context variable, like the trace context of a request: every handle, thread and connection that a request takes
counts to its project, without a parameter of every function in between. It does not decide what may be read."""


def current_tenant() -> Tenant:
    """Return the current tenant; ``OWN_WORK`` outside of requests."""
    return _CURRENT.get()


@contextmanager
def working_for(tenant: Tenant) -> Iterator[None]:
    """Make ``tenant`` the current tenant while inside."""
    token = _CURRENT.set(tenant)
    try:
        yield
    finally:
        _CURRENT.reset(token)


class FairBudget:
    """Bounds what requests hold without waiting for it. A project with neighbors holds at most ``share`` of ``total``.

    ``exceeded`` is the message of ``Overloaded``.
    """

    def __init__(self, exceeded: str, *, total: int, share: int) -> None:
        self._exceeded = exceeded
        self._total = total
        self._share = share
        self._held: Counter[UUID] = Counter()
        self._held_by_all = 0

    def take(self, tenant: Tenant, count: int) -> None:
        """Reserve ``count`` units. Raises ``Overloaded``."""
        own_max = self._share if tenant.has_neighbors else self._total
        if self._held[tenant.project_id] + count > own_max or self._held_by_all + count > self._total:
            raise Overloaded(self._exceeded)
        self._held[tenant.project_id] += count
        self._held_by_all += count

    def give_back(self, tenant: Tenant, count: int) -> None:
        """Release ``count`` units."""
        self._held[tenant.project_id] -= count
        self._held_by_all -= count
        if not self._held[tenant.project_id]:
            del self._held[tenant.project_id]

    @contextmanager
    def holding(self, count: int) -> Iterator[None]:
        """Hold ``count`` units for the current tenant while inside. Raises ``Overloaded``."""
        tenant = current_tenant()
        self.take(tenant, count)
        try:
            yield
        finally:
            self.give_back(tenant, count)


@dataclass(slots=True, eq=False)
class _Waiter:
    tenant: Tenant
    order: tuple[int, int]
    """The first to get a place has the lowest."""

    granted: asyncio.Event = field(default_factory=asyncio.Event)

    @classmethod
    def of(cls, tenant: Tenant) -> _Waiter:
        """Return a call of the tenant that begins to wait now."""
        number, turn = next(_NUMBERS), tenant.turn
        return cls(tenant, (number if turn is None or turn.is_over else turn.number, number))


class FairShare:
    """A semaphore with a share for each project. Belongs to one event loop.

    ``name`` names the places in error messages, in the plural.
    """

    def __init__(self, name: str, places_count: int) -> None:
        self._name = name
        self._places_count = places_count
        self._free_count = places_count
        self._held: Counter[UUID] = Counter()
        self._waiting: dict[UUID, list[_Waiter]] = {}
        """In their order."""
        self._granted_s = 0.0
        """When the last place was granted, on the clock of the event loop."""

    @property
    def share(self) -> int:
        """The most places that a project with neighbors may hold: half, rounded up."""
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
        """Wait for a free place and take it; give it back with ``release``.

        Raises ``Overloaded`` after ``tenant.queue_s`` seconds, or ``timeout_s`` if that is ``None``; without neighbors,
        when no place was granted for so long.
        """
        timeout_s = timeout_s if tenant.queue_s is None else tenant.queue_s
        waiter = _Waiter.of(tenant)
        insort(self._waiting.setdefault(tenant.project_id, []), waiter, key=attrgetter("order"))
        self._grant()
        if waiter.granted.is_set():
            return
        try:
            with nullcontext() if tenant.turn is None else tenant.turn.waiting():
                await self._wait(waiter, timeout_s=timeout_s)
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

    async def _wait(self, waiter: _Waiter, *, timeout_s: float) -> None:
        """Wait until the waiter has a place. Raises ``TimeoutError``."""
        since_s = asyncio.get_running_loop().time()
        while True:
            try:
                async with asyncio.timeout_at(since_s + timeout_s):
                    await waiter.granted.wait()
                    return
            except TimeoutError:
                if waiter.tenant.has_neighbors or self._granted_s <= since_s:
                    raise
                since_s = self._granted_s

    def _grant(self) -> None:
        """Grant free places while a waiter may have one."""
        while self._free_count and (waiter := self._next_waiter()) is not None:
            project_id = waiter.tenant.project_id
            self._remove(waiter)
            self._free_count -= 1
            self._held[project_id] += 1
            self._granted_s = asyncio.get_running_loop().time()
            waiter.granted.set()

    def _next_waiter(self) -> _Waiter | None:
        firsts = (waiters[0] for waiters in self._waiting.values())
        admitted = (waiter for waiter in firsts if self._may_have_one_more(waiter.tenant))
        return min(admitted, key=lambda waiter: (self._held[waiter.tenant.project_id], waiter.order), default=None)

    def _may_have_one_more(self, tenant: Tenant) -> bool:
        return not tenant.has_neighbors or self._held[tenant.project_id] < self.share

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
        max_count = self.share if tenant.has_neighbors else self._places_count
        waited = f"None of the {self._name} became free within {timeout_s:g} s"
        return f"{waited}; this project may use {max_count} at the same time."


async def in_thread(
    function: Callable[Arguments, Result], /, *args: Arguments.args, **kwargs: Arguments.kwargs
) -> Result:
    """Call ``function`` in a thread. Raises ``Overloaded`` if the current tenant gets no thread in time.

    A thread whose caller was cancelled counts until it ends.
    """
    loop, tenant = asyncio.get_running_loop(), current_tenant()
    threads = _threads_of(loop)
    await threads.share.acquire(tenant, timeout_s=QUEUE_S)
    work = partial(copy_context().run, partial(function, *args, **kwargs))
    running = loop.run_in_executor(threads.executor, work)
    running.add_done_callback(lambda _: threads.share.release(tenant))
    return await shielded(running)


class _Threads(NamedTuple):
    share: FairShare
    executor: ThreadPoolExecutor


def _threads_of(loop: asyncio.AbstractEventLoop) -> _Threads:
    if loop not in _THREADS:
        executor = ThreadPoolExecutor(THREADS_COUNT, thread_name_prefix="requests")
        _THREADS[loop] = _Threads(FairShare("threads", THREADS_COUNT), executor)
    return _THREADS[loop]


async def shielded(running: asyncio.Future[Result], /) -> Result:
    """Await ``running`` without letting cancellation of the caller cancel it.

    If the caller is gone, a later failure is ignored and not logged.
    """
    running.add_done_callback(_mark_retrieved)
    return await asyncio.shield(running)


def _mark_retrieved(running: asyncio.Future[Any]) -> None:
    if not running.cancelled():
        running.exception()
