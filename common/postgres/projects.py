"""Projects: create, list and find them."""

from __future__ import annotations

from datetime import datetime
from typing import Final, NamedTuple
from uuid import UUID, uuid4

from common.ids import DEFAULT_USER_ID
from common.postgres.pool import Database, Row, Transaction
from common.postgres.queries import SQL
from common.postgres.remembering import Remembering
from common.times import Clock

FIRST_ENVIRONMENTS: Final = ("development", "staging", "production")
"""The environments of a new project (contract §5)."""

REMEMBERED_MAX: Final = 10_000
PRESENT_FOR_S: Final = 60.0
"""Projects are never deleted, so a stale entry cannot be wrong."""

ABSENT_FOR_S: Final = 1.0
"""A new project must be found soon, but a flood of records with an unknown project must not reach Postgres."""


class Project(NamedTuple):
    """One project."""

    id: UUID
    name: str
    created_at: datetime


class Projects:
    """The projects of an installation."""

    def __init__(self, database: Database, clock: Clock) -> None:
        self._database = database
        self._remembered: Remembering[UUID, bool] = Remembering(clock, count_max=REMEMBERED_MAX)

    async def exists(self, project_id: UUID, /) -> bool:
        """Return whether the project exists. A new one is seen within a second."""
        known = self._remembered.recall(project_id)
        if known is not None:
            return known[0]
        exists = await self._database.fetch_one(SQL["project_exists"], project_id) is not None
        self._remembered.remember(project_id, exists, for_s=PRESENT_FOR_S if exists else ABSENT_FOR_S)
        return exists

    async def create(self, name: str, /, *, seed_defaults: bool = True) -> Project:
        """Create a project, with environments unless ``seed_defaults`` is false. Names need not be unique."""
        return await insert_project(self._database, name, seed_defaults=seed_defaults)

    async def find(self, project_id: UUID, /) -> Project | None:
        """Return the project of that id."""
        row = await self._database.fetch_one(SQL["find_project"], project_id)
        return None if row is None else _project(row)

    async def named(self, name: str, /) -> list[Project]:
        """Return the projects of that name, oldest first."""
        return [_project(row) for row in await self._database.fetch_all(SQL["projects_named"], name)]

    async def all(self) -> list[Project]:
        """Return all projects, oldest first."""
        return [_project(row) for row in await self._database.fetch_all(SQL["list_projects"])]


async def insert_project(
    executor: Database | Transaction, name: str, /, *, seed_defaults: bool = True, user_id: UUID = DEFAULT_USER_ID
) -> Project:
    """Create a project like ``Projects.create``, also within a transaction.

    ``user_id`` is the author of its environments.
    """
    environments = FIRST_ENVIRONMENTS if seed_defaults else ()
    (row,) = await executor.fetch_all(SQL["create_project"], uuid4(), name, environments, user_id)
    return _project(row)


def _project(row: Row) -> Project:
    return Project(**row)
