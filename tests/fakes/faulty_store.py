"""A ``ColumnStore`` that fails when it is told to, in front of a real one."""

from __future__ import annotations

from collections import deque
from collections.abc import Sequence
from contextlib import AbstractAsyncContextManager
from typing import NamedTuple

import pyarrow as pa

from common.clickhouse.store import ColumnStore, Shard, Statement
from common.errors import ServiceError


class Fault(NamedTuple):
    """An error, and whether the statement has taken effect before it is raised."""

    error: ServiceError
    after_effect: bool = False


class FaultyStore:
    """Passes everything on; the armed faults are used up one a call, ``None`` lets a call through.

    ``insert_tokens`` holds the token of every insert that reached the real store, in order.
    """

    def __init__(self, store: ColumnStore) -> None:
        self._store = store
        self.insert_faults: deque[Fault | None] = deque()
        self.select_faults: deque[Fault | None] = deque()
        self.insert_tokens: list[str] = []

    async def insert(self, table: str, rows: pa.Table, /, *, dedup_token: str, deadline_s: float) -> None:
        fault = self.insert_faults.popleft() if self.insert_faults else None
        if fault is not None and not fault.after_effect:
            raise fault.error
        await self._store.insert(table, rows, dedup_token=dedup_token, deadline_s=deadline_s)
        self.insert_tokens.append(dedup_token)
        if fault is not None:
            raise fault.error

    async def select(self, statement: Statement, /, *, deadline_s: float) -> pa.Table:
        fault = self.select_faults.popleft() if self.select_faults else None
        if fault is not None:
            raise fault.error
        return await self._store.select(statement, deadline_s=deadline_s)

    async def rows_read(self, statement: Statement, /, *, deadline_s: float) -> int:
        fault = self.select_faults.popleft() if self.select_faults else None
        if fault is not None:
            raise fault.error
        return await self._store.rows_read(statement, deadline_s=deadline_s)

    async def execute(self, statement: Statement, /, *, deadline_s: float) -> None:
        await self._store.execute(statement, deadline_s=deadline_s)

    def shards(self) -> AbstractAsyncContextManager[Sequence[Shard]]:
        return self._store.shards()

    async def close(self) -> None:
        await self._store.close()
