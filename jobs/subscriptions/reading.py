"""Reads the batches of one subscription from the feed.

A batch is all that matches between two positions. Its borders are stored before it is delivered, so a later try holds
no span that an earlier one did not hold: what became queryable since is after the border (ADR 0018).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Any, Final, NamedTuple, Protocol
from uuid import UUID

import orjson

from common.clickhouse.store import ColumnStore
from common.clickhouse.stored_through import read_positions_of
from common.errors import Unavailable
from common.fair_share import in_thread
from common.limits import MIB
from common.settings import Settings
from common.times import Clock
from query_api.delivery.selection import Selection
from query_api.delivery.shown import FeedPosition
from query_api.pages.arrivals import Positions
from query_api.pages.feed import FeedPage, FeedQuery, read_feed
from query_api.request.progress import StoredThrough
from query_api.spans.project_spans import ProjectSpans
from query_api.spans.rows import Rendered

LARGE_BYTES: Final = 1 * MIB
"""From here on JSON is parsed in a thread, so that other subscriptions are not delayed."""


class ReadBatch(NamedTuple):
    """Spans and the position after them. ``is_complete`` is false if more is stored than was examined."""

    spans: Sequence[Mapping[str, Any]]
    positions: FeedPosition
    is_complete: bool
    expired_count: int
    """Spans that match and were deleted before they were read."""

    traces: Sequence[Mapping[str, Any]] | None = None
    """The settled traces of the spans; ``None`` in the feed of spans."""

    left_out_count: int = 0
    """Spans that are missing because their traces are too large."""

    @property
    def items(self) -> Sequence[Mapping[str, Any]]:
        """The spans, or the settled traces."""
        return self.spans if self.traces is None else self.traces

    @property
    def first_at(self) -> datetime:
        """When the first item was stored, or settled."""
        return available_at(self.items[0])

    @property
    def last_at(self) -> datetime:
        """The same of the last item."""
        return available_at(self.items[-1])


class FeedReader(Protocol):
    """Reads one of the feeds, within the limits of a batch. Positions are those of the feed."""

    async def learn(self, project_id: UUID, *, unless_within_s: float = 0.0) -> None:
        """Read how far the feed is, unless that was done a short time ago."""
        ...

    def news_count(self, project_id: UUID) -> int:
        """Return a number that differs when there may be more to read."""
        ...

    async def wait_for_news(self, project_id: UUID, *, since: int, timeout_s: float) -> bool:
        """Wait until ``news_count`` differs from ``since``; return whether it does."""
        ...

    async def next_batch(self, project_id: UUID, selection: Selection, positions: Any) -> ReadBatch:
        """Return what matches after a position: at most a batch."""
        ...

    async def same_batch(self, project_id: UUID, selection: Selection, positions: Any, until: Any) -> ReadBatch:
        """Return what still matches between two positions."""
        ...


@dataclass(frozen=True, slots=True)
class BatchReader:
    """Reads the feed of any project, within the limits of a batch."""

    store: ColumnStore
    stored: StoredThrough
    settings: Settings
    clock: Clock
    learned_s: dict[UUID, float] = field(default_factory=dict)
    """When the table was last read, by project."""

    async def learn(self, project_id: UUID, *, unless_within_s: float = 0.0) -> None:
        """Read from the table how far the project is stored, unless that was done a short time ago."""
        now_s = self.clock.monotonic_s()
        if now_s - self.learned_s.get(project_id, float("-inf")) < unless_within_s:
            return
        self.learned_s[project_id] = now_s
        deadline_s = self.settings.query.budget_s
        self.stored.learn(await read_positions_of(self.store, project_id, deadline_s=deadline_s))

    def news_count(self, project_id: UUID) -> int:
        """Return how often the project advanced."""
        return self.stored.news_count(project_id)

    async def wait_for_news(self, project_id: UUID, *, since: int, timeout_s: float) -> bool:
        """Wait for an announcement of a worker."""
        return await self.stored.wait_for_news(project_id, since=since, timeout_s=timeout_s)

    async def next_batch(self, project_id: UUID, selection: Selection, positions: Positions) -> ReadBatch:
        """Return what matches after ``positions``: at most a batch."""
        delivery = self.settings.delivery
        limits = (delivery.batch_spans_max, delivery.batch_bytes_max)
        page = await self._page(project_id, selection, positions, limits=limits)
        through = self.stored.through(project_id)
        reached = Positions.at_end_of({id_: last.offset for id_, last in through.items()})
        is_complete = page.is_complete and page.positions.covers(reached)
        return ReadBatch(await parsed(page.spans), page.positions, is_complete, page.expired_count)

    async def same_batch(
        self, project_id: UUID, selection: Selection, positions: Positions, until: Positions
    ) -> ReadBatch:
        """Return what still matches between two positions.

        Raises ``Unavailable`` if this process does not know yet that everything up to ``until`` is stored.
        """
        spans: list[Rendered] = []
        expired_count = 0
        limits = (self.settings.query.page_limit_max, 2 * self.settings.delivery.batch_bytes_max)
        is_moving = True
        while is_moving and not positions.covers(until):
            page = await self._page(project_id, selection, positions, limits=limits, until=until)
            is_moving = page.positions != positions
            positions = page.positions
            spans += page.spans
            expired_count += page.expired_count
        if not positions.covers(until):
            raise Unavailable("The end of the batch is not known to be stored yet.")
        return ReadBatch(await parsed(spans), until, is_complete=False, expired_count=expired_count)

    async def _page(
        self,
        project_id: UUID,
        selection: Selection,
        positions: Positions,
        *,
        limits: tuple[int, int],
        until: Positions | None = None,
    ) -> FeedPage:
        settings = self.settings
        spans = ProjectSpans.of_query(
            self.store, project_id, settings.query, self.clock, has_neighbors=settings.auth == "on"
        )
        limit, bytes_max = limits
        wanted = FeedQuery(selection.matching, selection.window, limit=limit, bytes_max=bytes_max)
        return await read_feed(spans, wanted, positions, through=self.stored.through(project_id), until=until)


async def parsed(spans: Sequence[Rendered]) -> Sequence[Mapping[str, Any]]:
    """Return spans as objects."""
    if sum(len(span.json) for span in spans) > LARGE_BYTES:
        return await in_thread(_parse, spans)
    return _parse(spans)


def _parse(spans: Sequence[Rendered]) -> list[Mapping[str, Any]]:
    return [orjson.loads(span.json) for span in spans]


def available_at(item: Mapping[str, Any]) -> datetime:
    """Return when a span was stored, or when a trace settled."""
    text = item["settled"]["at"] if "settled" in item else item["created_at"]
    return datetime.fromisoformat(text).astimezone(UTC)
