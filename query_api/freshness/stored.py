"""What this process knows of how far every log is stored, and who waits for more (ADR 0007).

Pure memory: ``follow.py`` fills it from the table ``stored_through`` and from the announcements of the workers. What is known
is true for ever, so it may be late and it may be forgotten, and is never wrong.
"""

from __future__ import annotations

import asyncio
from collections import OrderedDict
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from heapq import nlargest
from typing import Final, NamedTuple
from uuid import UUID

from common.stored_position import StoredPosition

PROJECTS_MAX: Final = 10_000
"""Of which something is kept in memory: about 2 KB each with a dozen logs. Those that were quiet longest are forgotten."""


class Through(NamedTuple):
    """How far one log is stored for one project: everything up to ``offset``, included."""

    offset: int
    record_ms: int
    """The timestamp of the record at that offset."""

    stored_us: int
    """When it was known to be stored, microseconds since 1970."""


@dataclass(slots=True)
class _Known:
    through: dict[str, Through] = field(default_factory=dict)
    news_count: int = 0
    waiting: set[asyncio.Future[None]] = field(default_factory=set)


class StoredThrough:
    """What is known, by project and log. ``ALL_PROJECTS`` stands for every record of a log.

    Belongs to one event loop.
    """

    def __init__(self) -> None:
        self._of_project: OrderedDict[UUID, _Known] = OrderedDict()
        self._is_closed = False
        self.waiting_count = 0
        """Calls that wait for news now."""

    def learn(self, positions: Iterable[StoredPosition]) -> None:
        """Take in what is settled, in any order; wakes who waits for a project of which it is news."""
        advanced: dict[UUID, _Known] = {}
        for each in positions:
            known = self._of_project.setdefault(each.project_id, _Known())
            before = known.through.get(each.partition_id)
            if before is None or before.offset < each.through_offset:
                known.through[each.partition_id] = Through(each.through_offset, each.record_ms, each.stored_us)
                advanced[each.project_id] = known
        for project_id, known in advanced.items():
            known.news_count += 1
            self._of_project.move_to_end(project_id)
            _wake(known)
        self._forget_quiet()

    def through(self, project_id: UUID) -> Mapping[str, Through]:
        """How far each log is stored for the project, as of now; empty when nothing is known."""
        known = self._of_project.get(project_id)
        return dict(known.through) if known is not None else {}

    def offsets(self, project_id: UUID, *, most: int) -> Mapping[str, int]:
        """The last offset of each log that is stored for the project, as of now: of ``most`` logs, those stored last."""
        through = self.through(project_id)
        last = (
            nlargest(most, through, key=lambda partition_id: through[partition_id].stored_us)
            if len(through) > most
            else through
        )
        return {partition_id: through[partition_id].offset for partition_id in last}

    def news_count(self, project_id: UUID) -> int:
        """How often something new was learnt of the project: what ``wait_for_news`` goes by."""
        known = self._of_project.get(project_id)
        return known.news_count if known is not None else 0

    async def wait_for_news(self, project_id: UUID, *, since: int, timeout_s: float) -> bool:
        """Whether more is known of the project than when ``news_count`` was ``since``; waits for it up to ``timeout_s``.

        Returns at once when it is so already, so that nothing is missed between a look and the wait. False also when the
        process ends.
        """
        known = self._of_project.setdefault(project_id, _Known())
        if known.news_count == since and not self._is_closed and timeout_s > 0:
            await self._wait(known, timeout_s)
        return known.news_count != since

    def release(self) -> None:
        """Let everybody go who waits, and nobody wait any more: the process ends."""
        self._is_closed = True
        for known in self._of_project.values():
            _wake(known)

    async def _wait(self, known: _Known, timeout_s: float) -> None:
        woken: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        known.waiting.add(woken)
        self.waiting_count += 1
        try:
            await asyncio.wait({woken}, timeout=timeout_s)
        finally:
            self.waiting_count -= 1
            known.waiting.discard(woken)

    def _forget_quiet(self) -> None:
        excess = len(self._of_project) - PROJECTS_MAX
        if excess <= 0:
            return
        quiet = [each for each, known in self._of_project.items() if not known.waiting][:excess]
        for project_id in quiet:
            del self._of_project[project_id]


def _wake(known: _Known) -> None:
    waiting, known.waiting = known.waiting, set()
    for each in waiting:
        each.set_result(None)
