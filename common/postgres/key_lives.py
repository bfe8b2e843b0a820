"""The lives of requests: a request ends when its key ends, and when its project is deleted (contract §2).

What runs with a key is cancelled: a call that waits is refused, a stream is broken off. When the end of a key or
of a project is answered, nothing reads with it in this process any more.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from contextvars import ContextVar
from dataclasses import dataclass, field
from typing import Final
from uuid import UUID

from common.errors import Unauthorized

ENDING_S: Final = 5.0
"""How long the end of a key waits until the requests that it ends are gone."""


@dataclass(eq=False, slots=True)
class _Life:
    project_id: UUID
    key_id: UUID
    until: asyncio.Timeout
    is_over: bool = False
    gone: asyncio.Event = field(default_factory=asyncio.Event)

    def end(self) -> None:
        """Cancel what runs, once."""
        if not self.is_over:
            self.is_over = True
            self.until.reschedule(asyncio.get_running_loop().time())


_CURRENT: Final[ContextVar[_Life | None]] = ContextVar("life", default=None)


class KeyLives:
    """The requests that run with keys in this process."""

    def __init__(self) -> None:
        self._running: set[_Life] = set()

    @property
    def key_ids(self) -> frozenset[UUID]:
        """The keys with which requests run."""
        return frozenset(life.key_id for life in self._running)

    @asynccontextmanager
    async def running(self, project_id: UUID, key_id: UUID) -> AsyncIterator[None]:
        """Run a request inside. If its key or project ends, cancel what runs and raise ``Unauthorized``."""
        life = _Life(project_id, key_id, asyncio.timeout(None))
        try:
            async with life.until:
                self._running.add(life)
                token = _CURRENT.set(life)
                try:
                    yield
                finally:
                    _CURRENT.reset(token)
                    self._running.discard(life)
                    life.gone.set()
        except TimeoutError:
            if not life.is_over:
                raise
        if life.is_over:
            raise Unauthorized

    async def end_key(self, key_id: UUID) -> None:
        """End the requests of a key; return when they are gone."""
        await self._end([life for life in self._running if life.key_id == key_id])

    async def end_project(self, project_id: UUID) -> None:
        """End the requests of a project; return when they are gone."""
        await self._end([life for life in self._running if life.project_id == project_id])

    async def _end(self, lives: list[_Life]) -> None:
        own = _CURRENT.get()
        if own is not None:
            self._running.discard(own)  # a request that ends its own key goes on to its response
        others = [life for life in lives if life is not own]
        for life in others:
            life.end()
        with suppress(TimeoutError):
            async with asyncio.timeout(ENDING_S):
                for life in others:
                    await life.gone.wait()
