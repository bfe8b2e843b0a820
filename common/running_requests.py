"""End a request when its key ends or its project is deleted (contract §2).

What runs with a key is cancelled: a call that waits is refused, a stream is broken off. When the end of a key or
of a project is answered, nothing reads with it in this process any more.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Collection, Sequence
from contextlib import asynccontextmanager, suppress
from contextvars import ContextVar
from dataclasses import dataclass, field
from typing import Final
from uuid import UUID

from common.errors import Unauthorized

ENDING_S: Final = 5.0
"""How long the end of a key waits until the requests that it ends have stopped."""


@dataclass(eq=False, slots=True)
class _RunningRequest:
    project_id: UUID
    key_id: UUID
    until: asyncio.Timeout
    is_cancelled: bool = False
    ended: asyncio.Event = field(default_factory=asyncio.Event)

    def cancel(self) -> None:
        """Cancel what runs, once."""
        if not self.is_cancelled:
            self.is_cancelled = True
            self.until.reschedule(asyncio.get_running_loop().time())


_CURRENT: Final[ContextVar[_RunningRequest | None]] = ContextVar("running request", default=None)


class RunningRequests:
    """The requests that run with keys in this process."""

    def __init__(self) -> None:
        self._requests: set[_RunningRequest] = set()

    @property
    def key_ids(self) -> frozenset[UUID]:
        """The keys with which requests run that are not cancelled."""
        return frozenset(request.key_id for request in self._requests if not request.is_cancelled)

    @asynccontextmanager
    async def running(self, project_id: UUID, key_id: UUID) -> AsyncIterator[None]:
        """Run a request inside. If its key or project ends, cancel what runs and raise ``Unauthorized``."""
        request = _RunningRequest(project_id, key_id, asyncio.timeout(None))
        try:
            async with request.until:
                self._requests.add(request)
                token = _CURRENT.set(request)
                try:
                    yield
                finally:
                    _CURRENT.reset(token)
                    self._requests.discard(request)
                    request.ended.set()
        except TimeoutError:
            if not request.is_cancelled:
                raise
        if request.is_cancelled:
            raise Unauthorized

    def cancel(self, key_ids: Collection[UUID]) -> None:
        """Cancel the requests of these keys; do not wait until they have stopped."""
        for request in self._requests:
            if request.key_id in key_ids:
                request.cancel()

    async def end_key(self, key_id: UUID) -> None:
        """End the requests of a key; return when they have stopped."""
        await self._end([request for request in self._requests if request.key_id == key_id])

    async def end_project(self, project_id: UUID) -> None:
        """End the requests of a project; return when they have stopped."""
        await self._end([request for request in self._requests if request.project_id == project_id])

    async def _end(self, requests: Sequence[_RunningRequest]) -> None:
        own = _CURRENT.get()
        if own in requests:
            self._requests.discard(own)  # a request that ends its own key goes on to its response
        others = [request for request in requests if request is not own]
        for request in others:
            request.cancel()
        with suppress(TimeoutError):
            async with asyncio.timeout(ENDING_S):
                for request in others:
                    await request.ended.wait()
