"""How far windows are examined, and the shares of projects in that (contract §2, ADR 0052).

All projects have one frontier, the common one, as long as the job keeps up. A project that has more than its share of
what a run could not finish gets a frontier of its own, and the common one passes it by from there on::

    common ──────────────────────────────► half of each run
    a large project ──►                    a part of the other half, until it has reached the common one
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import Final, NamedTuple
from uuid import UUID

import orjson

from jobs.settling.windows import Ranges, ranges_json, ranges_of_json

LARGE_SHARE: Final = 16
"""A project is large if it uses more than one of this many parts of what a run may do."""

OWN_MAX: Final = 16
"""Large projects that have a frontier of their own."""

VERSIONS_PER_ROW: Final = 10
"""A run may judge this many times as many versions of spans as it may read arrivals."""


class Frontier(NamedTuple):
    """How far windows are examined: all up to ``run``, and of the next one all but ``rest``, if there is one."""

    run: int
    rest: Ranges | None = None


class Frontiers(NamedTuple):
    """The frontiers of one look at the windows."""

    common: Frontier
    own: Mapping[UUID, Frontier] = MappingProxyType({})
    """Of projects that are behind. Each is at most as far as the common one."""

    @property
    def oldest_run(self) -> int:
        """The last window that is examined for all projects."""
        return min([self.common.run, *(frontier.run for frontier in self.own.values())])

    def of(self, project_id: UUID) -> Frontier:
        """Return how far the windows are examined for a project."""
        return self.own.get(project_id, self.common)

    def behind(self, run: int) -> list[UUID]:
        """Return the projects for which a window is not examined, although the common frontier may have passed it."""
        return [project_id for project_id, frontier in self.own.items() if frontier.run < run]

    def with_own(self, project_ids: Iterable[UUID]) -> Frontiers:
        """Return the same with own frontiers for further projects, where the common one is."""
        return self._replace(own={**dict.fromkeys(project_ids, self.common), **self.own})

    def with_large(self, project_ids: Iterable[UUID]) -> Frontiers:
        """Return the same with own frontiers for large projects: the first ones, while there are few."""
        new = [project_id for project_id in project_ids if project_id not in self.own]
        return self.with_own(new[: max(0, OWN_MAX - len(self.own))])

    def with_one(self, project_id: UUID, frontier: Frontier) -> Frontiers:
        """Return the same with another frontier of a project."""
        return self._replace(own={**self.own, project_id: frontier})

    def joined(self) -> Frontiers:
        """Return the same without the own frontiers that have reached the common one."""
        return self._replace(
            own={project_id: frontier for project_id, frontier in self.own.items() if frontier != self.common}
        )


@dataclass(slots=True)
class Allowance:
    """How many arrivals may be read and versions of spans be judged, and who used how much of it."""

    rows: int
    versions: int
    rows_by: dict[UUID, int] = field(default_factory=lambda: defaultdict(int))
    versions_by: dict[UUID, int] = field(default_factory=lambda: defaultdict(int))
    rows_used: int = 0
    versions_used: int = 0

    @property
    def rows_left(self) -> int:
        """Arrivals that may still be read."""
        return self.rows - self.rows_used

    @property
    def is_used_up(self) -> bool:
        """Whether nothing more may be read."""
        return self.rows_left <= 0 or self.is_judged_up

    @property
    def is_judged_up(self) -> bool:
        """Whether no further trace may be judged."""
        return self.versions_used >= self.versions

    def use(self, project_id: UUID, *, rows: int = 0, versions: int = 0) -> None:
        """Count what was read and judged for a project."""
        self.rows_by[project_id] += rows
        self.versions_by[project_id] += versions
        self.rows_used += rows
        self.versions_used += versions

    def part(self, count: int) -> Allowance:
        """Return one of ``count`` equal parts of what is left."""
        return Allowance(max(1, self.rows_left // count), max(1, (self.versions - self.versions_used) // count))

    def count_part(self, part: Allowance) -> None:
        """Count what was used of a part."""
        self.rows_used += part.rows_used
        self.versions_used += part.versions_used

    def large_users(self) -> list[UUID]:
        """Return the projects that have used more than their share, those with the most first."""

        def share(project_id: UUID) -> float:
            return max(self.rows_by[project_id] / self.rows, self.versions_by[project_id] / self.versions)

        shares = {project_id: share(project_id) for project_id in [*self.rows_by]}
        large = [project_id for project_id, used in shares.items() if used > 1 / LARGE_SHARE]
        return sorted(large, key=lambda project_id: (-shares[project_id], project_id))


def allowance_of(rows: int) -> Allowance:
    """Return what a run may do that reads ``rows`` arrivals."""
    return Allowance(rows, rows * VERSIONS_PER_ROW)


def own_json(own: Mapping[UUID, Frontier]) -> str:
    """Return the frontiers of projects as JSON."""
    lanes = {str(project_id): [each.run, rest_json(each)] for project_id, each in own.items()}
    return orjson.dumps(lanes).decode()


def own_of_json(text: str) -> dict[UUID, Frontier]:
    """Return what ``own_json`` wrote."""
    return {UUID(project_id): frontier_of(run, rest) for project_id, (run, rest) in orjson.loads(text).items()}


def rest_json(frontier: Frontier) -> str | None:
    """Return the rest of a frontier as JSON."""
    return None if frontier.rest is None else ranges_json(frontier.rest)


def frontier_of(run: int, rest: str | None) -> Frontier:
    """Return a frontier from what ``rest_json`` wrote."""
    return Frontier(run, None if rest is None else ranges_of_json(rest))
