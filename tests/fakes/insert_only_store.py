"""A ``ColumnStore`` that a test only inserts into: any other statement fails the test."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import AbstractAsyncContextManager

import pyarrow as pa

from common.clickhouse.store import Shard, Statement


class InsertOnlyStore:
    """What a writer of one table needs of a store; a subclass adds ``insert``."""

    async def select(self, statement: Statement, /, *, deadline_s: float) -> pa.Table:
        raise NotImplementedError

    async def rows_read(self, statement: Statement, /, *, deadline_s: float) -> int:
        raise NotImplementedError

    async def execute(self, statement: Statement, /, *, deadline_s: float) -> None:
        raise NotImplementedError

    def shards(self) -> AbstractAsyncContextManager[Sequence[Shard]]:
        raise NotImplementedError

    async def close(self) -> None:
        """Nothing is held."""
