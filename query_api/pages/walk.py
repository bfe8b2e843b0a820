"""Walk all spans of a query in order, each once, in constant memory (contract §3.3, §9).

A walk finds spans as pages do (``spans.py``), in rounds of ``Limits.round_spans``: the next candidates in order, and
which of them are the latest versions of their spans. Only then is their size known, and their rows are read in chunks
of ``Limits.chunk_bytes``. While one chunk is used the next one is read, and while a round is read the next one is
found: one ahead and never more, so a consumer that stops reading stops the walk.

Each round and each chunk has the time budget of a query.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Callable, Iterator, Sequence
from contextlib import aclosing
from dataclasses import dataclass, replace
from functools import reduce
from operator import or_
from typing import Final, NamedTuple, TypeAlias, TypeVar

import numpy as np
import pyarrow as pa

from common.fair_share import FairShare, in_thread
from query_api.filter.sql.compile import Compiled
from query_api.pages.spans import SPARE_CANDIDATES, SpanScan, VisibleSpan, visible_among
from query_api.request.limits import Limits
from query_api.spans.latest_versions import latest_and_sums
from query_api.spans.narrow_rows import row_indexes, table_of
from query_api.spans.project_spans import ProjectSpans
from query_api.spans.rows import read_rows
from query_api.spans.usage import TraceSums
from query_api.spans.versions import Position, Version, integers_of, packed_versions
from query_api.spans.window import Window

TURN_S: Final = 60.0
"""How long a walk waits for its turn, if the project does not say."""

ColumnsOf: TypeAlias = Callable[[int], tuple[str, ...]]
"""Returns the columns to read for spans that have no more than these bits of ``OPTIONAL_MEMBERS``. They include those
of ``Version``."""

Item = TypeVar("Item")


@dataclass(frozen=True, slots=True)
class SpanQuery:
    """What a walk reads. ``open_spans`` returns the spans of the project with a new budget."""

    open_spans: Callable[[], ProjectSpans]
    turns: FairShare
    """One walk of the process is in the engine at a time, so that walks leave its other handles to queries."""

    matching: Compiled
    window: Window
    columns: ColumnsOf
    limits: Limits


class WalkedSpans(NamedTuple):
    """Some spans of a walk: one row of ``spans`` each, in order, and what the traces of their roots used."""

    rows: pa.Table
    sums: TraceSums


class _Round(NamedTuple):
    visible: Sequence[VisibleSpan]
    sums: TraceSums


class SpanWalk:
    """The spans of a query after the position of its window, at most ``limit`` of them."""

    def __init__(self, query: SpanQuery, *, limit: int | None = None) -> None:
        self._query = query
        self._limit = limit
        self.ends_at: Position | None = None
        """After the walk: the place of its last span, if more follow."""

    async def chunks(self) -> AsyncGenerator[WalkedSpans, None]:
        """Yield the spans. Close it with ``aclose``.

        Raises ``DeadlineExceeded`` if the budget of one query did not suffice to examine anything, and the errors of
        ``ColumnStore``.
        """
        async with aclosing(one_ahead(self._chunks())) as chunks:
            async for chunk in chunks:
                yield chunk

    async def _chunks(self) -> AsyncGenerator[WalkedSpans, None]:
        left = self._limit
        last: Position | None = None
        async with aclosing(one_ahead(self._rounds())) as rounds:
            async for visible, sums in rounds:
                taken = visible if left is None else visible[:left]
                for part in _parts(taken, self._query.limits.chunk_bytes):
                    yield WalkedSpans(await self._rows(part), sums)
                last = taken[-1].version.position if taken else last
                if left is not None:
                    left -= len(taken)
                    if len(taken) < len(visible):
                        self.ends_at = last
                        return

    async def _rounds(self) -> AsyncGenerator[_Round, None]:
        window, is_at_end = self._query.window, False
        left = self._limit
        while not is_at_end:
            size = self._query.limits.round_spans
            if left is not None:
                size = min(left + 1 + SPARE_CANDIDATES, size)
            async with self._query.turns.place(timeout_s=TURN_S):
                spans = self._query.open_spans()
                scan = SpanScan(spans, self._query.matching, window)
                candidates = await scan.batch(size)
                roots = {candidate.version.trace_id for candidate in candidates if candidate.is_root}
                seen = [candidate.version for candidate in candidates]
                found = await latest_and_sums(spans, seen, self._query.matching, traces_to_sum=roots)
            visible = await in_thread(visible_among, candidates, found)
            yield _Round(visible, found.sums)
            if left is not None:
                left = max(0, left - len(visible))
            window, is_at_end = replace(window, after=scan.position), scan.is_at_end

    async def _rows(self, visible: Sequence[VisibleSpan]) -> pa.Table:
        """Return the rows of spans in their order, or the matching rows that replaced them meanwhile."""
        query = self._query
        versions = [span.version for span in visible]
        columns = query.columns(reduce(or_, (span.members for span in visible)))
        async with query.turns.place(timeout_s=TURN_S):
            spans = query.open_spans()
            rows = await read_rows(spans, packed_versions(versions), columns)
        ordered, missing = await in_thread(_in_order, versions, rows)
        if not missing:
            return ordered
        values = {**query.matching.parameters, **packed_versions(missing)}
        current = await read_rows(spans, values, columns, where=[query.matching.sql])
        return await in_thread(_with_current, versions, rows, missing, current)


def _parts(visible: Sequence[VisibleSpan], bytes_max: int) -> Iterator[Sequence[VisibleSpan]]:
    """Divide spans into parts of ``bytes_max``; each has at least one span."""
    begin, bytes_count = 0, 0
    for index, span in enumerate(visible):
        if bytes_count + span.response_bytes > bytes_max and index > begin:
            yield visible[begin:index]
            begin, bytes_count = index, 0
        bytes_count += span.response_bytes
    if begin < len(visible):
        yield visible[begin:]


def _in_order(versions: Sequence[Version], rows: pa.Table) -> tuple[pa.Table, list[Version]]:
    """Return the rows of versions in their order, and the versions that have no row."""
    indexes = _own_indexes(versions, rows)
    missing = [versions[index] for index in np.flatnonzero(indexes < 0).tolist()]
    return rows.take(pa.array(indexes[indexes >= 0])), missing


def _with_current(
    versions: Sequence[Version], rows: pa.Table, missing: Sequence[Version], current: pa.Table
) -> pa.Table:
    """Return the rows of versions in their order; ``current`` are rows at the places of those that are missing."""
    indexes = _own_indexes(versions, rows)
    standing_in = row_indexes(table_of(missing), current)
    indexes[indexes < 0] = np.where(standing_in < 0, -1, standing_in + rows.num_rows)
    return pa.concat_tables([rows, current]).take(pa.array(indexes[indexes >= 0]))


def _own_indexes(versions: Sequence[Version], rows: pa.Table) -> np.ndarray[tuple[int], np.dtype[np.int64]]:
    """Return the index of the row of each version, −1 if there is none."""
    wanted = table_of(versions)
    indexes = row_indexes(wanted, rows)
    versions_read = np.append(integers_of(rows, "version"), -1)  # that of index −1
    indexes[versions_read[indexes] != integers_of(wanted, "version")] = -1
    return indexes


async def one_ahead(items: AsyncGenerator[Item, None]) -> AsyncGenerator[Item, None]:
    """Yield the same items; while one is used, the next one is made."""
    upcoming = asyncio.create_task(_next(items), name="one-ahead")
    try:
        while (found := await upcoming) is not None:
            upcoming = asyncio.create_task(_next(items), name="one-ahead")
            yield found[0]
    finally:
        upcoming.cancel()
        await asyncio.gather(upcoming, return_exceptions=True)
        await items.aclose()


async def _next(items: AsyncGenerator[Item, None]) -> tuple[Item] | None:
    async for item in items:
        return (item,)
    return None
