"""Reads the batches of one subscription from the feed of settled traces (ADR 0049).

A batch is what settled between two positions, each trace whole. A trace that settles again between two tries is missing
in the later one, and is in a later batch.
"""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final
from uuid import UUID

from common.clickhouse.store import ColumnStore
from common.errors import Unavailable
from common.postgres.pool import Database
from common.settings import Settings
from common.times import Clock
from jobs.subscriptions.reading import ReadBatch, parsed
from query_api.delivery.selection import Selection
from query_api.freshness.settled import read_settled_run
from query_api.pages.settled_feed import SettledPage, SettledPosition, SettledQuery, read_settled
from query_api.pages.snapshot import TraceWindow
from query_api.pages.traces import Trace
from query_api.spans.project_spans import ProjectSpans

POLL_S: Final = 1.0
"""How often the last run is read, once for all subscriptions of the process."""


@dataclass(eq=False, slots=True)
class SettledBatchReader:
    """Reads the feed of any project, within the limits of a batch."""

    store: ColumnStore
    database: Database
    settings: Settings
    clock: Clock
    _run: int = 0
    _read_s: float = float("-inf")
    _reading: asyncio.Lock = field(default_factory=asyncio.Lock)

    async def learn(self, _project_id: UUID, *, unless_within_s: float = 0.0) -> None:
        """Read which run may be shown, unless that was done a short time ago."""
        async with self._reading:
            if self.clock.monotonic_s() - self._read_s >= unless_within_s:
                self._run = await read_settled_run(self.database)
                self._read_s = self.clock.monotonic_s()

    def news_count(self, _project_id: UUID) -> int:
        """Return the last run that may be shown."""
        return self._run

    async def wait_for_news(self, project_id: UUID, *, since: int, timeout_s: float) -> bool:
        """Wait for a run after ``since``."""
        ends_s = self.clock.monotonic_s() + timeout_s
        while self._run == since and (left_s := ends_s - self.clock.monotonic_s()) > 0:
            await asyncio.sleep(min(POLL_S, left_s))
            await self.learn(project_id, unless_within_s=POLL_S / 2)
        return self._run != since

    async def next_batch(self, project_id: UUID, selection: Selection, positions: SettledPosition) -> ReadBatch:
        """Return what settled after a position and matches: at most a batch."""
        delivery = self.settings.delivery
        limits = (delivery.batch_spans_max, delivery.batch_bytes_max)
        page = await self._page(project_id, selection, positions, limits=limits)
        return await _batch(page.traces, page.position, is_complete=page.is_at_end)

    async def same_batch(
        self, project_id: UUID, selection: Selection, positions: SettledPosition, until: SettledPosition
    ) -> ReadBatch:
        """Return what still matches between two positions.

        Raises ``Unavailable`` if this process does not know yet that the run of ``until`` may be shown.
        """
        if self._run < until.run:
            raise Unavailable("The run in which the batch ends is not known to be shown yet.")
        limits = (self.settings.query.page_limit_max, 2 * self.settings.delivery.batch_bytes_max)
        traces: list[Trace] = []
        is_at_end = False
        while not is_at_end:
            page = await self._page(project_id, selection, positions, limits=limits, until=until)
            traces += page.traces
            positions, is_at_end = page.position, page.is_at_end
        return await _batch(traces, until, is_complete=False)

    async def _page(
        self,
        project_id: UUID,
        selection: Selection,
        position: SettledPosition,
        *,
        limits: tuple[int, int],
        until: SettledPosition | None = None,
    ) -> SettledPage:
        settings = self.settings
        spans = ProjectSpans.of_query(
            self.store, project_id, settings.query, self.clock, has_neighbors=settings.auth == "on"
        )
        of_spans = selection.window
        window = TraceWindow(of_spans.order, of_spans.newest_us, of_spans.oldest_us, of_spans.rate_percent)
        wanted = SettledQuery(selection.matching, window, *limits, settings.query.trace_bytes_max)
        return await read_settled(spans, wanted, position, through=self._run, until=until)


async def _batch(traces: Sequence[Trace], position: SettledPosition, *, is_complete: bool) -> ReadBatch:
    objects: list[Mapping[str, Any]] = []
    spans: list[Mapping[str, Any]] = []
    for trace in traces:
        of_trace = await parsed(trace.spans)
        settled = {} if trace.settled is None else trace.settled._asdict()
        left_out = {"spans_left_out": trace.spans_left_out} if trace.spans_left_out else {}
        objects.append({"trace_id": trace.trace_id.hex(), "settled": settled, "spans": of_trace, **left_out})
        spans += of_trace
    left_out_count = sum(trace.spans_left_out for trace in traces)
    return ReadBatch(spans, position, is_complete, expired_count=0, traces=objects, left_out_count=left_out_count)
