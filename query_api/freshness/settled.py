"""How far traces are settled, as the API reads it from Postgres (ADR 0049)."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Final, NamedTuple

from common.named_sql import load_named_sql
from common.postgres.pool import Database
from common.telemetry import REQUESTS_WAITING
from query_api.request.context import ApiContext, database_of

_SQL: Final = load_named_sql(Path(__file__).with_name("settled.sql"))

POLL_S: Final = 0.5
"""How often the last run is read while requests wait for it, once for all of them."""


async def read_settled_run(database: Database) -> int:
    """Return the last run of settling whose traces the feed may show; 0 if there is none."""
    row = await database.fetch_one(_SQL["settled_run"])
    assert row is not None  # noqa: S101 - the migration has inserted it
    return int(row["run"])


class SettlingProgress(NamedTuple):
    """How far the job is."""

    time_us: int
    clock_us: int | None
    """The clock at the last run that changed something; ``None`` before the first one."""

    oldest_us: int | None
    """The time of the oldest window that was not examined; ``None`` if there is none."""

    incomplete_count: int
    """Traces that were quiet and not complete when they were examined, at most as often as they changed."""

    is_running: bool

    @property
    def through_us(self) -> int | None:
        """The clock up to which everything that was stored is examined."""
        if self.clock_us is None or self.oldest_us is None:
            return self.clock_us
        return self.clock_us - (self.time_us - self.oldest_us)

    def behind_s(self, settling_s: float) -> float:
        """Return how much later than after ``settling_s`` traces settle now."""
        waited_us = 0 if self.oldest_us is None else self.time_us - self.oldest_us
        return max(0.0, waited_us / 1e6 - settling_s)


async def read_settling_progress(database: Database) -> SettlingProgress:
    """Return how far traces are settled."""
    row = await database.fetch_one(_SQL["settling_progress"])
    assert row is not None  # noqa: S101 - the migration has inserted it
    return SettlingProgress(**{name: row[name] for name in SettlingProgress._fields})


async def wait_for_settled(context: ApiContext, *, since: int, ends_s: float) -> bool:
    """Wait until a run after ``since`` is shown; return false if none is by ``ends_s``.

    Raises ``Overloaded`` if too many requests wait already.
    """
    if context.clock.monotonic_s() >= ends_s:
        return False
    async with context.waiting.place(timeout_s=context.settings.query.queue_s):
        with REQUESTS_WAITING.track_inprogress():
            while (left_s := ends_s - context.clock.monotonic_s()) > 0 and not context.stored.is_closed:
                if await _recent_run(context) > since:
                    return True
                await asyncio.sleep(min(POLL_S, left_s))
    return False


async def _recent_run(context: ApiContext) -> int:
    """Return the last run, as it was at most ``POLL_S`` ago."""
    known = context.settled
    async with known.reading:
        now_s = context.clock.monotonic_s()
        if now_s - known.read_s >= POLL_S:
            known.run = await read_settled_run(database_of(context))
            known.read_s = now_s
        return known.run
