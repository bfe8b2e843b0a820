"""The sink that the API reads: batches become rows of the table ``spans``.

If the engine rejects a batch, the batch is halved until each rejected row is alone; all others are stored. Each
slice has its own deduplication token, derived from the token of the batch, so repeating the whole write changes
nothing.
"""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from typing import Final

import pyarrow as pa

from common.clickhouse.repeated_rows import without_repeated
from common.clickhouse.span_columns import SPANS_TABLE, stamped
from common.clickhouse.store import ColumnStore
from common.errors import RejectedByStore, ServiceError
from common.times import Clock
from ingest.sink import RejectedRow, SpanRows

REJECTED_ROWS_MAX: Final = 1_000
"""If a batch has more, the schema of the table is wrong rather than the spans: the worker stops."""


class ClickHouseSink:
    """Writes to ``store``, which the caller closes."""

    name = "store"

    def __init__(self, store: ColumnStore, *, clock: Clock, insert_timeout_s: float) -> None:
        self._store = store
        self._clock = clock
        self._insert_timeout_s = insert_timeout_s

    async def write(self, spans: SpanRows, /) -> Sequence[RejectedRow]:
        """Return when every row is durable, except the returned ones. Raises transient errors unchanged."""
        rows, indexes = await asyncio.to_thread(_rows_to_store, spans.columns)
        rejected: list[RejectedRow] = []
        await self._insert(rows, 0, spans.token, rejected)
        return [RejectedRow(indexes[row.row], row.reason) for row in rejected]

    async def _insert(self, rows: pa.Table, first_row: int, token: str, rejected: list[RejectedRow]) -> None:
        # Each insert has its own time: `stored_us` is when the rows became visible. Some shards may have taken rows
        # that are inserted again: rows that are stored twice differ in it (`query_api/spans/doubtful_traces.py`).
        stored = await asyncio.to_thread(stamped, rows, stored_us=self._clock.now_ns() // 1_000)
        try:
            await self._store.insert(SPANS_TABLE, stored, dedup_token=token, deadline_s=self._insert_timeout_s)
        except RejectedByStore as exc:
            if rows.num_rows == 1:
                self._reject(RejectedRow(first_row, exc.detail), rejected)
                return
        else:
            return
        half = rows.num_rows // 2
        for start, count in ((0, half), (half, rows.num_rows - half)):
            await self._insert(rows.slice(start, count), first_row + start, f"{token}/{start}+{count}", rejected)

    def _reject(self, row: RejectedRow, rejected: list[RejectedRow]) -> None:
        rejected.append(row)
        if len(rejected) > REJECTED_ROWS_MAX:
            raise ServiceError(
                f"The store rejects more than {REJECTED_ROWS_MAX} rows of one batch; the last reason: {row.reason}"
            )


def _rows_to_store(columns: pa.Table) -> tuple[pa.Table, Sequence[int]]:
    return without_repeated(columns.unify_dictionaries().combine_chunks())
