"""A ``ColumnStore`` that merges rows away before they are read, in front of a real one."""

from __future__ import annotations

from typing import Any

import pyarrow as pa

from common.clickhouse.store import ColumnStore, Statement


class RowlessStore:
    """Finds spans, and has none of their rows while ``merges``."""

    def __init__(self, store: ColumnStore) -> None:
        self.merges = True
        self._store = store

    def __getattr__(self, name: str) -> Any:
        return getattr(self._store, name)

    async def select(self, statement: Statement, /, *, deadline_s: float) -> pa.Table:
        """What the engine answers, or nothing where that would be rows."""
        answer = await self._store.select(statement, deadline_s=deadline_s)
        return answer.slice(0, 0) if self.merges and "attributes" in statement.sql else answer
