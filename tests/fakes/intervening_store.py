"""A ``ColumnStore`` in which something happens between the statements of a request, in front of a real one."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Any

import pyarrow as pa

from common.clickhouse.store import ColumnStore, Statement


class InterveningStore:
    """Awaits ``intervene`` with the number of each statement, from 0, before the statement is run."""

    def __init__(self, store: ColumnStore) -> None:
        self.intervene: Callable[[int], Awaitable[None]] | None = None
        self._store = store
        self._count = 0

    def __getattr__(self, name: str) -> Any:
        return getattr(self._store, name)

    def begin(self, intervene: Callable[[int], Awaitable[None]] | None) -> None:
        """Count statements from 0 again, and await ``intervene`` from now on."""
        self.intervene, self._count = intervene, 0

    async def select(self, statement: Statement, /, *, deadline_s: float) -> pa.Table:
        """The answer of the engine, after what happens before."""
        number, self._count = self._count, self._count + 1
        if self.intervene is not None:
            await self.intervene(number)
        return await self._store.select(statement, deadline_s=deadline_s)
