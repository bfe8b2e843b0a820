"""How far traces are settled, in Postgres (ADR 0049).

A run is finished by one transaction, which finds the number of the run before it and that the lease is held. Otherwise
it changes nothing, whatever the job has read and computed by then.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Final, NamedTuple

import orjson

from common.named_sql import load_named_sql
from common.postgres.leases import Lease, LeaseLost, Leases
from common.postgres.pool import Database
from jobs.settling.frontiers import Frontiers, frontier_of, own_json, own_of_json, rest_json
from jobs.settling.windows import Ranges, StoredWindow, ranges_json, ranges_of_json

_SQL: Final = load_named_sql(Path(__file__).with_name("queries.sql"))


class SettlingState(NamedTuple):
    """What the last run has left."""

    run: int
    time_us: int
    """The time by which traces are quiet: it never goes back."""

    clock_us: int | None
    """The clock at the run; ``None`` before the first one."""

    positions: Mapping[str, int]
    """The offset to which each partition was stored, by partition id."""

    pending: bytes | None
    """What the run has settled, unless it is known to be in ClickHouse."""

    complete: Frontiers
    incomplete: Frontiers

    def time_at(self, clock_us: int) -> int:
        """Return the time of a run that begins now. A clock that was set back lets no time pass."""
        return self.time_us + max(0, clock_us - (clock_us if self.clock_us is None else self.clock_us))


class FinishedRun(NamedTuple):
    """What a run leaves: the state after it, and what it read and counted."""

    state: SettlingState
    ranges: Ranges
    """Its own window."""

    incomplete: Mapping[int, int]
    """How many traces were quiet and not complete, by window."""


@dataclass(frozen=True, slots=True)
class SettlingRecords:
    """The state of the job. Writes raise ``LeaseLost``, and the errors of ``Database``."""

    leases: Leases

    async def now_us(self) -> int:
        """Return the time of Postgres: all processes have the same."""
        row = await self.leases.database.fetch_one(_SQL["now"])
        assert row is not None  # noqa: S101 - the statement always returns a row
        return int(row["now_us"])

    async def load(self) -> SettlingState:
        """Return what the last run has left."""
        row = await self.leases.database.fetch_one(_SQL["load"])
        assert row is not None  # noqa: S101 - the migration has inserted it
        return SettlingState(
            row["run"],
            row["time_us"],
            row["clock_us"],
            orjson.loads(row["positions"]),
            row["pending"],
            _frontiers(row["complete_run"], row["complete_rest"], row["complete_own"]),
            _frontiers(row["incomplete_run"], row["incomplete_rest"], row["incomplete_own"]),
        )

    async def next_window(self, run: int, *, until_us: int) -> StoredWindow | None:
        """Return the first window after a run, unless it is later than a time."""
        row = await self.leases.database.fetch_one(_SQL["next_window"], run, until_us)
        return None if row is None else StoredWindow(row["run"], ranges_of_json(row["ranges"]))

    async def windows_since(self, time_us: int) -> list[StoredWindow]:
        """Return the windows after a time, in order."""
        rows = await self.leases.database.fetch_all(_SQL["windows_since"], time_us)
        return [StoredWindow(row["run"], ranges_of_json(row["ranges"])) for row in rows]

    async def finish(self, lease: Lease, finished: FinishedRun) -> None:
        """Store what a run leaves. Raises ``LeaseLost`` if another run was finished meanwhile."""
        state = finished.state
        values = (
            *(state.run, state.time_us, state.clock_us, orjson.dumps(state.positions).decode(), state.pending),
            *(*_columns(state.complete), *_columns(state.incomplete)),
        )
        async with self.leases.holding(lease) as transaction:
            if await transaction.fetch_one(_SQL["finish"], *values) is None:
                raise LeaseLost
            if finished.ranges:
                await transaction.fetch_all(_SQL["note_window"], state.run, state.time_us, ranges_json(finished.ranges))
            for run, count in finished.incomplete.items():
                await transaction.fetch_all(_SQL["count_incomplete"], run, count)
            await transaction.fetch_all(_SQL["forget_windows"], state.incomplete.oldest_run)

    async def mark_inserted(self, lease: Lease, run: int) -> None:
        """Store that what a run has settled is in ClickHouse."""
        async with self.leases.holding(lease) as transaction:
            await transaction.fetch_all(_SQL["mark_inserted"], run)


async def rewind(database: Database, stored: Mapping[str, int]) -> None:
    """Let the job continue from restored tables: ``stored`` is the last offset of each partition there.

    What is stored from there on is new. Of the windows that are kept, which are those of ``CLEARSPAN_SETTLING_MAX_S``,
    traces settle again that the tables do not have as settled. What was being inserted settles again, too.
    """
    await database.fetch_all(_SQL["rewind"], orjson.dumps(stored).decode())


def _frontiers(run: int, rest: str | None, own: str) -> Frontiers:
    return Frontiers(frontier_of(run, rest), own_of_json(own))


def _columns(frontiers: Frontiers) -> tuple[int, str | None, str]:
    return frontiers.common.run, rest_json(frontiers.common), own_json(frontiers.own)
