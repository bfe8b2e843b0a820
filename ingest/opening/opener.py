"""Who opens portions: the promise, the one that does it in a thread of this process, and the choice."""

from __future__ import annotations

import asyncio
from typing import Protocol

from common.clickhouse.span_columns import warm_up
from ingest.consume import Rules
from ingest.opening.portion import OpenedPortion, Portion, open_portion
from ingest.opening.processes import ProcessOpener


class Opener(Protocol):
    """Opens portions beside the loop. The same portion gives the same rows wherever it is opened."""

    @property
    def portions_max(self) -> int:
        """So many at once keep it busy; more would only wait."""
        ...

    async def open(self, portion: Portion, /) -> OpenedPortion:
        """The portion, opened. Safe to cancel. What it raises is a bug of ours: nothing may be committed then."""
        ...

    async def close(self) -> None:
        """Let go of threads and processes; what is being opened is dropped. Safe to call twice."""
        ...


class ThreadOpener:
    """In a thread of this process, one at a time: it shares the interpreter with everything else here."""

    portions_max = 1

    def __init__(self, rules: Rules) -> None:
        self._rules = rules

    async def open(self, portion: Portion, /) -> OpenedPortion:
        """The portion, opened."""
        return await asyncio.to_thread(open_portion, portion, self._rules)

    async def close(self) -> None:
        """Nothing is held."""


async def open_opener(rules: Rules, *, processes: int) -> Opener:
    """One with so many processes of its own, which are on their way; with none, it works in a thread of this one."""
    if processes:
        return ProcessOpener(rules, processes=processes)
    await asyncio.to_thread(warm_up)
    return ThreadOpener(rules)
