"""The sink that everything else reads from: batches into the table ``spans``.

When the engine refuses a batch, the batch is halved until the rows at fault stand alone; the others are stored. Each
slice has its own deduplication token, derived from the batch's, so that doing it all again changes nothing.
"""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from typing import Final

import pyarrow as pa

from common.clickhouse.span_columns import SPANS_TABLE
from common.clickhouse.store import ColumnStore
from common.clock import Clock
from common.errors import RefusedByStore, ServiceError
from ingest.batch import SpanBatch
from ingest.sinks.sink import RefusedRow

REFUSED_ROWS_MAX: Final = 1_000
"""More than this in one batch is not the fault of spans but of a table that is not the one we know: we stop."""


class ClickHouseSink:
    """Writes to ``store``, which stays the caller's to close."""

    def __init__(self, store: ColumnStore, *, clock: Clock, insert_timeout_s: float) -> None:
        self._store = store
        self._clock = clock
        self._insert_timeout_s = insert_timeout_s

    async def write(self, batch: SpanBatch, /) -> Sequence[RefusedRow]:
        """Return when every row is durable, but for those given back. Transient errors come out as they are."""
        if batch.rows_count == 0:
            return []
        # Stamped anew at each try: `stored_us` says when the rows became visible, not when that was first attempted.
        stored_us = self._clock.now_ns() // 1_000
        rows = await asyncio.to_thread(batch.table, stored_us=stored_us)
        refused: list[RefusedRow] = []
        await self._insert(rows, 0, batch.dedup_token, refused)
        return refused

    async def close(self) -> None:
        """Nothing to let go of: the store is closed by who opened it."""

    async def _insert(self, rows: pa.Table, first_row: int, token: str, refused: list[RefusedRow]) -> None:
        try:
            await self._store.insert(SPANS_TABLE, rows, dedup_token=token, deadline_s=self._insert_timeout_s)
        except RefusedByStore as exc:
            if rows.num_rows == 1:
                self._refuse(RefusedRow(first_row, exc.detail), refused)
                return
        else:
            return
        half = rows.num_rows // 2
        for start, count in ((0, half), (half, rows.num_rows - half)):
            await self._insert(rows.slice(start, count), first_row + start, _slice_token(token, start, count), refused)

    def _refuse(self, row: RefusedRow, refused: list[RefusedRow]) -> None:
        refused.append(row)
        if len(refused) > REFUSED_ROWS_MAX:
            raise ServiceError(
                f"The store refuses more than {REFUSED_ROWS_MAX} rows of one batch; the last reason: {row.reason}"
            )


def _slice_token(token: str, start: int, count: int) -> str:
    return f"{token}/{start}+{count}"
