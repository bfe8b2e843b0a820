"""The sink that everything else reads from: batches into the table ``spans``.

When the engine refuses a batch, the batch is halved until the rows at fault stand alone; the others are stored. Each
slice has its own deduplication token, derived from the batch's, so that doing it all again changes nothing.

An insert is visible part by part. So once all of it is there, and not before, the watermark says how far its logs are stored:
readers that must not miss anything go by that alone (ADR 0007).
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from typing import Final

import pyarrow as pa

from common.clickhouse.span_columns import SPANS_TABLE
from common.clickhouse.store import ColumnStore
from common.clickhouse.stored_through import STORED_THROUGH_TABLE, positions_table
from common.clock import Clock
from common.errors import RejectedByStore, ServiceError
from common.stored_position import StoredPosition
from ingest.batch import SpanBatch
from ingest.sinks.sink import RejectedRow
from ingest.sinks.stored_positions import positions_after

REFUSED_ROWS_MAX: Final = 1_000
"""More than this in one batch is not the fault of spans but of a table that is not the one we know: we stop."""


def _tell_nobody(_positions: Sequence[StoredPosition]) -> None:
    """Nobody waits."""


class ClickHouseSink:
    """Writes to ``store``, which stays the caller's to close. ``announce`` is told, and must not wait, how far it got."""

    def __init__(
        self,
        store: ColumnStore,
        *,
        clock: Clock,
        insert_timeout_s: float,
        announce: Callable[[Sequence[StoredPosition]], None] = _tell_nobody,
    ) -> None:
        self._store = store
        self._clock = clock
        self._insert_timeout_s = insert_timeout_s
        self._announce = announce

    async def write(self, batch: SpanBatch, /) -> Sequence[RejectedRow]:
        """Return when every row is durable, but for those given back, and the watermark says so.

        Transient errors come out as they are.
        """
        refused: list[RejectedRow] = []
        rows: pa.Table | None = None
        if batch.rows_count:
            # Stamped anew at each try: `stored_us` says when the rows became visible, not when that was first attempted.
            rows = await asyncio.to_thread(batch.table, stored_us=self._clock.now_ns() // 1_000)
            await self._insert(rows, 0, batch.dedup_token, refused)
        await self._store_positions(batch, rows)
        return refused

    async def _store_positions(self, batch: SpanBatch, rows: pa.Table | None) -> None:
        positions = positions_after(batch.extents, rows, stored_us=self._clock.now_ns() // 1_000)
        await self._store.insert(
            STORED_THROUGH_TABLE,
            positions_table(positions),
            dedup_token=f"{batch.dedup_token}/through",
            deadline_s=self._insert_timeout_s,
        )
        self._announce(positions)

    async def _insert(self, rows: pa.Table, first_row: int, token: str, refused: list[RejectedRow]) -> None:
        try:
            await self._store.insert(SPANS_TABLE, rows, dedup_token=token, deadline_s=self._insert_timeout_s)
        except RejectedByStore as exc:
            if rows.num_rows == 1:
                self._refuse(RejectedRow(first_row, exc.detail), refused)
                return
        else:
            return
        half = rows.num_rows // 2
        for start, count in ((0, half), (half, rows.num_rows - half)):
            await self._insert(rows.slice(start, count), first_row + start, _slice_token(token, start, count), refused)

    def _refuse(self, row: RejectedRow, refused: list[RejectedRow]) -> None:
        refused.append(row)
        if len(refused) > REFUSED_ROWS_MAX:
            raise ServiceError(
                f"The store refuses more than {REFUSED_ROWS_MAX} rows of one batch; the last reason: {row.reason}"
            )


def _slice_token(token: str, start: int, count: int) -> str:
    return f"{token}/{start}+{count}"
